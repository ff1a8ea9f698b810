"""Models of series: each is a `lax.scan` over time."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy import stats
from numpyro.distributions import constraints

import steinflow as sf
from steinflow.targets.numpyro import from_numpyro


def ark(data) -> sf.Target:
    """An autoregression of order 5."""
    y, order = data["y"], data["K"]
    lags = jnp.stack([y[order - k : len(y) - k] for k in range(1, order + 1)], axis=1)

    def log_density(particle):
        alpha, beta, sigma = particle["alpha"], particle["beta"], particle["sigma"]
        log_prior = stats.norm.logpdf(alpha, 0, 10) + jnp.sum(stats.norm.logpdf(beta, 0, 10))
        log_prior += stats.cauchy.logpdf(sigma, 0, 2.5)
        return log_prior + jnp.sum(stats.norm.logpdf(y[order:], alpha + lags @ beta, sigma))

    return sf.Density(log_density, constraints={"alpha": None, "beta": None, "sigma": constraints.positive})


def arma11(data) -> sf.Target:
    """An autoregression and a moving average, of order 1 each."""
    y = jnp.asarray(data["y"])

    def errors(mu, phi, theta):
        def step(error, pair):
            before, now = pair
            error = now - (mu + phi * before + theta * error)
            return error, error

        first = y[0] - (mu + phi * mu)
        return jnp.append(jax.lax.scan(step, first, (y[:-1], y[1:]))[1], first)

    def log_density(particle):
        mu, phi, theta, sigma = (particle[name] for name in ("mu", "phi", "theta", "sigma"))
        log_prior = stats.norm.logpdf(mu, 0, 10) + stats.norm.logpdf(phi, 0, 2) + stats.norm.logpdf(theta, 0, 2)
        log_prior += stats.cauchy.logpdf(sigma, 0, 2.5)
        return log_prior + jnp.sum(stats.norm.logpdf(errors(mu, phi, theta), 0, sigma))

    real = dict.fromkeys(("mu", "phi", "theta"))
    return sf.Density(log_density, constraints={**real, "sigma": constraints.positive})


def garch11(data) -> sf.Target:
    """Volatility that follows the last shock; the room of beta1 depends on alpha1."""

    def model(y, first_sd):
        mu = numpyro.sample("mu", dist.ImproperUniform(constraints.real, (), ()))
        alpha0 = numpyro.sample("alpha0", dist.ImproperUniform(constraints.positive, (), ()))
        alpha1 = numpyro.sample("alpha1", dist.ImproperUniform(constraints.unit_interval, (), ()))
        beta1 = numpyro.sample("beta1", dist.ImproperUniform(constraints.interval(0.0, 1 - alpha1), (), ()))

        def step(variance, before):
            variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
            return variance, variance

        first = jnp.full((1,), first_sd**2)
        later = jax.lax.scan(step, first[0], y[:-1])[1]
        numpyro.sample("y", dist.Normal(mu, jnp.sqrt(jnp.append(first, later))), obs=y)

    return from_numpyro(model, data["y"], data["sigma1"])


def hmm_drive_0(data) -> sf.Target:
    """A hidden Markov model with two states, which the forward algorithm sums out."""

    def model(u, v, concentrations):
        transitions = jnp.stack([numpyro.sample(f"theta{k + 1}", dist.Dirichlet(concentrations[k])) for k in range(2)])
        phi, rate = (_ordered_rates(name) for name in ("phi", "lambda"))
        log_emissions = jnp.log(phi * rate) - phi * u[:, None] - rate * v[:, None]

        def step(forward, log_emission):
            forward = jax.nn.logsumexp(forward[:, None] + jnp.log(transitions), axis=0) + log_emission
            return forward, None

        forward, _ = jax.lax.scan(step, log_emissions[0], log_emissions[1:])
        numpyro.factor("likelihood", jax.nn.logsumexp(forward))

    return from_numpyro(model, data["u"], data["v"], data["alpha"])


def _ordered_rates(name):
    """Two rates, the smaller about 0 and the larger about 3."""
    rates = numpyro.sample(name, dist.ImproperUniform(constraints.positive_ordered_vector, (), (2,)))
    numpyro.factor(f"{name}_prior", jnp.sum(dist.Normal(jnp.array([0.0, 3.0]), 1).log_prob(rates)))
    return rates
