"""Families of positive numbers: what they have in common with each other, and responses that they refuse."""

import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.models.families import FAMILIES

Y = jnp.linspace(0.1, 5, 20)
MU, ZERO = jnp.full(20, 0.4), jnp.zeros(20)


@pytest.mark.parametrize("name", ["weibull", "gamma"])
def test_a_shape_of_one_is_the_exponential(name):
    expected = FAMILIES["exponential"]().log_density({"mu": MU}, {"y": Y})
    found = FAMILIES[name]().log_density({"mu": MU, "alpha": ZERO}, {"y": Y})
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_logarithm_of_a_lognormal_is_normal():
    forms, logs = {"mu": MU, "sigma": ZERO - 0.5}, {"y": jnp.log(Y)}
    normal, log_normal = FAMILIES["gaussian"](), FAMILIES["lognormal"]()
    np.testing.assert_allclose(
        log_normal.log_density(forms, {"y": Y}), normal.log_density(forms, logs) - logs["y"], atol=1e-5
    )
    np.testing.assert_allclose(log_normal.log_survival(forms, {"y": Y}), normal.log_survival(forms, logs), rtol=1e-5)
    assert log_normal.center_of(np.exp([1.0, 2.0]), {}) == 1.5


@pytest.mark.parametrize("name", ["gamma", "lognormal", "weibull", "exponential"])
def test_values_are_positive(name):
    with pytest.raises(ValueError, match=f"'{name}' needs positive values; 'y' has 2 that are not, such as 0"):
        FAMILIES[name]().check(np.array([1.0, 0.0, -2.0]), "y")


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_shares_are_inside(end):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        FAMILIES["beta"]().check(np.array([0.5, end]), "y")
