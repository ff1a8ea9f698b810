import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein import operators
from steinflow.stein.kernels import Scaled, Sum, as_kernel

RNG = np.random.default_rng(0)
X = jnp.asarray(1 + RNG.normal(size=(6, 2)), jnp.float32)


def gram(kernel):
    return np.asarray(jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(X))(X), float)


def squares():
    x = np.asarray(X, float)
    return ((x[:, None] - x) ** 2).sum(-1)


def test_values():
    np.testing.assert_allclose(gram(sf.RBF(0.7)), np.exp(-squares() / 0.7), rtol=1e-5)
    np.testing.assert_allclose(gram(sf.IMQ(0.7)), (1 + squares() / 0.7) ** -0.5, rtol=1e-5)
    np.testing.assert_allclose(gram(sf.Multiquadric(0.7)), -((1 + squares() / 0.7) ** 0.75), rtol=1e-5)


def test_multiquadric_is_positive_definite_on_differences():
    values = gram(sf.Multiquadric(0.7))
    centering = np.eye(len(X)) - 1 / len(X)
    assert np.linalg.eigvalsh(values).min() < -1
    assert np.linalg.eigvalsh(centering @ values @ centering).min() > -1e-5
    assert np.linalg.eigvalsh(gram(sf.Centered(sf.Multiquadric(0.7)).adapt(X))).min() > -1e-5
    for kernel in [sf.Multiquadric(), sf.RBF() + 0.5 * sf.Multiquadric()]:
        with pytest.raises(ValueError, match=r"sf.Centered\(sf.Multiquadric\(\)\)"):
            sf.SVGD(kernel=kernel)
        with pytest.raises(ValueError, match=r"sf.Centered\(sf.Multiquadric\(\)\)"):
            operators.ksd_squared(X, -X, kernel)


def test_centred_is_one_plus_what_is_left_of_the_mean():
    values = gram(sf.RBF(0.7))
    centering = np.eye(len(X)) - 1 / len(X)
    expected = 1 + centering @ values @ centering
    np.testing.assert_allclose(gram(sf.Centered(sf.RBF(0.7)).adapt(X)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_linear_is_in_units_of_the_cloud(covariance):
    x = np.asarray(X, float)
    v = x - x.mean(0)
    cov = v.T @ v / len(v)
    precision = np.linalg.inv(cov) if covariance == "full" else np.diag(1 / np.diag(cov))
    kernel = sf.Linear(covariance).adapt(X)
    np.testing.assert_allclose(gram(kernel), 1 + v @ precision @ v.T, rtol=1e-4, atol=1e-5)
    again = kernel.adapt(5 * X)  # adapted is adapted
    np.testing.assert_array_equal(again.center, kernel.center)


def test_sums_and_multiples():
    kernel = (sf.RBF(1.0) + 0.5 * sf.IMQ(2.0) + sf.Linear()).adapt(X)
    assert isinstance(kernel, Sum)
    assert len(kernel.terms) == 3
    expected = gram(sf.RBF(1.0)) + 0.5 * gram(sf.IMQ(2.0)) + gram(sf.Linear().adapt(X))
    np.testing.assert_allclose(gram(kernel), expected, rtol=1e-5)
    assert isinstance(sf.RBF() * 2.0, Scaled)
    assert isinstance(2.0 * (sf.RBF() + sf.IMQ()), Scaled)


def test_plain_function_takes_part():
    kernel = as_kernel(lambda x, y: x @ y) + sf.RBF(1.0)
    x = np.asarray(X, float)
    np.testing.assert_allclose(gram(kernel), x @ x.T + gram(sf.RBF(1.0)), rtol=1e-5)


@pytest.mark.parametrize("kernel", [sf.RBF(), sf.IMQ(), sf.Linear(), sf.Linear("full"), sf.IMQ() + 0.1 * sf.Linear()])
def test_positive_definite(kernel):
    assert np.linalg.eigvalsh(gram(kernel.adapt(X))).min() > -1e-5


@pytest.mark.parametrize("value", [0.0, 0.1, 1e3])
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_linear_without_spread_is_the_constant(covariance, value):
    """The rounding of the mean is no variance to divide by."""
    x = jnp.full((30, 3), value)
    kernel = sf.Linear(covariance).adapt(x)
    assert not jnp.any(kernel.precision)
    direction = sf.stein_direction(x, jnp.ones_like(x), sf.Linear(covariance))
    np.testing.assert_allclose(direction, 1.0, rtol=1e-6)


def test_linear_with_one_flat_coordinate():
    x = X.at[:, 1].set(0.1)
    for covariance in ["diagonal", "full"]:
        direction = sf.stein_direction(x, -x, sf.Linear(covariance))
        assert jnp.all(jnp.abs(direction) < 10)


@pytest.mark.parametrize("factor", [0, -1.0, float("nan")])
def test_factor_must_be_positive(factor):
    with pytest.raises(ValueError, match="positive number"):
        factor * sf.RBF()


@pytest.mark.parametrize("factor", [sf.RBF(), jnp.ones(2)])
def test_factor_must_be_a_number(factor):
    with pytest.raises(TypeError, match="positive number"):
        sf.IMQ() * factor


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("rbf", "a function k"), (1.0, "a function k"), (sf.RBF, r"RBF\(\)"), ([], "a function k")],
)
def test_not_a_kernel(kernel, message):
    with pytest.raises(TypeError, match=message):
        as_kernel(kernel)
    with pytest.raises(TypeError, match=message):
        sf.SVGD(kernel=kernel)


def test_linear_takes_two_covariances():
    with pytest.raises(ValueError, match="'diagonal' or 'full'"):
        sf.Linear("banded")
    with pytest.raises(ValueError, match="adapt"):
        sf.Linear()(X[0], X[1])
