"""Step rules: how far to go along the Stein direction. Ours, and any optimiser of optax, behind one protocol."""

import abc
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Time
from steinflow.stein.geometry import mean_and_shape
from steinflow.typing import Array, Direction, Particles

if TYPE_CHECKING:  # it takes a moment to import, and the default needs none of it
    import optax


class StepRule(eqx.Module):
    """A rule that turns directions into moves, both in the coordinates of the metric.

    To add one: a state (anything that is a pytree of arrays), how it starts, and one step.
    """

    @abc.abstractmethod
    def init(self, particles: Particles) -> Any:
        """Return the state before the first step."""

    @abc.abstractmethod
    def moves(
        self, direction: Direction, points: Particles, state: Any, *, time: Time, noise: Direction | None = None
    ) -> tuple[Array, Any]:
        """Return the moves of all points and the next state.

        Args:
            direction: the Stein direction at every point.
            points: the particles in the coordinates of the metric.
            state: what `init` or the step before returned.
            time: which step this is, of how many.
            noise: what a draw of the noise of the scores adds to the direction; None where they are exact.
        """


class Optax(StepRule):
    """Any optimiser of optax. It descends and the Stein direction ascends: here is the one change of sign."""

    optimizer: "optax.GradientTransformation"

    def init(self, particles):
        return self.optimizer.init(particles)

    def moves(self, direction, points, state, *, time, noise=None):
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in ints and multiplies them with floats
            updates, state = self.optimizer.update(-direction, state, points)
        return jnp.asarray(updates), state


def as_step_rule(optimizer: "StepRule | optax.GradientTransformation") -> StepRule:
    """Accept a step rule or an optimiser of optax."""
    if isinstance(optimizer, StepRule):
        return optimizer
    import optax

    if isinstance(optimizer, optax.GradientTransformation):
        return Optax(optimizer)
    raise TypeError(
        f"optimizer is sf.svgd.Adaptive() or an optax optimiser such as optax.adam(0.1); got {optimizer!r}."
    )


@functools.cache  # the same object for the same step size, so that a second fit does not compile again
def adagrad(step_size: float = 0.1) -> "optax.GradientTransformation":
    """AdaGrad, the optimiser of the paper's Algorithm 1."""
    import optax

    return optax.adagrad(step_size, initial_accumulator_value=0.0, eps=1e-6)


_STRAIGHT, _LONGER = 0.9, 1.5  # cosine from which on the cloud strides, and the factor by which it does
_CLEAR = 0.5  # the part of a squared direction that may be noise; beyond, its angles say little
_PATIENCE = 0.9  # by how much steps that noise rules change, on their way back to where they started
_RECENT = 0.1  # what one step adds to the averages of noise and direction: a batch may by chance show no noise


@functools.cache
def _adam() -> Optax:
    import optax

    return Optax(optax.scale_by_adam())


class DecayingAdam(StepRule):
    """Adam whose steps fall to zero over the run, as half a cosine, and add up to `reach`: more steps are smaller ones.

    Args:
        reach: how far a coordinate can go in the whole run.
    """

    # A leaf, not a constant of compiled code: all reaches share one program.
    reach: Array = eqx.field(default=5.0, converter=jnp.asarray)

    def init(self, particles):
        return _adam().init(particles)

    def moves(self, direction, points, state, *, time, noise=None):
        directions, state = _adam().moves(-direction, points, state, time=time)
        fraction, reach = time.fraction.astype(direction.dtype), self.reach.astype(direction.dtype)
        size = reach / time.num_steps.astype(direction.dtype) * (1 + jnp.cos(jnp.pi * fraction))
        return size * directions, state


class AdaptiveState(NamedTuple):
    """Step sizes of the cloud as a whole and of its shape, their last unit directions, and the longest shift so far."""

    shift_size: Array
    shape_size: Array
    last_shift: Array
    last_shape: Array
    stride: Array
    powers: Array  # recent squares of both parts, and of their noise


class Adaptive(StepRule):
    r"""The step that tunes itself, for coordinates in which the cloud has unit scale.

    The mean of the directions shifts the cloud, the rest changes its shape, and each part has a step size of its own:

    - It grows while successive directions agree, by $\exp(0.15 \cos)$ with the cosine of their angle, and shrinks while
      they disagree, by $\exp(\cos)$: an overshoot costs more than a short step. It never exceeds 1, which is Newton's
      step where the target is a Gaussian as wide as the cloud.
    - Neither the shift nor the change of shape moves a particle by more than half a unit, so that nothing diverges. The
      exception: a cloud that keeps its direction strides out, half as far again in every step.
    - Over the second half of the run the steps fall to zero as a cosine, so that oscillations die out.
    - In long runs the steps of the shape are at most $300 / (1 - d/n)$ over the number of steps: once everything has
      settled, single particles would otherwise creep away.

    With minibatches the angle of two directions says something as long as less than half of a squared direction is
    noise, as it is on the way to the target. Where noise rules, a size goes back to where it started, and the decay
    averages. All particles of a cloud much wider than the target are slowed by the same factor, so that it contracts
    without losing its shape: half a unit is the root mean square of these moves, and a whole one the longest.

    Args:
        start: both step sizes at first.
        growth: the exponent's factor while directions agree.
        longest: how far a particle may move in one step, in units of the cloud; with minibatches, twice as far.
        settling: how many whole steps of the shape a run contains at most.
    """

    start: float = 0.1
    growth: float = 0.15
    longest: float = 0.5
    settling: float = 300.0

    def init(self, particles):
        size, longest = (jnp.asarray(value, particles.dtype) for value in (self.start, self.longest))
        directions, powers = (jnp.zeros_like(particles[0]), jnp.zeros_like(particles)), jnp.zeros((2, 2), size.dtype)
        return AdaptiveState(size, size, *directions, longest, powers)

    def moves(self, direction, points, state, *, time, noise=None):
        num_particles, dim = direction.shape
        finite = jnp.where(jnp.isfinite(direction), direction, 0.0)  # an overflow must not stay in the state
        shift, shape = mean_and_shape(finite)
        unit_shift, unit_shape = _unit(shift), _unit(shape)
        shift_cosine = jnp.sum(unit_shift * state.last_shift)
        shape_cosine = jnp.sum(unit_shape * state.last_shape)
        num_steps = time.num_steps.astype(direction.dtype)
        settling = self.settling / max(1 - dim / num_particles, 1e-6)
        shift_size = self._adapted(state.shift_size, shift_cosine, 1.0)
        shape_size = self._adapted(state.shape_size, shape_cosine, jnp.minimum(1.0, settling / num_steps))
        striding, powers = shift_cosine > _STRAIGHT, state.powers
        if noise is not None:
            parts = (shift, shape), mean_and_shape(jnp.nan_to_num(noise))
            now = jnp.asarray([[jnp.sum(part**2) for part in pair] for pair in parts])
            powers = jnp.where(time.step == 0, now, (1 - _RECENT) * powers + _RECENT * now)
            clear_shift, clear_shape = powers[1] < _CLEAR * powers[0]
            shift_size = jnp.where(clear_shift, shift_size, self._patient(state.shift_size))
            shape_size = jnp.where(clear_shape, shape_size, self._patient(state.shape_size))
            longest = jnp.sqrt(jnp.mean(jnp.sum((shape_size * shape) ** 2, axis=1))) / self.longest
            shape = shape / jnp.maximum(longest, 1.0)
            striding &= clear_shift

        shift, shape = (_decay(time, direction.dtype) * part for part in (shift_size * shift, shape_size * shape))
        striding &= jnp.linalg.norm(shift) > state.stride
        stride = jnp.where(striding, _LONGER * state.stride, jnp.asarray(self.longest, direction.dtype))
        moves = _at_most(stride, shift) + _at_most(self.longest if noise is None else 2 * self.longest, shape)
        return moves, AdaptiveState(shift_size, shape_size, unit_shift, unit_shape, stride, powers)

    def _patient(self, step_size):
        """Return the size of a step that noise rules: back to where it started, which averages more."""
        return jnp.clip(self.start, _PATIENCE * step_size, step_size / _PATIENCE).astype(step_size.dtype)

    def _adapted(self, step_size, cosine, largest):
        rate = jnp.where(cosine > 0, self.growth, 1.0).astype(cosine.dtype) * cosine
        return jnp.minimum(step_size * jnp.exp(rate), largest).astype(step_size.dtype)


def _decay(time, dtype):
    """Return 1 in the first half of a run, then a cosine that falls to 0."""
    return jnp.where(time.fraction < 0.5, 1.0, 0.5 - 0.5 * jnp.cos(2 * jnp.pi * time.fraction)).astype(dtype)


def _at_most(length, moves):
    """Shorten the moves that are longer."""
    return moves * (length / jnp.maximum(jnp.linalg.norm(moves, axis=-1), length))[..., None]


def _unit(vectors):
    """Scale to length one; zero stays zero, and huge vectors do not overflow."""
    largest = jnp.max(jnp.abs(vectors))
    scaled = vectors / jnp.where(largest > 0, largest, 1.0)
    return scaled / jnp.sqrt(jnp.maximum(jnp.sum(scaled**2), 1.0))  # the largest entry is 1, so is the sum at least
