"""Tables to fit, as frames; the tests write them to files."""

import numpy as np
import pandas

HOSTILE = "</script><script>window.hacked=1</script>"
HOSTILE_CELL = '"><img src=x onerror=window.hacked=1>'


def numbers(num_rows=60, seed=0):
    """y = 10 + 2a - b + noise of sd 0.5."""
    generator = np.random.default_rng(seed)
    a, b = generator.normal(size=(2, num_rows))
    y = 10 + 2 * a - b + 0.5 * generator.normal(size=num_rows)
    return pandas.DataFrame({"a": a, "b": 100 + 5 * b, "y": y})


def two_classes(num_rows=120, seed=0):
    """yes or no, with a category and a hostile name."""
    generator = np.random.default_rng(seed)
    a, b = generator.normal(size=(2, num_rows))
    color = generator.choice(["red", "green", HOSTILE_CELL], size=num_rows)
    score = 2 * a - b + (color == "red") + generator.logistic(size=num_rows)
    return pandas.DataFrame({"a": a, HOSTILE: b, "color": color, "y": np.where(score > 0, "yes", "no")})


def three_classes(num_rows=150, seed=0):
    """Classes 1, 2, 3 around three places."""
    generator = np.random.default_rng(seed)
    y = generator.integers(1, 4, num_rows)
    places = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[y - 1]
    return pandas.DataFrame(places + generator.normal(size=(num_rows, 2)), columns=["a", "b"]).assign(y=y)


def counts(num_rows=150, seed=0):
    """Poisson with mean exp(1 + 0.5 a)."""
    generator = np.random.default_rng(seed)
    a, b = generator.normal(size=(2, num_rows))
    return pandas.DataFrame({"a": a, "b": b, "y": generator.poisson(np.exp(1 + 0.5 * a))})


def mixed():
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
