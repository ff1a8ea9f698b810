"""The evidence against closed forms and quadrature."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.results.evidence import Proposal, evidence_of


def linear_regression(dim, seed=0):
    """Return the log density of unit-noise regression with a standard normal prior, exact draws, and its evidence."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * dim, dim)) @ (np.eye(dim) + 0.5)
    y = X @ rng.normal(size=dim) + rng.normal(size=len(X))
    covariance = np.linalg.inv(X.T @ X + np.eye(dim))
    draws = rng.multivariate_normal(covariance @ X.T @ y, covariance, size=100)
    exact = stats.multivariate_normal(np.zeros(len(X)), np.eye(len(X)) + X @ X.T).logpdf(y)

    def log_densities(w):
        return stats.norm.logpdf(w).sum(axis=1) + stats.norm.logpdf(y - w @ X.T).sum(axis=1)

    return log_densities, draws, exact


@pytest.mark.parametrize("dim", [1, 5, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_of_a_conjugate_regression_is_exact(dim, seed):
    log_densities, draws, exact = linear_regression(dim, seed)
    found = evidence_of(log_densities, draws, 10_000, seed)
    assert found.reason is None
    assert abs(found.log_evidence - exact) < 0.05
    assert abs(found.log_evidence - exact) < 5 * found.error
    assert found.error < 0.03
    assert found.pareto_k < 0.5


def test_the_proposal_is_a_density_and_draws_are_of_it():
    points = np.random.default_rng(0).normal(size=(40, 2)) * [1, 3]
    proposal = Proposal(points, np.full(40, 1 / 40))
    grid = np.linspace(-80, 80, 801)
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    masses = np.exp(proposal.log_density(x)) * (grid[1] - grid[0]) ** 2
    assert abs(masses.sum() - 1) < 0.01
    draws = proposal.draw(100_000, np.random.default_rng(1))
    mean = masses @ x
    np.testing.assert_allclose(np.mean(draws, axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.var(draws, axis=0), masses @ (x - mean) ** 2, rtol=0.05)


def test_it_declines_where_the_mixture_misses_the_mass():
    rng = np.random.default_rng(0)

    def log_densities(x):  # a funnel whose neck the points do not know
        return stats.norm.logpdf(x[:, 0], 0, 3) + stats.norm.logpdf(x[:, 1:], 0, np.exp(x[:, :1])).sum(axis=1)

    points = rng.normal(size=(100, 10)) * 0.3
    found = evidence_of(log_densities, points, 4000, 0)
    assert found.pareto_k > 0.7
    assert math.isnan(found.log_evidence)
    assert "Pareto k" in str(found)


def test_where_the_density_is_zero_there_is_no_evidence():
    found = evidence_of(lambda x: np.full(len(x), -np.inf), np.random.default_rng(0).normal(size=(50, 2)), 1000, 0)
    assert found.reason is not None
    assert math.isnan(found.log_evidence)


def test_of_a_result_with_a_constraint_is_that_of_the_beta_binomial():
    successes, trials = 7, 20

    def log_density(p):  # a uniform prior
        return successes * jnp.log(p) + (trials - successes) * jnp.log1p(-p) + math.log(math.comb(trials, successes))

    target = sf.Density(log_density, constraints=sf.constraints.unit_interval)
    start = jax.random.uniform(jax.random.key(0), (50,), minval=0.1, maxval=0.9)
    result = sf.fit(target, sf.SVGD(exploration=None), particles=start, num_steps=200, progress=False)
    found = result.evidence()
    assert abs(found.log_evidence + math.log(trials + 1)) < 0.05
    with pytest.raises(ValueError, match="evidence\\(target=target\\)"):
        dataclasses.replace(result, target=None).evidence()


def test_it_needs_log_densities():
    result = sf.fit(
        sf.from_score(lambda x: -x), sf.SVGD.paper(), particles=np.ones((5, 1)), num_steps=1, progress=False
    )
    with pytest.raises(ValueError, match="only knows its score"):
        result.evidence()


@pytest.mark.slow
def test_of_eight_schools_is_that_of_quadrature(standard_promotion):
    import numpyro
    import numpyro.distributions as dist

    y, sigma = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18.0])

    def model(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("school", 8):
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)

    mu, log_tau = np.linspace(-25, 25, 501), np.linspace(-12, 8, 1001)
    tau = np.exp(log_tau)
    likelihood = sum(stats.norm.logpdf(y[j], mu[:, None], np.sqrt(sigma[j] ** 2 + tau**2)) for j in range(8))
    prior = stats.norm.logpdf(mu, 0, 5)[:, None] + stats.halfcauchy.logpdf(tau, scale=5) + log_tau
    exact = np.log(np.exp(likelihood + prior).sum() * (mu[1] - mu[0]) * (log_tau[1] - log_tau[0]))
    found = sf.fit(sf.from_numpyro(model, y), progress=False).evidence()
    assert abs(found.log_evidence - exact) < 0.05
    assert found.pareto_k < 0.7
