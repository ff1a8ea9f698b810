"""Bandwidths: the length scale `h` of a radial kernel `f(r^2 / h)`, from the cloud or fixed."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from steinflow.stein.geometry import distinct_squares, mean_and_shape
from steinflow.typing import Array, Particles, Scalar

_PAIRS = 2**17  # ordered pairs, so half of it distinct ones: enough for 1% of the median in one dimension
_REACH, _NARROWER = 4.0, 5.0  # the tables of docs/tuning-free.md
EXACT_MEDIAN = math.isqrt(_PAIRS)  # the median is that of all pairs for this many particles or fewer: 362


class Bandwidth(eqx.Module):
    """A rule for `h`. To add one, say how it follows from the particles."""

    @abc.abstractmethod
    def __call__(self, particles: Particles) -> Scalar:
        """Return h > 0 for this cloud."""


class Median(Bandwidth):
    r"""The paper's rule, $h = \mathrm{med}^2 / \log n$: $\sum_j k(x_i, x_j) \approx n \exp(-\mathrm{med}^2/h) = 1$.

    `med` is the median distance over the pairs i < j: exact for up to 362 particles, beyond that over a fixed
    sample of pairs, within 1%. One particle, or particles most of which coincide, have no distance: h = 1, which
    makes the kernel 1 and its gradient 0 where they coincide.
    """

    def __call__(self, particles):
        num_particles = len(particles)
        if num_particles == 1:
            return jnp.ones((), particles.dtype)
        # log 2 for two particles would do; log 1 = 0 for one would not.
        bandwidth = median_distance(particles) ** 2 / math.log(num_particles)
        return jnp.where(bandwidth > 0, bandwidth, 1.0).astype(particles.dtype)


class Wide(Bandwidth):
    r"""The bandwidth of the tuning-free SVGD, $h = 2 e^{-5/d} \cdot \overline{|x_i - x_j|^2}$: the reach of the cloud.

    Without the paper's $\log n$, neighbours no longer matter more the more particles there are: with a kernel of heavy
    tails this keeps the particles of skewed and hierarchical posteriors from running away one by one. In few dimensions
    it is narrower, which costs no spread there and gives separated modes their weights. The mean over pairs is twice
    the sum of the variances: O(nd).
    """

    def __call__(self, particles):
        bandwidth = wide_factor(particles.shape[1]) * jnp.sum(jnp.var(particles, axis=0))
        return jnp.where(bandwidth > 0, bandwidth, 1.0).astype(particles.dtype)


def wide_factor(dim: int) -> float:
    """Return what `Wide` multiplies the sum of the variances with, half the mean squared distance of a pair."""
    return _REACH * math.exp(-_NARROWER / dim)


class Fixed(Bandwidth):
    """A given `h`, whatever the particles.

    Raises:
        ValueError: if `h` is not a single positive number.
    """

    h: Array | float

    def __check_init__(self):
        if jnp.shape(self.h) != ():
            raise ValueError(f"A bandwidth h must be a single number; got shape {jnp.shape(self.h)}.")
        if not isinstance(self.h, Tracer) and not self.h > 0:  # NaN is not
            raise ValueError(f"A bandwidth h must be a positive number; got {self.h}.")

    def __call__(self, particles):
        return jnp.asarray(self.h, particles.dtype)


def median_distance(particles: Particles) -> Scalar:
    """Return the median of |x_i - x_j| over pairs i < j.

    Sorting all pairs would take a hundred times longer than the rest of an SVGD step, so the median is found by
    counting: over all pairs up to 362 particles, which is exact, and over a fixed sample of them beyond.
    """
    _, particles = mean_and_shape(particles)  # distances lose fewer digits near the origin
    if len(particles) <= EXACT_MEDIAN:
        return _median_of_all_pairs(particles)
    return _median_of_sampled_pairs(particles)


def _median_of_all_pairs(particles):
    num_particles = len(particles)
    # A particle's distance to itself is not a pair: out of sight.
    itself = jnp.eye(num_particles, dtype=bool)
    squares = jnp.where(itself, jnp.inf, distinct_squares(particles, particles))
    num_pairs = num_particles * (num_particles - 1)  # each pair twice, so always even

    rank = (num_pairs // 2 + 1) // 2 * 2 - 1
    lower, at_most_lower = _order_statistic(squares, rank, num_values=num_pairs, tolerance=0.0)
    next_larger = jnp.min(jnp.where(squares > lower, squares, jnp.inf))
    upper = jnp.where(at_most_lower > num_pairs // 2, lower, next_larger)
    return (jnp.sqrt(lower) + jnp.sqrt(upper)) / 2


def _median_of_sampled_pairs(particles):
    left, right = particles[sampled_pairs(len(particles))]
    squares = distinct_squares(left, right)
    median, _ = _order_statistic(squares, (squares.size + 1) // 2, num_values=squares.size, tolerance=1e-3)
    return jnp.sqrt(median)


def sampled_pairs(num_particles: int) -> np.ndarray:
    """Split the particles into groups and couple these, so that no pair across a couple comes twice.

    Returns:
        Indices of shape (2, couples, particles of a group); the few particles left over are left out.
    """
    num_couples = -(-num_particles // (2 * max(64, _PAIRS // num_particles)))
    group_size = num_particles // (2 * num_couples)
    # The same shuffle on every run: neighbours in the array may be neighbours in space.
    shuffle = np.random.default_rng(0).permutation(num_particles)[: 2 * num_couples * group_size]
    return shuffle.reshape(2, num_couples, group_size)


def _order_statistic(values: Array, rank: int, *, num_values: int, tolerance: float) -> tuple[Scalar, Scalar]:
    """Return the `rank`-th smallest of `num_values` finite values (1 is the smallest), and how many are at most that.

    It counts and does not sort: a bracket `count(<= low) < rank <= count(<= high)` is narrowed in turn by interpolation
    (fast on smooth distributions) and by bisection of the floating-point numbers inside it (safe on all others: there
    are only 2^32), until one distinct value is left inside it or it is narrow enough.
    """
    bits = jnp.int32 if values.dtype == jnp.float32 else jnp.int64

    def position(value):
        """Nonnegative floats are in the order of their bits."""
        return jax.lax.bitcast_convert_type(jnp.maximum(value, 0.0), bits)

    def count(threshold):
        # In floating point: this sum vectorises, an integer one does not.
        return jnp.sum(jnp.where(values <= threshold, 1.0, 0.0))

    def narrow(state):
        low, high, count_low, count_high, turn = state
        fraction = (rank - 0.5 - count_low) / (count_high - count_low)
        halfway = position(low) + (position(high) - position(low)) // 2
        middle = jnp.where(
            turn % 3 == 2,
            jax.lax.bitcast_convert_type(halfway, values.dtype),
            low + fraction.astype(values.dtype) * (high - low),
        )
        count_middle = count(middle)
        above = count_middle >= rank
        return (
            jnp.where(above, low, middle),
            jnp.where(above, middle, high),
            jnp.where(above, count_low, count_middle),
            jnp.where(above, count_middle, count_high),
            turn + 1,
        )

    def unfinished(state):
        low, high, count_low, count_high, turn = state
        wide = (high - low > tolerance * high) & (position(high) - position(low) > 1)
        return wide & (count_high - count_low > 2) & (turn < 200)

    largest = jnp.max(jnp.where(jnp.isfinite(values), values, 0.0))
    start = (-jnp.ones_like(largest), largest, jnp.zeros(()), jnp.full((), float(num_values)), 0)
    _, high, _, count_high, _ = jax.lax.while_loop(unfinished, narrow, start)
    return jnp.max(jnp.where(values <= high, values, 0.0)), count_high
