r"""Stein directions for very many particles: the sum over j, which costs O(n^2 d), by a random estimate of it.

Both are unbiased, with an error that falls as $m^{-1/2}$, and take fresh random numbers in every step, so that
the errors of successive steps average out.

`Subsample` takes m of the n particles: O(n m d). `RandomFeatures` (Rahimi & Recht, 2007) takes all particles and m
features: a kernel f(|x - y|^2) is the mean of $\cos w^\top(x - y)$ over frequencies w, and for those the sum over j
does not depend on i:

$$\phi(x) = \frac{1}{nr} \sum_{l=1}^{r}
\cos(w_l^\top x) \Bigl[ \sum_j \cos(w_l^\top x_j) s_j - \sin(w_l^\top x_j) w_l \Bigr]
+ \sin(w_l^\top x) \Bigl[ \sum_j \sin(w_l^\top x_j) s_j + \cos(w_l^\top x_j) w_l \Bigr],$$

with r = m/2 frequencies, a cosine and a sine for each: O(n m d), the repulsive term included.
"""

import abc
import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from steinflow.devices.sharding import split_particles, sum_particles
from steinflow.stein.blocks import map_blocks, sum_blocks
from steinflow.stein.geometry import mean_and_shape
from steinflow.stein.kernels import Kernel, positive_definite
from steinflow.targets.batches import shuffle
from steinflow.typing import Array, Direction, Particles, Point, PRNGKeyArray, Scalar, Scores

_BLOCK_ROWS = 2048  # as many rows of features as the cache holds


def _chebyshev(function, degree) -> list[float]:
    series = np.polynomial.Chebyshev.interpolate(function, degree, domain=(0, 0.25))
    return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]


# sin(pi u) / u and cos(pi u) as polynomials in u^2.
_SINE = _chebyshev(lambda z: np.sin(np.pi * np.sqrt(z)) / np.sqrt(z), 5)
_COSINE = _chebyshev(lambda z: np.cos(np.pi * np.sqrt(z)), 5)


class Approximation(eqx.Module):
    """A random estimate of the Stein direction.

    To add one: say how it takes the sum over pairs of one kernel. What costs no sum over pairs stays exact: the linear
    kernel, and the mean score of centred ones. The terms of a sum share their random numbers.
    """

    @abc.abstractmethod
    def pairs(
        self, kernel: Kernel, particles: Particles, scores: Scores, at: Particles | None, *, key: PRNGKeyArray
    ) -> Direction:
        """Return the estimate for one adapted kernel, in place of `kernel.pairwise_direction`."""

    def direction(
        self,
        particles: Particles,
        scores: Scores,
        kernel: Kernel | Callable[[Point, Point], Scalar],
        *,
        key: PRNGKeyArray,
    ) -> Direction:
        """Return the estimate of the Stein direction at every particle."""
        pairs = functools.partial(self.pairs, key=key)
        return positive_definite(kernel).direction(particles, scores, pairs=pairs)


class Subsample(Approximation):
    """The sum over j on a random subset of m particles, another one in every step.

    Args:
        m: how many particles; at most all of them.

    Raises:
        ValueError: if `m` is less than 1.
    """

    m: int

    def __check_init__(self):
        if self.m < 1:
            raise ValueError(f"Subsample(m) needs at least one particle; got {self.m}.")

    def pairs(self, kernel, particles, scores, at, *, key):
        if self.m >= len(particles):
            return kernel.pairwise_direction(particles, scores, at)
        subset = shuffle(key, jnp.arange(self.m), len(particles))
        return kernel.pairwise_direction(particles[subset], scores[subset], particles if at is None else at)


class RandomFeatures(Approximation):
    """The kernel by m random features, m/2 frequencies with a cosine and a sine each.

    It takes kernels that bring their frequencies: RBF and IMQ.

    Args:
        m: how many features; even.

    Raises:
        ValueError: if `m` is not an even number of at least 2.
    """

    m: int

    def __check_init__(self):
        if self.m < 2 or self.m % 2:
            raise ValueError(
                f"RandomFeatures(m) needs an even number of features, in pairs of a cosine and a sine; got {self.m}."
            )

    def pairs(self, kernel, particles, scores, at, *, key):
        frequencies = kernel.frequencies(particles, self.m // 2, key=key)
        center, x = mean_and_shape(particles)  # phases keep their digits near the origin

        # Sums over all particles of features times (score, 1); a row of zeros adds nothing, as it has no 1.
        rows = jnp.concatenate([x, scores, jnp.ones_like(x[:, :1])], axis=1)
        turns = frequencies.T / (2 * math.pi)
        cosines, sines = jnp.split(sum_particles(_feature_sums, turns, rows), 2)
        coefficients = jnp.concatenate(
            [cosines[:, :-1] - sines[:, -1:] * frequencies, sines[:, :-1] + cosines[:, -1:] * frequencies]
        )
        coefficients /= len(particles) * len(frequencies)
        return split_particles(_feature_products, (turns, coefficients), x if at is None else at - center)


def _features(x, turns):
    return jnp.concatenate(_cos_sin(x @ turns), axis=1)


def _feature_sums(turns, rows):
    dim = len(turns)
    return sum_blocks(lambda rows: _features(rows[:, :dim], turns).T @ rows[:, dim:], rows, _BLOCK_ROWS)


def _feature_products(shared, x):
    turns, coefficients = shared
    return map_blocks(lambda x: _features(x, turns) @ coefficients, x, _BLOCK_ROWS)


def _cos_sin(turns: Array) -> tuple[Array, Array]:
    """Return cosine and sine of an angle in turns.

    In single precision by polynomials of the half angle, to 1e-6: the library's own cosine and sine would take more
    time than all matrix products together.
    """
    if turns.dtype != jnp.float32:
        return jnp.cos(2 * jnp.pi * turns), jnp.sin(2 * jnp.pi * turns)
    half = turns - jnp.round(turns)  # exact, in -1/2 .. 1/2: cos and sin of pi * half are needed
    square = half * half
    sine, cosine = half * _polynomial(_SINE, square), _polynomial(_COSINE, square)
    return 1 - 2 * sine * sine, 2 * sine * cosine


def _polynomial(coefficients, z):
    total = jnp.full_like(z, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * z + coefficient
    return total
