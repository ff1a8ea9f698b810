import equinox as eqx
import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein.bandwidths import median_distance

median = eqx.filter_jit(median_distance)  # one compilation for every size


def clouds(n, d):
    rng = np.random.default_rng(n + d)
    normal = rng.normal(size=(n, d))
    return {
        "normal": normal,
        "heavy tails": rng.standard_cauchy(size=(n, d)),
        "sorted": np.sort(normal, axis=0),
        "clustered": normal + 100 * rng.integers(0, 3, size=(n, 1)),
        "ties": rng.integers(0, 4, size=(n, d)).astype(float),
    }


@pytest.mark.parametrize("n", [2, 3, 4, 101, 362])
def test_exact_for_small_clouds(n):
    for name, x in clouds(n, 2).items():
        x = jnp.asarray(x, jnp.float32)
        np.testing.assert_allclose(median(x), naive.median_distance(x), rtol=1e-3, atol=1e-6, err_msg=name)


def test_exact_to_rounding(dtype):
    x = jnp.asarray(clouds(150, 3)["normal"], dtype)
    rounding = {"float32": 1e-6, "float64": 1e-14}[dtype.name]
    np.testing.assert_allclose(median(x), naive.median_distance(x), rtol=rounding)


def test_exact_over_many_orders_of_magnitude(x64):
    x = jnp.asarray(np.random.default_rng(0).standard_cauchy(size=(100, 1)) ** 3)
    np.testing.assert_allclose(median(x), naive.median_distance(x), rtol=1e-9)


@pytest.mark.parametrize(
    ("n", "d"),
    [(363, 1), pytest.param(1000, 1, marks=pytest.mark.slow), pytest.param(2500, 10, marks=pytest.mark.slow)],
)
def test_within_one_percent_for_large_clouds(n, d):
    for name, x in clouds(n, d).items():
        if name == "ties":
            continue
        x = jnp.asarray(x, jnp.float32)
        value = median(x)
        np.testing.assert_allclose(value, naive.median_distance(x), rtol=1e-2, err_msg=name)
        assert value == median(x), "the same on every run"


def test_paper_rule(dtype):
    x = jnp.asarray(clouds(50, 3)["normal"], dtype)
    h = sf.kernels.Median()(x)
    assert h.dtype == dtype
    np.testing.assert_allclose(h, naive.median_distance(x) ** 2 / np.log(50), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 100, 400])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e4])
def test_coinciding_particles_have_unit_bandwidth(n, value):
    assert median_h(jnp.full((n, 3), value)) == 1


median_h = eqx.filter_jit(sf.kernels.Median())


def test_half_duplicates():
    x = jnp.asarray(np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 25, axis=0), jnp.float32)
    np.testing.assert_allclose(median(x), naive.median_distance(x), rtol=1e-5)


def test_translation_and_scale():
    x = jnp.asarray(clouds(60, 2)["normal"], jnp.float32)
    np.testing.assert_allclose(median(1e3 + x), median(x), rtol=1e-3)
    np.testing.assert_allclose(median(1e-6 * x), 1e-6 * median(x), rtol=1e-5)
    np.testing.assert_allclose(median(1e6 * x), 1e6 * median(x), rtol=1e-5)


@pytest.mark.parametrize("h", [0, 0.0, -1.0, float("nan"), np.float32(-2), jnp.array(0.0)])
def test_impossible_bandwidth(h):
    with pytest.raises(ValueError, match="positive number"):
        sf.kernels.Fixed(h)
    with pytest.raises(ValueError, match="positive number"):
        sf.kernels.RBF(h)


def test_one_bandwidth_for_all_coordinates():
    with pytest.raises(ValueError, match="single number"):
        sf.kernels.RBF(jnp.ones(3))
