"""Families of classes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from steinflow.models.formulas import FAMILIES

MU = 0.3
P = 1 / (1 + np.exp(-MU))


def test_a_binomial_counts_successes():
    rows = {"y": jnp.arange(4.0), "trials": jnp.full(4, 5.0)}
    found = FAMILIES["binomial"]().log_density({"mu": jnp.full(4, MU)}, rows)
    np.testing.assert_allclose(found, stats.binom(5, P).logpmf([0, 1, 2, 3]), rtol=1e-5)


@pytest.mark.parametrize("name", ["cumulative", "categorical"])
def test_classes_have_the_probabilities_of_their_means(name):
    family, y = FAMILIES[name](num_levels=4), jnp.arange(4)
    mu = jnp.full(4, MU) if name == "cumulative" else jnp.tile(jnp.array([0.3, -1.0, 0.5]), (4, 1))
    forms = {"mu": mu, "threshold": jnp.array([-1.0, 0.2, 3.0])}
    probabilities = family.mean(forms, {})[0]
    np.testing.assert_allclose(jnp.exp(family.log_density(forms, {"y": y})), probabilities, rtol=1e-5)
    np.testing.assert_allclose(jnp.sum(probabilities), 1.0, rtol=1e-6)
    gradient = jax.grad(lambda mu: jnp.sum(family.log_density({**forms, "mu": mu}, {"y": y})))(mu)
    assert np.all(np.isfinite(gradient))
