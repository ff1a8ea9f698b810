"""Forecasts: metrics of known promises, and those of every family beside SciPy's."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.targets.forecasts import calibration_of_classes, calibration_of_positions

RNG = np.random.default_rng(0)


def test_positions_by_hand():
    positions = np.array([0.5, 0.2, 0.99, 0.7])  # in central intervals of 0%, 60%, 98% and 40%
    found = calibration_of_positions(positions)
    shares = np.array([1, 1, 1, 2, 2, 3, 3, 3, 3]) / 4
    assert (found["held_out_rows"], found["promised"], found["kept"]) == (4, 0.9, 0.75)
    assert found["calibration_error"] == pytest.approx(np.mean(np.abs(shares - np.arange(1, 10) / 10)))
    assert found["overconfidence"] == found["underconfidence"] == 0  # 15% of four rows are chance


@pytest.mark.parametrize("seed", range(3))
def test_promises_that_are_kept(seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(3), 1000)
    labels = np.array([rng.choice(3, p=p) for p in probabilities])
    for found in (calibration_of_positions(rng.uniform(size=1000)), calibration_of_classes(probabilities, labels)):
        assert found["overconfidence"] == pytest.approx(0, abs=0.02)
        assert found["underconfidence"] == pytest.approx(0, abs=0.02)
        assert found["calibration_error"] < 0.07  # of ten bins, by chance
        assert found["kept"] == pytest.approx(found["promised"], abs=0.05)


def test_classes_that_are_too_sure():
    """What was given 95% comes true in 70% of all rows; chance is two standard errors."""
    probabilities, labels = np.tile([0.95, 0.05], (200, 1)), (np.arange(200) % 10 >= 7).astype(int)
    found = calibration_of_classes(probabilities, labels)
    assert (found["promised"], found["kept"]) == pytest.approx((0.95, 0.7))
    assert found["calibration_error"] == pytest.approx(0.25)
    assert found["overconfidence"] == pytest.approx(0.25 - 2 * np.sqrt(0.95 * 0.05 / 200))


def test_promises_that_are_too_cautious():
    """Intervals of 50% that hold all of 100 rows, and classes of 60% that are right in 90% of all rows."""
    found = calibration_of_positions(np.linspace(0.4, 0.6, 100))
    assert found["underconfidence"] == pytest.approx(0.5 - 2 * np.sqrt(0.25 / 100))
    found = calibration_of_classes(np.tile([0.6, 0.4], (100, 1)), (np.arange(100) % 10 >= 9).astype(int))
    assert found["underconfidence"] == pytest.approx(0.3 - 2 * np.sqrt(0.24 / 100))
    assert found["overconfidence"] == 0


def test_forecasts_of_families():
    outputs = RNG.normal(size=8).astype(np.float32)
    y, log_gamma = RNG.normal(size=8).astype(np.float32), jnp.asarray(0.4)
    forms = sf.models.Head(sf.models.Gaussian()).forms(jnp.asarray(outputs), {"log_gamma": log_gamma})
    found = sf.models.Gaussian().forecasts(forms, {"y": y})[:, 0]
    np.testing.assert_allclose(found, stats.norm(outputs, np.exp(-0.2)).cdf(y), rtol=1e-4)
    counts, expected = RNG.poisson(2, size=8).astype(np.float32), stats.poisson(np.exp(outputs))
    found = sf.models.Poisson().forecasts({"mu": outputs}, {"y": counts})[:, 0]
    np.testing.assert_allclose(found, (expected.cdf(counts) + expected.cdf(counts - 1)) / 2, rtol=1e-4)
    probabilities = np.asarray(sf.models.Bernoulli().forecasts({"mu": outputs}, {}))
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-outputs)), rtol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    right = sf.models.Bernoulli().calibration(probabilities, outputs > 0)
    assert right["kept"] == 1
    assert sf.models.Categorical(2).calibration(probabilities, (outputs > 0).astype(int)) == right
