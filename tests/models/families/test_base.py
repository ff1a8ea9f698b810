"""What every family promises, in double precision, on device and host: a density, its moments, draws and sums."""

import jax.numpy as jnp
import numpy as np
import pytest
from responses import CLASSES, CONTINUOUS, NUMBERS, drawn, family_of, known, total, values_of
from scipy import stats

from steinflow.models.families import FAMILIES, Gaussian

pytestmark = pytest.mark.usefixtures("x64")


def test_every_family_is_known():
    assert set(FAMILIES) == set(NUMBERS) | set(CLASSES)


@pytest.mark.parametrize("name", FAMILIES)
def test_densities_are_those_of_scipy_and_sum_to_one(name):
    log_densities = known(name)["log_density"]
    np.testing.assert_allclose(log_densities, (NUMBERS | CLASSES)[name](values_of(name)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(total(name, np.exp(log_densities)), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", NUMBERS)
def test_moments_and_draws_are_those_of_the_density(name):
    found = known(name)
    density, mean, y, draws = np.exp(found["log_density"]), found["mean"], values_of(name), drawn(name, 20_000)
    np.testing.assert_allclose(mean, total(name, density * y), rtol=1e-5)
    variance, fourth = (total(name, density * (y - mean[0]) ** k) for k in (2, 4))
    np.testing.assert_allclose(found["variance"], variance, rtol=1e-5)
    assert abs(draws.mean() - mean[0]) < 4 * np.sqrt(variance / len(draws))
    assert abs(draws.var() - variance) < 4 * np.sqrt((fourth - variance**2) / len(draws))
    assert family_of(name).check(draws, "y").shape == draws.shape


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "bernoulli"])  # which is of two classes
def test_distribution_functions_are_sums_of_the_density(name):
    found, y = known(name), values_of(name)
    density = np.exp(found["log_density"])
    below = np.cumsum(density)
    if name in CONTINUOUS:
        below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(y))])
    np.testing.assert_allclose(found["cdf"], below, atol=1e-5)
    if "log_survival" in found:
        np.testing.assert_allclose(np.exp(found["log_survival"]), 1 - below, atol=1e-5)


def test_counts_are_halfway_up_their_jump():
    forms, rows = {"mu": jnp.full(6, 0.3)}, {"y": jnp.arange(6.0)}
    poisson = stats.poisson(np.exp(0.3))
    expected = (poisson.cdf(np.arange(6)) + poisson.cdf(np.arange(6) - 1)) / 2
    np.testing.assert_allclose(FAMILIES["poisson"]().forecasts(forms, rows)[:, 0], expected, rtol=1e-6)


def test_a_family_of_ones_own_need_not_know_its_distribution_function():
    class Own(Gaussian):
        def cdf(self, forms, rows):
            return None

    assert Own().forecasts({"mu": jnp.zeros(2), "sigma": jnp.zeros(1)}, {"y": jnp.zeros(2)}) is None


@pytest.mark.parametrize("name", NUMBERS)
def test_errors_of_means(name):
    family, mean, y = family_of(name), jnp.array([0.2, 0.6]), jnp.array([0.0, 1.0])
    if name == "bernoulli":
        assert float(family.metrics(mean, y)["accuracy"]) == 1
    else:
        assert float(family.metrics(mean, y)["rmse"]) == pytest.approx(np.sqrt((0.2**2 + 0.4**2) / 2))
    np.testing.assert_array_equal(family.numbers(y), y)


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
    assert np.all(np.isfinite(np.asarray(family.sample(rng, forms, {}), np.float32)))
