"""Families of classes: probabilities, draws, and responses that they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from responses import CLASSES, drawn, family_of, forms_of, known

from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.classes import Bernoulli, Binomial


@pytest.mark.parametrize("name", CLASSES)
def test_means_are_the_probabilities_of_the_classes(name, x64):
    log_densities, mean, _ = known(name)
    np.testing.assert_allclose(mean, np.tile(np.exp(log_densities), (4, 1)), rtol=1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_drawn_by_their_probabilities(name, x64):
    probabilities = np.exp(known(name)[0])
    shares = np.bincount(drawn(name, 20_000), minlength=4) / 20_000
    assert np.all(np.abs(shares - probabilities) < 4 * np.sqrt(probabilities * (1 - probabilities) / 20_000))


@pytest.mark.parametrize("name", CLASSES)
def test_slopes_are_finite_at_both_ends(name):
    forms, y = forms_of(name, 4), jnp.arange(4)

    def log_likelihood(mu):
        return jnp.sum(family_of(name).log_density(jax.tree.map(jnp.float32, forms | {"mu": mu}), {"y": y}))

    for far in (-30.0, 30.0):
        assert np.all(np.isfinite(jax.grad(log_likelihood)(jnp.float32(far + forms["mu"]))))


def test_centres_are_inside_whatever_the_response():
    ones, rows = np.ones(3), {"trials": np.full(3, 9.0)}
    assert Bernoulli().center_of(ones, {}) == 3.5 / 4
    assert Bernoulli().center_of(0 * ones, {}) == 0.5 / 4
    assert Binomial().center_of(9 * ones, rows) == 27.5 / 28
    assert Binomial().center_of(0 * ones, rows) == 0.5 / 28


def test_two_values_are_zero_and_one():
    with pytest.raises(FormulaError, match="'y' has 0, 1, 2"):
        Bernoulli().check(np.arange(3.0), "y")
