"""Small tables that several tests share."""

import numpy as np
import pandas
import pytest


@pytest.fixture(scope="session")
def table():
    """Numbers, classes, counts and groups, all of them with the same 60 rows."""
    rng = np.random.default_rng(0)
    g, h = np.repeat(np.arange(6), 10), np.tile(np.arange(5), 12)
    x, t = rng.normal(20, 3, 60), rng.uniform(0, 1, 60)
    z = rng.choice(["a", "b", "c"], 60)
    mean = 100 + 2 * x + 5 * (z == "b") + rng.normal(0, 3, 6)[g]
    return pandas.DataFrame(
        {
            "x": x,
            "t": t,
            "z": z,
            "g": g,
            "h": h,
            "y": mean + rng.normal(size=60),
            "positive": np.exp(rng.normal(size=60)),
            "share": rng.beta(2, 3, 60),
            "yes": rng.integers(0, 2, 60),
            "count": rng.poisson(3, 60),
            "trials": np.full(60, 9),
            "grade": rng.integers(1, 5, 60),
            "event": rng.integers(0, 2, 60),
            "weight": rng.uniform(0.5, 2, 60),
        }
    )
