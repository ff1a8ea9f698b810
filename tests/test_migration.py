"""The call of docs/migration.md that stands for the authors' code moves particles as their formulas do."""

import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.stein.bandwidths import Bandwidth

MEAN, PRECISION = np.array([-0.6871, 0.8010]), np.array([[0.2260, 0.1652], [0.1652, 0.6779]])


class Authors(Bandwidth):
    """med(r^2) / log(n + 1), the zeros of the diagonal among the distances."""

    def __call__(self, x):
        squares = jnp.sum((x[:, None] - x) ** 2, -1)
        return jnp.median(squares) / jnp.log(len(x) + 1)


def score(x):
    return -(x - MEAN) @ PRECISION


def published(x, step_size, num_steps, decay=0.9):
    """Their update: the kernel exp(-r^2 / h), the running mean of squared directions, 1e-6 in the denominator."""
    mean_square = None
    for _ in range(num_steps):
        squares = np.sum((x[:, None] - x) ** 2, -1)
        h = np.median(squares) / np.log(len(x) + 1)
        kernel = np.exp(-squares / h)
        repulsion = 2 / h * (x * kernel.sum(1, keepdims=True) - kernel @ x)
        direction = (kernel @ score(x) + repulsion) / len(x)
        mean_square = direction**2 if mean_square is None else decay * mean_square + (1 - decay) * direction**2
        x = x + step_size * direction / (1e-6 + np.sqrt(mean_square))
    return x


def test_the_authors_code(x64):
    start = np.random.default_rng(0).normal(size=(20, 2))
    method = sf.SVGD(sf.RBF(Authors()), sf.Euclidean(), sf.adagrad_with_momentum(0.01))
    result = sf.fit(sf.from_score(score), method, particles=start, num_steps=50, progress=False)
    np.testing.assert_allclose(result.particles, published(start, 0.01, 50), atol=1e-8)
