"""Mixtures over particles against SciPy's distributions, component by component."""

import numpy as np
import pytest
from scipy import stats

from steinflow.estimators.mixtures import Mixture, log_mean_exp
from steinflow.models.families import Gaussian, Poisson, StudentT

generator = np.random.default_rng(0)
WEIGHTS = generator.dirichlet(np.ones(30))
MEANS = 3 * generator.normal(size=(30, 7))
SDS = np.exp(generator.normal(size=(30, 1)))
SCALES = np.exp(generator.normal(size=(30, 7)))


def normals(weights, means, sds):
    return Mixture(weights, Gaussian(), {"mu": means, "sigma": np.log(sds)})


def students(weights, means, scales, df):
    return Mixture(weights, StudentT(), {"mu": means, "sigma": np.log(scales), "nu": np.log(df)})


def poissons(weights, rates):
    return Mixture(weights, Poisson(), {"mu": np.log(rates)})


CASES = {
    "normals": (normals(WEIGHTS, MEANS, SDS), stats.norm(MEANS, SDS), "logpdf", generator.normal(size=7)),
    "students": (students(WEIGHTS, MEANS, SCALES, 5.0), stats.t(5.0, MEANS, SCALES), "logpdf", np.arange(7.0)),
    "poissons": (poissons(WEIGHTS, np.exp(MEANS)), stats.poisson(np.exp(MEANS)), "logpmf", np.arange(7.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_moments_and_densities(name):
    mixture, components, log_density, y = CASES[name]
    mean = WEIGHTS @ components.mean()
    np.testing.assert_allclose(mixture.mean, mean)
    np.testing.assert_allclose(mixture.sd, np.sqrt(WEIGHTS @ (components.var() + components.mean() ** 2) - mean**2))
    np.testing.assert_allclose(mixture.log_density(y), np.log(WEIGHTS @ np.exp(getattr(components, log_density)(y))))
    np.testing.assert_allclose(mixture.cdf(y), WEIGHTS @ components.cdf(y))
    np.testing.assert_allclose(mixture.aleatoric_sd, np.sqrt(WEIGHTS @ np.broadcast_to(components.var(), MEANS.shape)))


@pytest.mark.parametrize("name", CASES)
def test_draws_of_every_component(name):
    mixture, components, _, _ = CASES[name]
    rng = np.random.default_rng(1)
    drawn = np.stack([mixture.sample(rng) for _ in range(3000)])
    sds = np.broadcast_to(components.std(), MEANS.shape)
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - components.mean()), 5 * sds / np.sqrt(3000))
    np.testing.assert_allclose(np.median(drawn.std(axis=0) / sds), 1, rtol=0.02)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_quantiles(level):
    for mixture in (CASES["normals"][0], CASES["students"][0]):
        np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, atol=1e-7)
    mixture = CASES["poissons"][0]
    counts = mixture.quantile(level)
    np.testing.assert_array_equal(counts, np.round(counts))
    assert np.all(mixture.cdf(counts) >= level)
    assert np.all(mixture.cdf(counts - 1) < level)


def test_quantiles_of_modes_far_apart():
    # Between the modes the density vanishes, and Newton's method with it.
    mixture = normals(np.array([0.5, 0.5]), np.array([[-50.0], [50.0]]), np.ones((2, 1)))
    np.testing.assert_allclose(mixture.quantile(0.25), -50, atol=1e-6)
    np.testing.assert_allclose(mixture.quantile(0.75), 50, atol=1e-6)


def test_one_particle():
    np.testing.assert_allclose(
        normals(np.ones(1), np.zeros((1, 1)), np.ones((1, 1))).quantile(0.95), stats.norm.ppf(0.95)
    )
    rates = np.array([[0.01, 1.0, 30.0]])
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_array_equal(poissons(np.ones(1), rates).quantile(level), stats.poisson.ppf(level, rates[0]))


def test_positions_are_even_under_the_model():
    rates = np.full((1, 20_000), 2.5)
    counts = generator.poisson(2.5, 20_000).astype(float)
    positions = poissons(np.ones(1), rates).position(counts)
    assert np.mean(positions) == pytest.approx(0.5, abs=0.01)
    assert poissons(np.ones(1), rates[:, :1]).position(np.zeros(1)) == pytest.approx(np.exp(-2.5) / 2)


def test_log_mean_exp_of_what_no_particle_explains():
    logs = np.array([[-np.inf, -1e4], [-np.inf, -1e4]])
    np.testing.assert_allclose(log_mean_exp(logs, np.array([0.5, 0.5])), [-np.inf, -1e4])
