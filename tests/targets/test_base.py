"""Targets in the user's space: functions as targets, priors, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.base import as_target


def test_a_function_is_a_target():
    target = as_target(lambda x: -0.5 * jnp.sum(x**2))
    assert as_target(target) is target
    np.testing.assert_allclose(target.log_density(jnp.array([1.0, 2.0])), -2.5)
    assert target.data is None
    assert target.observations is None
    assert target.knows_log_density
    assert target.identified


def test_constraints_add_their_log_determinant():
    target = sf.Density(lambda x: -x, constraints=sf.constraints.positive)
    y = jnp.asarray(0.7)  # x = exp(y), so that log |dx/dy| = y
    np.testing.assert_allclose(target.log_density(y), -jnp.exp(y) + y, rtol=1e-6)
    np.testing.assert_allclose(target.unconstrain(target.constrain(y)), y, rtol=1e-6)


def test_prior_draws():
    target = sf.Density(
        lambda x: -jnp.sum(x), prior=lambda key: jax.random.exponential(key, (2,)), constraints=sf.constraints.positive
    )
    result = sf.fit(target, num_particles=7, num_steps=2, progress=False)
    assert result.particles.shape == (7, 2)
    assert jnp.all(result.particles > 0)


def test_no_prior():
    with pytest.raises(ValueError, match=r"particles=x0.*prior"):
        as_target(lambda x: -x).sample_prior(jax.random.key(0))


@pytest.mark.parametrize("target", [None, 3.0, "normal"])
def test_not_a_target(target):
    with pytest.raises(TypeError, match="function of one particle"):
        as_target(target)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: None, "Does the function return its value"),
        (lambda x: -(x**2), "sum over its coordinates"),
        (lambda x: jnp.sum(x).astype(int), "real number that can be differentiated"),
    ],
)
def test_a_log_density_is_one_real_number(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_target(value).log_density(jnp.ones(2))
