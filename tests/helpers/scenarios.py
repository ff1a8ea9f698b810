"""Targets of known moments: in the user's space, with starting particles that are off on purpose."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A target, how to draw one starting particle, and the exact mean and variance of its parameter."""

    name: str
    target: sf.Target
    start: Callable[[jax.Array], Any]
    mean: Any
    variance: Any

    def particles(self, num_particles: int, seed: int = 0):
        return jax.vmap(self.start)(jax.random.split(jax.random.key(seed), num_particles))

    def __str__(self):
        return self.name


def normal_log_density(x, mean=0.0, variance=1.0):
    return -0.5 * jnp.sum((x - mean) ** 2 / variance)


class Gaussian(sf.Target):
    """A Gaussian target whose numbers are leaves, so that all of one dimension share compiled code."""

    mean: jax.Array
    precision: jax.Array

    def log_density(self, params, batch=None):
        deviation = params - self.mean.astype(params.dtype)
        return -0.5 * deviation @ self.precision.astype(params.dtype) @ deviation


def gaussian(mean, covariance) -> Gaussian:
    """A Gaussian target with any covariance."""
    precision = np.linalg.inv(np.asarray(covariance, float))
    return Gaussian(jnp.asarray(mean, jnp.float32), jnp.asarray(precision, jnp.float32))


def standard_normal(dim: int) -> Scenario:
    return Scenario(
        f"Normal({dim})",
        sf.Density(normal_log_density),
        lambda key: 3 + 2 * jax.random.normal(key, (dim,)),
        np.zeros(dim),
        np.ones(dim),
    )


def correlated(correlation: float, scales=(1.0, 3.0)) -> Scenario:
    scales = np.asarray(scales)
    correlations = np.full((len(scales), len(scales)), correlation) + (1 - correlation) * np.eye(len(scales))
    covariance = correlations * np.outer(scales, scales)
    mean = np.arange(1.0, len(scales) + 1)
    return Scenario(
        f"Correlated({correlation})",
        gaussian(mean, covariance),
        lambda key: jax.random.normal(key, (len(scales),)),
        mean,
        np.diag(covariance),
    )


def log_normal(mu: float = 0.0, sigma: float = 0.4) -> Scenario:
    """LogNormal in the user's space: the log-determinant must be there for it to come out right."""
    return Scenario(
        "LogNormal",
        sf.Density(
            lambda x: jnp.sum(-jnp.log(x) - 0.5 * ((jnp.log(x) - mu) / sigma) ** 2),
            constraints=sf.constraints.positive,
        ),
        lambda key: jax.random.uniform(key, (1,), minval=0.5, maxval=4.0),
        np.array([np.exp(mu + sigma**2 / 2)]),
        np.array([(np.exp(sigma**2) - 1) * np.exp(2 * mu + sigma**2)]),
    )


def beta(a: float = 4.0, b: float = 2.0) -> Scenario:
    return Scenario(
        "Beta",
        sf.Density(
            lambda x: jnp.sum((a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x)),
            constraints=sf.constraints.unit_interval,
        ),
        lambda key: jax.random.uniform(key, (1,), minval=0.05, maxval=0.4),
        np.array([a / (a + b)]),
        np.array([a * b / ((a + b) ** 2 * (a + b + 1))]),
    )


def gamma_poisson(shape: float = 2.0, rate: float = 1.0, counts=(3, 1, 4, 1, 5, 9, 2, 6)) -> Scenario:
    """A rate with a Gamma prior and Poisson counts: its posterior is Gamma again."""
    counts = np.asarray(counts, np.float32)
    posterior_shape, posterior_rate = shape + counts.sum(), rate + len(counts)
    return Scenario(
        "Gamma-Poisson",
        sf.Posterior(
            lambda params: (shape - 1) * jnp.log(params["rate"]) - rate * params["rate"],
            lambda params, batch: batch * jnp.log(params["rate"]) - params["rate"],
            counts,
            constraints={"rate": sf.constraints.positive},
        ),
        lambda key: {"rate": jax.random.uniform(key, minval=0.5, maxval=2.0)},
        {"rate": np.array(posterior_shape / posterior_rate)},
        {"rate": np.array(posterior_shape / posterior_rate**2)},
    )


def paper_mixture() -> Scenario:
    """The paper's 1-D mixture, 1/3 N(-2, 1) + 2/3 N(2, 1), started at N(-10, 1)."""

    def log_density(x):
        return jnp.logaddexp(jnp.log(1 / 3) - 0.5 * (x[0] + 2) ** 2, jnp.log(2 / 3) - 0.5 * (x[0] - 2) ** 2)

    mean = 2 / 3
    return Scenario(
        "paper's mixture",
        sf.Density(log_density),
        lambda key: -10 + jax.random.normal(key, (1,)),
        np.array([mean]),
        np.array([1 + 4 - mean**2]),
    )


ALL = [
    standard_normal(1),
    standard_normal(3),
    correlated(0.5),
    correlated(-0.9),
    log_normal(),
    beta(),
    gamma_poisson(),
    paper_mixture(),
]
