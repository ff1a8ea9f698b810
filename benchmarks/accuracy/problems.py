"""The targets of the suite: log densities with their moments, or a long run of NUTS in place of them."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.paper import datasets


def standard(rng, shape):
    return rng.standard_normal(shape)


def wide(rng, shape):
    return 4 * rng.standard_normal(shape)


def narrow(rng, shape):
    return 1e-3 * rng.standard_normal(shape)


@dataclasses.dataclass(frozen=True)
class Problem:
    """A target with its mean and covariance (None: to be sampled), the start, and the numbers of particles to try.

    `quantities` takes a particle to what is compared, itself by default; `target` is what methods see where that is not
    the log density, as with minibatches, and `particle` takes a vector to one of its particles; without a `start` these
    are prior draws. `mode` is a function of one particle and the probability that it is true.
    """

    log_density: Callable
    dim: int
    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None
    start: Callable | None = standard
    sizes: tuple[int, ...] = (100,)
    quantities: Callable = lambda x: x
    target: sf.Target | None = None
    particle: Callable = lambda x: x
    mode: tuple[Callable, float] | None = None
    num_draws: int = 20_000  # of each of two chains, for the truth

    def particles(self, num_particles, dtype=np.float32, seed=1):
        return self.start(np.random.default_rng(seed), (num_particles, self.dim)).astype(dtype)


def gaussian(dim, condition=1.0, scale=1.0, distance=0.0, **options):
    """Rotated, with variances spread evenly on a log scale; `distance` is how far the mean is, in units of scale."""
    rng = np.random.default_rng(0)
    sds = scale * np.logspace(0, -0.5 * np.log10(condition), dim)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    mean = distance * scale * rng.standard_normal(dim)
    precision, covariance = (rotation / sds**2) @ rotation.T, (rotation * sds**2) @ rotation.T

    def log_density(x):
        return -0.5 * (x - mean.astype(x.dtype)) @ precision.astype(x.dtype) @ (x - mean.astype(x.dtype))

    return Problem(log_density, dim, mean, covariance, **options)


def mixture(dim, distance, weight=1 / 3, **options):
    """Two unit Gaussians at +-distance on the first axis, the one on the left with this weight."""

    def log_density(x):
        rest = -0.5 * jnp.sum(x[1:] ** 2)
        left, right = jnp.log(weight) - 0.5 * (x[0] + distance) ** 2, jnp.log1p(-weight) - 0.5 * (x[0] - distance) ** 2
        return rest + jnp.logaddexp(left, right)

    mean, covariance = np.zeros(dim), np.eye(dim)
    mean[0] = (1 - 2 * weight) * distance
    covariance[0, 0] = 1 + distance**2 - mean[0] ** 2
    return Problem(log_density, dim, mean, covariance, mode=(lambda x: x[0] < 0, weight), **options)


def paper_mixture():
    def far(rng, shape):
        return rng.standard_normal(shape) - 10

    return mixture(1, 2.0, start=far, sizes=(50, 100, 200))


def banana():
    def log_density(x):
        return -0.5 * x[0] ** 2 - 2 * (x[1] - 0.5 * (x[0] ** 2 - 1)) ** 2

    return Problem(log_density, 2, np.zeros(2), np.diag([1.0, 0.75]), sizes=(50, 100, 200))


def student(dim=10, freedom=5, **options):
    def log_density(x):
        return -(freedom + dim) / 2 * jnp.log1p(x @ x / freedom)

    return Problem(log_density, dim, np.zeros(dim), freedom / (freedom - 2) * np.eye(dim), **options)


def laplace(dim=5, **options):
    def log_density(x):
        return -jnp.sum(jnp.sqrt(x**2 + 1e-6))

    return Problem(log_density, dim, np.zeros(dim), 2 * np.eye(dim), **options)


def funnel(dim=5, sd=1.0, **options):
    """The first coordinate, of this sd, is the log variance of all others."""

    def log_density(x):
        return -0.5 * (x[0] / sd) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (dim - 1) * x[0]

    return Problem(log_density, dim, np.zeros(dim), np.diag([sd**2] + [np.exp(sd**2 / 2)] * (dim - 1)), **options)


def eight_schools(**options):
    effects = np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32)
    errors = np.array([15.0, 10, 16, 11, 9, 11, 10, 18], np.float32)

    def log_density(x):
        mu, log_tau, z = x[0], x[1], x[2:]
        residuals = (effects - mu - jnp.exp(log_tau) * z) / errors
        prior = -0.5 * (mu / 5) ** 2 - jnp.log1p((jnp.exp(log_tau) / 5) ** 2) + log_tau - 0.5 * z @ z
        return prior - 0.5 * residuals @ residuals

    return Problem(log_density, 10, sizes=(100, 200), **options)


def logistic(name, sizes=(50, 100, 200)):
    data = datasets.load(name)
    features, labels = data.X[:1000].astype(np.float32), data.y[:1000].astype(np.float32)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    features = np.column_stack([features, np.ones(len(features), np.float32)])
    dim = features.shape[1]

    def log_density(x):
        weights, log_alpha = x[:-1], x[-1]
        prior = (dim / 2 + 1) * log_alpha - jnp.exp(log_alpha) * (0.5 * weights @ weights + 0.01)
        return jnp.sum(jax.nn.log_sigmoid(labels * (features @ weights))) + prior

    return Problem(log_density, dim + 1, sizes=sizes)


def poisson(dim=8, rows=200, sizes=(50, 100)):
    rng = np.random.default_rng(3)
    features = np.column_stack([np.ones(rows), rng.standard_normal((rows, dim - 1))])
    counts = rng.poisson(np.exp(features @ (0.3 * rng.standard_normal(dim)))).astype(np.float32)
    features = features.astype(np.float32)

    def log_density(weights):
        rates = features @ weights
        return counts @ rates - jnp.sum(jnp.exp(rates)) - weights @ weights / 8

    return Problem(log_density, dim, sizes=sizes)


def minibatches(num_rows, batch_size, dim=5):
    """Logistic regression on many rows; methods see batches of them, the truth all."""
    rng = np.random.default_rng(4)
    features = np.column_stack([np.ones(num_rows), rng.standard_normal((num_rows, dim - 1))]).astype(np.float32)
    probabilities = 1 / (1 + np.exp(-features @ (0.7 * rng.standard_normal(dim))))
    labels = np.where(rng.random(num_rows) < probabilities, 1, -1).astype(np.float32)

    def log_likelihood(weights, batch):
        return jax.nn.log_sigmoid(batch[1] * (batch[0] @ weights))

    target = sf.Posterior(lambda w: -w @ w / 50, log_likelihood, (features, labels), batch_size)
    full = sf.Posterior(lambda w: -w @ w / 50, log_likelihood, (features, labels))
    return Problem(full.log_density, dim, target=target, num_draws=2000)


def network(hidden=5):
    """A small network on a sine; compared are its predictions, since weights have many equivalent modes."""
    inputs = np.linspace(-2, 2, 40, dtype=np.float32)
    responses = (np.sin(2 * inputs) + 0.1 * np.random.default_rng(5).standard_normal(40)).astype(np.float32)

    def predict(x, inputs):
        first, bias, last = x[:hidden], x[hidden : 2 * hidden], x[2 * hidden : 3 * hidden]
        return jnp.tanh(inputs[:, None] * first + bias) @ last + x[-1]

    def log_density(x):
        return -jnp.sum((responses - predict(x, inputs)) ** 2) / (2 * 0.1**2) - x @ x / 2

    grid = np.linspace(-2.5, 2.5, 11, dtype=np.float32)
    return Problem(log_density, 3 * hidden + 1, quantities=lambda x: predict(x, grid), sizes=(50, 100))


PROBLEMS = {
    "gaussian d=1": lambda: gaussian(1),
    "gaussian d=5": lambda: gaussian(5, 10, sizes=(20, 100)),
    "gaussian d=20, condition 10^3": lambda: gaussian(20, 1e3, sizes=(20, 50, 100)),
    "gaussian d=50, condition 10^4": lambda: gaussian(50, 1e4, sizes=(50, 100, 200)),
    "gaussian d=100, condition 10^2": lambda: gaussian(100, 1e2, sizes=(20, 50, 100, 200)),
    "gaussian d=100, condition 10^4": lambda: gaussian(100, 1e4, sizes=(50, 100)),
    "gaussian d=500, condition 10^2": lambda: gaussian(500, 1e2, sizes=(100,)),
    "gaussian d=20, scale 10^-3": lambda: gaussian(20, 1e2, scale=1e-3),
    "gaussian d=20, scale 10^3, far": lambda: gaussian(20, 1e2, scale=1e3, distance=3.0),
    "gaussian d=10, 1000 sd away, narrow start": lambda: gaussian(10, 1e2, distance=1e3, start=narrow),
    "paper's mixture from N(-10, 1)": paper_mixture,
    "mixture d=2, 8 sds apart": lambda: mixture(2, 4.0, start=wide),
    "mixture d=5, 4 sds apart": lambda: mixture(5, 2.0, start=wide),
    "mixture d=10, 8 sds apart": lambda: mixture(10, 4.0, start=wide),
    "banana": banana,
    "student t(3), d=1": lambda: student(1, 3),
    "student t(5), d=2": lambda: student(2, 5),
    "student t(5), d=10": lambda: student(sizes=(100, 200, 500)),
    "laplace, d=1": lambda: laplace(1),
    "laplace, d=5": lambda: laplace(5, sizes=(100, 200)),
    "funnel, d=2": lambda: funnel(2),
    "funnel, d=5": lambda: funnel(5, sizes=(100, 200)),
    "funnel, d=10": lambda: funnel(10),
    "eight schools": eight_schools,
    "logistic german": lambda: logistic("german"),
    "logistic diabetis": lambda: logistic("diabetis", (100,)),
    "logistic splice": lambda: logistic("splice", (100,)),
    "poisson d=8": poisson,
    "minibatches of 50 in 10^4 rows": lambda: minibatches(10_000, 50),
    "minibatches of 500 in 10^4 rows": lambda: minibatches(10_000, 500),
    "minibatches of 500 in 10^5 rows": lambda: minibatches(100_000, 500),
    "network of 16 weights": network,
}
REGRESSIONS = ("logistic german", "logistic diabetis", "logistic splice", "poisson d=8")
