"""Step rules that optax does not have. SVGD takes any optax optimiser; these are in its form.

Factories are cached: the same settings give the same object, so that a second `fit` does not compile again.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from steinflow.typing import PyTree


@functools.cache
def adagrad(step_size: float = 0.1) -> optax.GradientTransformation:
    """AdaGrad, the optimiser of the paper's Algorithm 1."""
    return optax.adagrad(step_size, initial_accumulator_value=0.0, eps=1e-6)


_ADAM = optax.scale_by_adam()


def decaying_adam(reach: float = 5.0) -> optax.GradientTransformationExtraArgs:
    """Adam whose steps fall to zero over the run, as half a cosine, and add up to `reach`: more steps are smaller ones.

    `update` takes two more arguments: `fraction`, the part of the run that is done, and `num_steps`, all there are.
    """
    # The reach is a leaf, not a constant of compiled code, which all of them share.
    return optax.GradientTransformationExtraArgs(_ADAM.init, jax.tree_util.Partial(_decayed, jnp.asarray(reach)))


def _decayed(reach, updates, state, params=None, **extra_args):
    directions, state = _ADAM.update(updates, state, params)
    size = reach / extra_args["num_steps"] * (1 + jnp.cos(jnp.pi * extra_args["fraction"]))
    return jax.tree.map(lambda direction: (-size * direction).astype(direction.dtype), directions), state


class AdaptiveState(NamedTuple):
    """Step sizes of the cloud as a whole and of its shape, their last (unit) directions, and the reach of the cloud."""

    shift_size: jax.Array
    shape_size: jax.Array
    last_shift: jax.Array
    last_shape: jax.Array
    reach: jax.Array


@functools.cache
def adaptive() -> optax.GradientTransformationExtraArgs:
    r"""Return the step that tunes itself, for coordinates in which the cloud has unit scale.

    The mean of the directions moves the cloud, what is left changes its shape, and each has a step size of its own. It
    grows while successive directions agree, by $\exp(0.15 \cos)$ with the cosine of their angle, and shrinks while they
    point apart, by $\exp(\cos)$. No particle moves by more than half a unit within the cloud, so that nothing diverges;
    nor does the cloud itself, except that a far cloud that keeps its direction strides out, half as far again in every
    step. Over the second half of the run the step sizes fall to zero as a cosine, so that what is left of any
    oscillation dies out. In a long run the steps of the shape are at most $300 / (1 - d/n)$ over the number of steps:
    once all is settled, single particles would still creep away. The noise of minibatches is no news about a step size:
    there it stays at its start, the decay averages the noise, and directions longer than a unit (rms) count as of one,
    so that a cloud far wider than the target contracts and does not swing.

    `update` takes three more arguments: `fraction`, the part of the run that is done, `num_steps`, all there are, and
    `noisy`, whether gradients come from minibatches.
    """
    start, largest, half_a_unit = 0.1, 1.0, 0.5

    def init(params):
        start_size, reach = jnp.asarray(start, params.dtype), jnp.asarray(half_a_unit, params.dtype)
        return AdaptiveState(start_size, start_size, jnp.zeros_like(params[0]), jnp.zeros_like(params), reach)

    def adapt(step_size, cosine, largest):
        # Back off faster than to grow: an overshoot costs more than a short step.
        rate = jnp.where(cosine > 0, 0.15, 1.0) * cosine
        return jnp.minimum(step_size * jnp.exp(rate), largest).astype(step_size.dtype)

    def update(updates, state, params=None, **extra_args):
        fraction, num_steps, noisy = (extra_args[name] for name in ("fraction", "num_steps", "noisy"))
        gradients = jnp.asarray(updates)
        gradients = jnp.where(jnp.isfinite(gradients), gradients, 0.0)  # an overflow must not stay in the state
        num_particles, dim = gradients.shape
        shift = jnp.mean(gradients, axis=0)
        shape = gradients - shift
        unit_shift, unit_shape = _unit(shift), _unit(shape)
        shift_cosine, shape_cosine = jnp.sum(unit_shift * state.last_shift), jnp.sum(unit_shape * state.last_shape)
        if noisy:
            shift_size, shape_size = state.shift_size, state.shape_size
            shape = shape / jnp.maximum(jnp.sqrt(jnp.mean(shape**2)), 1.0)
        else:
            shift_size = adapt(state.shift_size, shift_cosine, largest)
            # So many whole steps settle a shape: more the fewer particles there are for their dimensions.
            enough = 300 / max(1 - dim / num_particles, 1e-6)
            shape_size = adapt(state.shape_size, shape_cosine, jnp.minimum(largest, enough / num_steps))

        decay = jnp.where(fraction < 0.5, 1.0, 0.5 - 0.5 * jnp.cos(2 * jnp.pi * fraction)).astype(gradients.dtype)
        shift_move, shape_move = -shift_size * decay * shift, -shape_size * decay * shape
        striding = (shift_cosine > 0.9) & (jnp.linalg.norm(shift_move) > state.reach) & (not noisy)
        reach = jnp.where(striding, 1.5 * state.reach, half_a_unit).astype(gradients.dtype)
        moves = _at_most(reach, shift_move) + _at_most(half_a_unit, shape_move)
        return moves, AdaptiveState(shift_size, shape_size, unit_shift, unit_shape, reach)

    return optax.GradientTransformationExtraArgs(init, update)


def _at_most(length, moves):
    """Shorten the moves that are longer."""
    return moves * (length / jnp.maximum(jnp.linalg.norm(moves, axis=-1), length))[..., None]


def _unit(vectors):
    """Scale to length one; zero stays zero, and huge vectors do not overflow."""
    largest = jnp.max(jnp.abs(vectors))
    scaled = vectors / jnp.where(largest > 0, largest, 1.0)
    return scaled / jnp.sqrt(jnp.maximum(jnp.sum(scaled**2), 1.0))  # the largest entry is 1, so is the sum at least


class AccumulatorState(NamedTuple):
    """The running mean of squared directions; the first step starts it."""

    step: jax.Array
    mean_square: PyTree


@functools.cache
def adagrad_with_momentum(step_size: float = 1e-3, decay: float = 0.9) -> optax.GradientTransformation:
    r"""The accumulator of the authors' code, which they call AdaGrad with momentum.

    $G_0 = g_0^2$, $G_t = \rho G_{t-1} + (1 - \rho) g_t^2$, and a step of $\epsilon\, g / (10^{-6} + \sqrt{G})$.
    """

    def init(params):
        return AccumulatorState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None):
        rate = jnp.where(state.step == 0, 0.0, decay)
        mean_square = jax.tree.map(
            lambda old, g: (rate * old + (1 - rate) * g**2).astype(g.dtype),
            state.mean_square,
            updates,
        )
        steps = jax.tree.map(lambda g, square: -step_size * g / (1e-6 + jnp.sqrt(square)), updates, mean_square)
        return steps, AccumulatorState(state.step + 1, mean_square)

    return optax.GradientTransformation(init, update)
