"""What every family promises, in double precision: a density that sums to one, its mean, draws, survivals."""

import jax.numpy as jnp
import numpy as np
import pytest
from responses import CLASSES, NUMBERS, drawn, family_of, known, total, values_of

from steinflow.models.formulas import FAMILIES

pytestmark = pytest.mark.usefixtures("x64")


def test_every_family_is_known():
    assert set(FAMILIES) == set(NUMBERS) | set(CLASSES)


@pytest.mark.parametrize("name", FAMILIES)
def test_densities_are_those_of_scipy_and_sum_to_one(name):
    log_densities, _, _ = known(name)
    np.testing.assert_allclose(log_densities, (NUMBERS | CLASSES)[name](values_of(name)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(total(name, np.exp(log_densities)), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", NUMBERS)
def test_means_and_draws_are_those_of_the_density(name):
    log_densities, mean, _ = known(name)
    density, y, draws = np.exp(log_densities), values_of(name), drawn(name, 20_000)
    np.testing.assert_allclose(mean, total(name, density * y), rtol=1e-5)
    variance, fourth = (total(name, density * (y - mean[0]) ** k) for k in (2, 4))
    assert abs(draws.mean() - mean[0]) < 4 * np.sqrt(variance / len(draws))
    assert abs(draws.var() - variance) < 4 * np.sqrt((fourth - variance**2) / len(draws))
    assert family_of(name).check(draws, "y").shape == draws.shape


@pytest.mark.parametrize("name", [name for name, kind in FAMILIES.items() if kind.censored])
def test_survival_is_the_rest_of_the_density(name):
    log_densities, _, log_survivals = known(name)
    y, density = values_of(name), np.exp(log_densities)
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(y))])
    np.testing.assert_allclose(np.exp(log_survivals), 1 - below, atol=1e-5)


def test_what_priors_are_scaled_by():
    y = np.array([1.0, 2.0, 6.0])
    assert FAMILIES["gaussian"]().scale_of(y) == np.std(y)
    assert FAMILIES["lognormal"]().scale_of(y) == np.std(np.log(y))
    assert FAMILIES["gaussian"]().scale_of(np.ones(3)) == FAMILIES["lognormal"]().scale_of(np.ones(3)) == 1
    assert FAMILIES["poisson"]().scale_of(y) == 1


@pytest.mark.parametrize("name", ["weibull", "lognormal", "beta"])
def test_draws_are_finite_however_wide_a_prior_is(name):
    family, rng = FAMILIES[name](), np.random.default_rng(0)
    forms = {form: 20 * rng.standard_normal((3, 50)) for form in ("mu", *family.auxiliary)}
    mean = np.asarray(family.mean({form: jnp.asarray(values, float) for form, values in forms.items()}, {}), float)
    assert np.all(np.isfinite(np.asarray(family.sample(rng, forms, mean, {}), np.float32)))
