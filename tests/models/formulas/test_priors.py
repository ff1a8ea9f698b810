"""Priors: what a text says, what takes the place of the usual one, what is printed."""

import jax
import numpy as np

import steinflow as sf


def test_a_prior_with_bounds_bounds_the_slope(table):
    target = sf.formula("y ~ x", table, priors={"x": "HalfNormal(3)", "Intercept": "Uniform(0, 500)"})
    draws = jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 20))
    assert np.all(np.asarray(draws["x"]) > 0)
    back = jax.jit(jax.vmap(lambda p: target.constrain(target.unconstrain(p))))(draws)
    np.testing.assert_allclose(back["x"], draws["x"], rtol=1e-4)
    np.testing.assert_allclose(back["Intercept"], draws["Intercept"], rtol=1e-3, atol=1e-2)
