"""Parameters to forms, and forms to likelihoods."""

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf


def test_auxiliary_parameters_may_have_formulas(table):
    target = sf.formula(["y ~ x", "sigma ~ t + (1 | g)"], table)
    p = target.sample_prior(jax.random.key(0))
    rows = target.rows()
    forms = jax.jit(lambda p: target.regression.forms(target.regression.from_user(p), rows))(p)
    log_sigma = p["sigma_Intercept"] + p["sigma_t"] * table["t"].to_numpy() + p["sigma_1|g"][table["g"].to_numpy()]
    np.testing.assert_allclose(forms["sigma"] + jnp.log(target.regression.unit), log_sigma, rtol=1e-3, atol=1e-3)


def test_offsets_have_the_slope_one(table):
    target = sf.formula("count ~ x + offset(log(trials))", table, family="poisson")
    p = jax.tree.map(lambda leaf: leaf[None], target.sample_prior(jax.random.key(0)))
    twice = target.means(p, table.assign(trials=2 * table["trials"]))
    np.testing.assert_allclose(twice, 2 * target.means(p), rtol=1e-4)


def test_a_weight_is_so_many_rows(table):
    plain, weighted = (sf.formula("y ~ x + (1 | g)", table, weights=weights) for weights in (None, "weight"))
    p = jax.tree.map(lambda leaf: leaf[None], plain.sample_prior(jax.random.key(0)))
    once, often = (target.observations.log_likelihoods(p)["y"][0] for target in (plain, weighted))
    np.testing.assert_allclose(often, table["weight"] * once, rtol=1e-4)
