"""Models of their own: schools, a mixture, Gaussian processes, hares and lynxes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy import stats
from numpyro.distributions import constraints

import steinflow as sf
from steinflow.targets.numpyro import from_numpyro


def eight_schools_noncentered(data) -> sf.Target:
    """Effects of coaching in eight schools; theta is reported, its standardised z inferred."""

    def model(y, sigma):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", len(y)):
            z = numpyro.sample("z", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * z)
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    return from_numpyro(model, data["y"], data["sigma"])


def standardised_schools(particle):
    """Return what the model infers from what posteriordb reports."""
    mu, tau = particle["mu"], particle["tau"]
    return {"mu": mu, "tau": tau, "z": (particle["theta"] - mu[..., None]) / tau[..., None]}


def low_dim_gauss_mix(data) -> sf.Target:
    """Two Gaussians, told apart by the order of their means."""

    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
        numpyro.factor("mu_prior", jnp.sum(dist.Normal(0, 2).log_prob(mu)))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
        theta = numpyro.sample("theta", dist.Beta(5, 5))
        weights = dist.Categorical(jnp.stack([theta, 1 - theta]))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)

    return from_numpyro(model, data["y"])


def gp_regr(data) -> sf.Target:
    """Hyper-parameters of a Gaussian process on eleven points; sigma is a variance."""
    x, y = jnp.asarray(data["x"]), jnp.asarray(data["y"])
    squares = (x[:, None] - x) ** 2

    def log_density(particle):
        rho, alpha, sigma = particle["rho"], particle["alpha"], particle["sigma"]
        log_prior = stats.gamma.logpdf(rho, 25, scale=1 / 4)
        log_prior += stats.norm.logpdf(alpha, 0, 2) + stats.norm.logpdf(sigma, 0, 1)
        covariance = alpha**2 * jnp.exp(-squares / (2 * rho**2)) + sigma * jnp.eye(len(x))
        root = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(root, y, lower=True)
        return log_prior - 0.5 * white @ white - jnp.sum(jnp.log(jnp.diag(root)))

    return sf.Density(log_density, constraints=constraints.positive)


def accel_gp(data) -> sf.Target:
    """A motorcycle crash: Gaussian processes for the mean and for the log of the sd, in a basis of cosines."""

    def process(name, basis, frequencies):
        """Return a Gaussian process at the data."""
        sd = numpyro.sample(f"sdgp_{name}", dist.FoldedDistribution(dist.StudentT(3, 0, 36)))
        length = numpyro.sample(f"lscale_{name}", dist.InverseGamma(1.124909, 0.0177))
        z = numpyro.sample(f"zgp_{name}", dist.Normal(0, 1).expand([len(frequencies)]).to_event(1))
        density = jnp.sqrt(jnp.sqrt(2 * jnp.pi) * length) * jnp.exp(-((length * frequencies) ** 2) / 4)
        return basis @ (sd * density * z)

    def model(y, basis, frequencies, basis_sigma, frequencies_sigma):
        intercept = numpyro.sample("Intercept", dist.StudentT(3, -13, 36))
        intercept_sigma = numpyro.sample("Intercept_sigma", dist.StudentT(3, 0, 10))
        mean = intercept + process("1", basis, frequencies)
        log_sd = intercept_sigma + process("sigma_1", basis_sigma, frequencies_sigma)
        numpyro.sample("y", dist.Normal(mean, jnp.exp(log_sd)), obs=y)

    mean_part = data["Xgp_1"], data["slambda_1"][:, 0]
    sd_part = data["Xgp_sigma_1"], data["slambda_sigma_1"][:, 0]
    return from_numpyro(model, data["Y"], *mean_part, *sd_part)


STEPS_PER_YEAR = 20  # more change the solution at the reference draws by less than 1e-5


def lotka_volterra(data) -> sf.Target:
    """Hares and lynxes of Hudson's Bay."""
    log_counts = jnp.log(jnp.asarray(np.concatenate([data["y_init"][None], data["y"]])))

    def log_density(particle):
        theta, start, sigma = particle["theta"], particle["z_init"], particle["sigma"]
        rates = jnp.array([1, 0.05, 1, 0.05])
        log_prior = jnp.sum(stats.norm.logpdf(theta, rates, rates * jnp.array([0.5, 1, 0.5, 1])))
        log_prior += jnp.sum(log_normal(sigma, -1)) + jnp.sum(log_normal(start, jnp.log(10)))
        paths = log_populations(theta, start, len(data["ts"]))
        return log_prior + jnp.sum(stats.norm.logpdf(log_counts, paths, sigma))

    return sf.Density(log_density, constraints=constraints.positive)


def log_normal(x, mean):
    """Return the log density of LogNormal(mean, 1)."""
    return stats.norm.logpdf(jnp.log(x), mean, 1) - jnp.log(x)


def log_populations(theta, start, num_years):
    """Return the logs of both populations at the end of every year, the start first: Runge-Kutta of order 4.

    Logs stay finite where populations nearly die out, and are what the likelihood compares.
    """

    def slope(logs):
        hares, lynxes = jnp.exp(logs)
        return jnp.stack([theta[0] - theta[1] * lynxes, theta[3] * hares - theta[2]])

    def step(logs, _):
        h = 1 / STEPS_PER_YEAR
        first = slope(logs)
        second = slope(logs + h / 2 * first)
        third = slope(logs + h / 2 * second)
        fourth = slope(logs + h * third)
        return logs + h / 6 * (first + 2 * second + 2 * third + fourth), logs

    last, path = jax.lax.scan(step, jnp.log(start), length=num_years * STEPS_PER_YEAR)
    return jnp.concatenate([path[::STEPS_PER_YEAR], last[None]])
