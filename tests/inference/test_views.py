"""What a run looks like at one moment."""

import numpy as np
import pytest
from runs import X0

from steinflow.inference.views import View
from steinflow.methods.base import Draws


def buffered(count, weights=None):
    """Two chains of ten rows each, so many of them drawn."""
    return View(
        Draws(X0, weights, num_chains=2, count=np.asarray(count)),
        user={"x": X0},
        log_densities=-0.5 * np.sum(X0**2, axis=1),
        scores=-X0,
        finite=np.arange(20) != 1,
        records={},
    )


def test_rows_that_are_no_draws_are_cut_and_weigh_nothing():
    weights = np.arange(20, dtype=np.float32)
    view, rows = buffered(3, weights), [0, 1, 2, 10, 11, 12]
    cut = view.cut()
    np.testing.assert_array_equal(cut.draws.particles, X0[rows])
    np.testing.assert_array_equal(cut.user["x"], X0[rows])
    np.testing.assert_allclose(cut.draws.weights, weights[rows] / weights[rows].sum(), rtol=1e-6)
    assert cut.draws.num_chains == 2
    metrics = view.metrics()
    assert metrics["finite"] == pytest.approx(5 / 6)
    np.testing.assert_array_equal(np.flatnonzero(metrics["weights"]), rows[1:])
    np.testing.assert_allclose(np.sum(metrics["weights"]), 1, rtol=1e-6)


def test_a_full_buffer_stays_as_it_is():
    view = buffered(10)
    assert view.cut() is view
