"""Regression of numbers and counts: answers that agree with scikit-learn's and with SciPy's distributions."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import BayesianRidge

import steinflow as sf
from steinflow.estimators import SteinPoissonRegressor


def test_linear_regression_agrees_with_bayesian_ridge(diabetes):
    X, y, estimator = diabetes
    ridge = BayesianRidge().fit(X, y)
    mean, sd = estimator.predict(X, return_std=True)
    expected_mean, expected_sd = ridge.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, atol=0.1 * expected_sd.min())
    np.testing.assert_allclose(sd, expected_sd, rtol=0.05)
    np.testing.assert_allclose(estimator.predict(X), estimator.intercept_ + X.values @ estimator.coef_, rtol=1e-6)
    # The spread of the coefficients too: the posterior covariance of the ridge at its own precisions.
    X1 = np.column_stack([np.ones(len(X)), X])
    precision = ridge.alpha_ * X1.T @ X1 + np.diag([0, *[ridge.lambda_] * X.shape[1]])
    table = estimator.coefficients()
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diag(np.linalg.inv(precision))), rtol=0.15)


def test_intervals_and_log_predictive(diabetes):
    X, y, estimator = diabetes
    mean, sd = estimator.predict(X, return_std=True)
    # The mixture is almost a Gaussian here.
    np.testing.assert_allclose(estimator.log_predictive(X, y).mean(), stats.norm.logpdf(y, mean, sd).mean(), atol=0.01)
    low, high = estimator.predict_interval(X, level=0.8)
    np.testing.assert_allclose((low, high), stats.norm.interval(0.8, mean, sd), atol=0.05 * sd.min())
    np.testing.assert_allclose(estimator.pit(X, low), 0.1, atol=1e-6)
    np.testing.assert_allclose(estimator.pit(X, high), 0.9, atol=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        estimator.predict_interval(X, level=90)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.log_predictive(X, y[:-1])


def test_names_and_frames(diabetes):
    X, _, estimator = diabetes
    assert list(estimator.feature_names_in_) == list(X.columns)
    table = estimator.coefficients()
    assert isinstance(table, pd.DataFrame)
    assert list(table.index) == ["intercept", *X.columns]
    np.testing.assert_allclose(table["mean"].iloc[1:], estimator.coef_)
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(X.rename(columns={"age": "years"}))


@pytest.fixture(scope="module")
def fan():
    """A line with noise that grows along it, in units of its own."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, size=300)
    sd = 10 * np.exp(x)
    y = 1000 + 100 * x + sd * generator.normal(size=300)
    estimator = sf.SteinRegressor(noise="varying", num_steps=500, num_particles=50, random_state=0)
    return x[:, None], y, sd, estimator.fit(x[:, None], y)


def test_noise_that_varies(fan):
    X, y, sd, estimator = fan
    parts = estimator.uncertainty(X)
    np.testing.assert_allclose(parts.aleatoric, sd, rtol=0.25)
    np.testing.assert_allclose(parts.total, np.hypot(parts.epistemic, parts.aleatoric))
    np.testing.assert_allclose((parts.mean, parts.total), estimator.predict(X, return_std=True))
    assert np.all(parts.epistemic < 0.3 * parts.aleatoric)
    # Where a mixture of almost equal normals lies, and how dense it is.
    quantiles = estimator.predict_quantiles(X, (0.1, 0.5, 0.9))
    np.testing.assert_allclose(
        quantiles, stats.norm.ppf([0.1, 0.5, 0.9], parts.mean[:, None], parts.total[:, None]), atol=1
    )
    expected = stats.norm.logpdf(y, parts.mean, parts.total)
    np.testing.assert_allclose(estimator.log_predictive(X, y).mean(), expected.mean(), atol=0.02)
    with pytest.raises(ValueError, match="levels must be probabilities"):
        estimator.predict_quantiles(X, (5, 95))


def test_coefficients_of_mean_and_noise(fan):
    X, _, sd, estimator = fan
    table = estimator.coefficients()["mean"]
    slope, at_zero = table["x0", "log scale"], table["intercept", "log scale"]
    np.testing.assert_allclose(np.exp(at_zero + slope * X[:, 0]), sd, rtol=0.25)
    np.testing.assert_allclose(table["intercept", "mean"] + table["x0", "mean"] * X[:, 0], estimator.predict(X))
    np.testing.assert_allclose(estimator.intercept_ + X @ estimator.coef_, estimator.predict(X))


def test_noise_by_name():
    learned = {"shift_": [0.0], "scale_": [1.0], "response_shift_": 3.0, "response_scale_": 2.0, "n_features_in_": 1}
    particles = {"w": np.tile([[1.0, 0.0], [0.0, -1.0]], (2, 1, 1))}
    result = SimpleNamespace(particles=particles, probabilities=np.full(2, 0.5), info={"num_steps": 0})
    estimator = sf.SteinRegressor(noise="heavy-tailed").restore(result, learned)
    low, high = estimator.predict_interval([[0.5]])
    np.testing.assert_allclose([low, high], np.array(stats.t.interval(0.9, 4, 4.0, 2 * np.exp(-1)))[:, None])
    with pytest.raises(ValueError, match="noise must be one of"):
        sf.SteinRegressor(noise="none").fit([[0.0], [1.0]], [0.0, 1.0])


def test_huge_numbers():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    y = X @ [2.0, -1.0] + generator.normal(size=60)
    small, huge = (
        sf.SteinRegressor(num_particles=20, num_steps=50, random_state=0).fit(s * X, s * y) for s in (1, 2.0**600)
    )
    np.testing.assert_allclose(
        np.array(huge.predict(2.0**600 * X, return_std=True)) / 2.0**600, small.predict(X, return_std=True)
    )
    np.testing.assert_allclose(huge.coef_, small.coef_)


@pytest.mark.slow
def test_counts():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2)) * [1, 10]
    y = generator.poisson(np.exp(1 + 0.5 * X[:, 0]))
    estimator = SteinPoissonRegressor(num_particles=20, random_state=0).fit(X, y)
    mean, sd = estimator.predict(X, return_std=True)
    # Fisher's information gives the sds of the coefficients.
    X1 = np.column_stack([np.ones(200), X])
    error = np.sqrt(np.diag(np.linalg.inv(X1.T * np.exp(1 + 0.5 * X[:, 0]) @ X1)))
    found = estimator.coefficients()
    np.testing.assert_array_less(np.abs(found["mean"] - [1, 0.5, 0]), 4 * error)
    np.testing.assert_allclose(found["sd"], error, rtol=0.4)
    # The mean of a Poisson is its variance; the spread of the particles adds little.
    np.testing.assert_allclose(sd, np.sqrt(mean), rtol=0.1)
    low, high = estimator.predict_interval(X)
    assert np.mean((low <= y) & (y <= high)) >= 0.9
    np.testing.assert_allclose(estimator.log_predictive(X, y).mean(), stats.poisson.logpmf(y, mean).mean(), atol=0.01)
    with pytest.raises(ValueError, match="counts"):
        SteinPoissonRegressor().fit(X, y - 0.5)


def test_counts_of_known_rates():
    result = SimpleNamespace(
        particles={"w": np.tile([0.5, 0.0, 1.0], (3, 1))}, probabilities=np.full(3, 1 / 3), info={"num_steps": 0}
    )
    learned = {"shift_": [0.0, 0.0], "scale_": [1.0, 1.0], "response_shift_": 0.0, "response_scale_": 1.0}
    estimator = SteinPoissonRegressor().restore(result, {**learned, "n_features_in_": 2})
    X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0]])
    rates = np.exp(1 + 0.5 * X[:, 0])
    low, high = estimator.predict_interval(X)
    np.testing.assert_allclose(estimator.predict(X), rates)
    np.testing.assert_array_equal(low, stats.poisson.ppf(0.05, rates))
    np.testing.assert_array_equal(high, stats.poisson.ppf(0.95, rates))
