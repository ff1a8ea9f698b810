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

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.normals import normal
from steinflow.devices.sharding import split_particles, sum_particles
from steinflow.stein.kernels import IMQ, RBF, Centered, Kernel, Linear, Radial, Scaled, Sum
from steinflow.stein.operators import stein_direction
from steinflow.targets.batches import shuffle
from steinflow.typing import Array, Direction, Particles, PRNGKeyArray, Scores

_BLOCK_ROWS = 2048  # as many rows of features as the cache holds


def _chebyshev(function, degree) -> list[float]:
    series = np.polynomial.Chebyshev.interpolate(function, degree, domain=(0, 0.25))
    return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]


# sin(pi u) / u and cos(pi u) as polynomials in u^2.
_SINE = _chebyshev(lambda z: np.sin(np.pi * np.sqrt(z)) / np.sqrt(z), 5)
_COSINE = _chebyshev(lambda z: np.cos(np.pi * np.sqrt(z)), 5)


class Approximation(eqx.Module):
    """A random estimate of the Stein direction.

    To add one: say what it does with a radial kernel. Sums and multiples of kernels, and the linear kernel, whose exact
    direction costs no more than O(n d^2), are taken care of here.
    """

    @abc.abstractmethod
    def radial_direction(self, particles: Particles, scores: Scores, kernel: Kernel, *, key: PRNGKeyArray) -> Direction:
        """Return the estimate for one kernel that is adapted and neither a sum nor linear."""

    def direction(self, particles: Particles, scores: Scores, kernel: Kernel, *, key: PRNGKeyArray) -> Direction:
        """Return the estimate of the Stein direction at every particle."""
        return self._direction(particles, scores, kernel.adapt(particles), key)

    def _direction(self, particles, scores, kernel, key):
        match kernel:
            case Sum(terms):
                keys = jax.random.split(key, len(terms))
                parts = [self._direction(particles, scores, *term) for term in zip(terms, keys, strict=True)]
                return sum(parts, start=jnp.zeros_like(particles))
            case Scaled(factor, term):
                return factor * self._direction(particles, scores, term, key)
            case Centered(term):
                mean_score = jnp.mean(scores, axis=0)
                shape = self._direction(particles, scores - mean_score, term, key)
                return mean_score + shape - jnp.mean(shape, axis=0)
            case Linear():
                return stein_direction(particles, scores, kernel)
            case _:
                return self.radial_direction(particles, scores, kernel, key=key)


class Subsample(Approximation):
    """The sum over j on a random subset of m particles, another one in every step.

    Args:
        m: how many particles; at most all of them.
    """

    m: int

    def __check_init__(self):
        if self.m < 1:
            raise ValueError(f"Subsample(m) takes at least one particle; got {self.m}.")

    def radial_direction(self, particles, scores, kernel, *, key):
        n = len(particles)
        if self.m >= n:
            return stein_direction(particles, scores, kernel)
        subset = shuffle(key, jnp.arange(self.m), n)
        return stein_direction(particles[subset], scores[subset], kernel, at=particles)


class RandomFeatures(Approximation):
    """The kernel by m random features, m/2 frequencies with a cosine and a sine each; for RBF and IMQ kernels.

    Args:
        m: how many features; even.
    """

    m: int

    def __check_init__(self):
        if self.m < 2 or self.m % 2:
            raise ValueError(
                f"RandomFeatures(m) takes an even number of features, a cosine and a sine each; got {self.m}."
            )

    def radial_direction(self, particles, scores, kernel, *, key):
        n, dim = particles.shape
        frequencies = _frequencies(kernel, self.m // 2, dim, particles, key)
        x = particles - jnp.mean(particles, axis=0)  # phases keep their digits near the origin

        # Sums over all particles of features times (score, 1); a row of zeros adds nothing, as it has no 1.
        rows = jnp.concatenate([x, scores, jnp.ones((n, 1), x.dtype)], axis=1)
        turns = frequencies.T / (2 * np.pi)
        sums = sum_particles(_feature_sums, turns, rows)
        cosines, sines = jnp.split(sums, 2)
        coefficients = jnp.concatenate(
            [cosines[:, :-1] - sines[:, -1:] * frequencies, sines[:, :-1] + cosines[:, -1:] * frequencies]
        )
        return split_particles(_feature_products, (turns, coefficients / (n * len(frequencies))), x)


def _frequencies(kernel, count, dim, particles, key) -> Array:
    """Draw from the spectral density of a kernel: its Fourier transform."""
    if not isinstance(kernel, RBF | IMQ):
        known = "a radial kernel of another profile" if isinstance(kernel, Radial) else "a kernel given as a function"
        raise TypeError(
            f"RandomFeatures knows the frequencies of sf.RBF and sf.IMQ; got {known}, {type(kernel).__name__}. "
            "Use sf.Subsample(m), which takes any kernel."
        )
    normal_key, scale_key = jax.random.split(key)
    normals = normal(normal_key, (count, dim), particles.dtype) * jnp.sqrt(2 / kernel.bandwidth(particles))
    if isinstance(kernel, RBF):
        return normals
    # (1 + t)^(-1/2) is the mean of exp(-g t) over g ~ Gamma(1/2): an RBF of random bandwidth; g is half a squared
    # normal.
    return normals * normal(scale_key, (count, 1), particles.dtype) / jnp.sqrt(2.0).astype(normals.dtype)


def _features(x, turns):
    return jnp.concatenate(_cos_sin(x @ turns), axis=1)


def _feature_sums(turns, rows):
    dim = len(turns)
    return _sum_blocks(lambda rows: _features(rows[:, :dim], turns).T @ rows[:, dim:], rows)


def _feature_products(shared, x):
    turns, coefficients = shared
    return _map_blocks(lambda x: _features(x, turns) @ coefficients, x)


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


def _sum_blocks(function, rows):
    """Sum a function of blocks of rows; rows of zeros add nothing."""
    if len(rows) <= _BLOCK_ROWS:
        return function(rows)
    blocks = _blocks(rows)
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, blocks[0]))
    return jax.lax.scan(lambda total, block: (total + function(block), None), start, blocks)[0]


def _map_blocks(function, rows):
    if len(rows) <= _BLOCK_ROWS:
        return function(rows)
    results = jax.lax.map(function, _blocks(rows))
    return results.reshape(-1, results.shape[-1])[: len(rows)]


def _blocks(rows):
    num_blocks = -(-len(rows) // _BLOCK_ROWS)
    size = -(-len(rows) // num_blocks)
    return jnp.pad(rows, [(0, num_blocks * size - len(rows)), (0, 0)]).reshape(num_blocks, size, rows.shape[1])
