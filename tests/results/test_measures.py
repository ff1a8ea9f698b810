"""What is measured in NumPy is what the compiled definitions say."""

import jax.numpy as jnp
import numpy as np
import pytest
from compiled import ksd_squared

from steinflow.methods.svgd.metrics import Cloud
from steinflow.results import measures
from steinflow.stein.bandwidths import EXACT_MEDIAN, Median, Wide
from steinflow.stein.discrepancy import dispersion_of
from steinflow.stein.geometry import distinct_squares
from steinflow.stein.kernels import IMQ

RNG = np.random.default_rng(0)
MIXED = RNG.standard_normal((4, 4))


def cloud(n, dim=4):
    """Correlated points, and scores that do not fit them."""
    points = np.random.default_rng(n).standard_normal((n, dim)) @ MIXED[:dim, :dim] + 3
    return points.astype(np.float32), (1 - 0.5 * points).astype(np.float32)


@pytest.mark.parametrize("n", [*(pytest.param(n, marks=pytest.mark.slow) for n in (2, 50)), EXACT_MEDIAN + 200])
def test_ksd_and_bandwidths_are_those_of_the_kernels(n):
    x, s = cloud(n)
    weights = (w := np.arange(1.0, n + 1)) / w.sum()
    for rule, bandwidth in ((Median(), measures.median_bandwidth(x)), (Wide(), measures.wide_bandwidth(x))):
        np.testing.assert_allclose(bandwidth, rule(jnp.asarray(x)), rtol=2e-3 if n > EXACT_MEDIAN else 1e-5)
        kernel = IMQ(bandwidth)
        for w in (None, weights):
            found = measures.ksd_squared(*(a.astype(float) for a in (x, s)), bandwidth, w)
            weights_there = None if w is None else jnp.asarray(w, jnp.float32)
            expected = ksd_squared(jnp.asarray(x), jnp.asarray(s), kernel, weights=weights_there)
            np.testing.assert_allclose(found, expected, rtol=1e-4)
    kernel = IMQ().adapt(jnp.asarray(x))
    points = kernel.stein_rows(jnp.asarray(x), jnp.asarray(s))
    own = np.diagonal(kernel.stein_matrix(points, points))
    found = measures.stein_kernel_means(x.astype(float), s.astype(float), float(kernel.bandwidth.h))[1]
    np.testing.assert_allclose(found, np.mean(own), rtol=1e-4)


def test_ksd_of_many_is_close_to_that_of_all_pairs(monkeypatch):
    """Beyond so many particles, here 250, pairs of an even sample represent all."""
    points = 1.5 * np.random.default_rng(3).standard_normal((1000, 2)).astype(np.float32)
    exact = measures.ksd_of(points, -points)
    monkeypatch.setattr(measures, "_KSD_PARTICLES", 250)
    np.testing.assert_allclose(measures.ksd_of(points, -points), exact, rtol=0.1)


@pytest.mark.parametrize(("n", "dim"), [(50, 4), (3, 4), (50, 1), (4, 4), (1, 2)])
def test_coordinates_are_those_of_the_metric(n, dim):
    x, s = cloud(n, dim)
    frame = Cloud().frame(jnp.asarray(x))
    u, t = measures.in_cloud(x, s)
    np.testing.assert_allclose(u, frame.points(jnp.asarray(x)), atol=2e-3)
    np.testing.assert_allclose(t, frame.scores(jnp.asarray(s)), rtol=2e-3, atol=1e-3)


def test_distances_of_numpy_are_those_of_jax():
    x, y = np.random.default_rng(0).standard_normal((2, 3, 7, 2))
    x[0, 0] = y[0, 0]
    found = distinct_squares(x, y)
    assert isinstance(found, np.ndarray)
    assert found[0, 0, 0] == 0
    np.testing.assert_allclose(found, distinct_squares(jnp.asarray(x), jnp.asarray(y)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found, ((x[:, :, None] - y[:, None]) ** 2).sum(axis=-1), atol=1e-12)


def test_points_that_coincide_have_no_bandwidth():
    x = np.ones((5, 2), np.float32)
    assert measures.median_bandwidth(x) == measures.wide_bandwidth(x) == 1
    u, t = measures.in_cloud(x, 3 * x)
    np.testing.assert_allclose(u, 0)
    np.testing.assert_allclose(t, Cloud().frame(jnp.asarray(x)).scores(3 * jnp.asarray(x)), rtol=1e-4)


def test_dispersion_by_hand():
    x, s = cloud(9)
    weights = np.arange(9.0) / 36
    expected = -sum(w * (xi - weights @ x) * si for w, xi, si in zip(weights, x, s, strict=True))
    for given in ((x, s, weights), (jnp.asarray(x), jnp.asarray(s), jnp.asarray(weights, jnp.float32))):
        found = dispersion_of(*given)
        assert isinstance(found, type(given[0]))
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_what_is_watched_by_hand():
    x, s = cloud(60)
    found = measures.watched(x, s)
    dispersion = -np.mean((x - x.mean(axis=0)) * s, axis=0)
    np.testing.assert_allclose(found["dispersion"], np.median(dispersion), rtol=1e-5)
    np.testing.assert_allclose(found["dispersion_error"], np.max(np.abs(dispersion - 1)), rtol=1e-5)
    np.testing.assert_allclose(found["ksd"], measures.ksd_of(x, s), rtol=1e-6)
    assert all(value.dtype == np.float32 for value in found.values())
    # Of a Gaussian the estimate is exact: here the target's mean is half an sd away in every coordinate of the cloud.
    u, _ = measures.in_cloud(x, s)
    factor = np.linalg.lstsq(u, x - x.mean(axis=0))[0].T
    scores = (-(u - 0.5) @ np.linalg.inv(factor)).astype(np.float32)
    np.testing.assert_allclose(measures.watched(x, scores)["mean_error"], 0.5, rtol=1e-2)


def test_what_is_not_finite_is_reported_as_it_is():
    x, s = cloud(20)
    x[3, 1] = np.inf
    assert not np.isfinite(measures.watched(x, s)["ksd"])
