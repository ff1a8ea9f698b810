"""The mode: gradient ascent from every particle (SVGD with one particle, from several starts); the best one wins."""

import functools
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Draws, Method, need_log_density
from steinflow.typing import Array, Particles

if TYPE_CHECKING:
    import optax


class MAPState(eqx.Module):
    """The climbers, how high they are, and what the optimiser remembers."""

    particles: Particles
    heights: Array
    optimizer_state: Any


class MAP(Method):
    """The posterior mode, one particle: gradient ascent by Adam from every start, and the highest point at the end.

    Steps shrink to zero along a cosine, so the particle comes to rest even on minibatches.

    Known bias: the result is a point without any spread, and in hierarchical models the mode may be far from the mean.
    The mode is taken in unconstrained coordinates.

    Args:
        step_size: how far a coordinate moves per step at first.
    """

    step_size: float = 0.1

    def init(self, target, particles, *, num_steps, key):
        if len(particles) > 1:
            need_log_density(target, "MAP from several starts")
        heights = jnp.full(len(particles), -jnp.inf, particles.dtype)
        return MAPState(particles, heights, _adam().init(particles))

    def step(self, target, state, batch, *, time, key):
        x = state.particles
        log_densities, scores = target.log_densities_and_scores(x, batch)
        # A running mean, because one minibatch says little about who is highest.
        heights = jnp.where(jnp.isfinite(state.heights), 0.9 * state.heights + 0.1 * log_densities, log_densities)
        scores = jnp.where(jnp.isfinite(scores), scores, 0.0)
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in ints and multiplies them with floats
            updates, optimizer_state = _adam().update(-scores, state.optimizer_state)
        assert isinstance(updates, jax.Array)
        size = self.step_size * 0.5 * (1 + jnp.cos(jnp.pi * time.fraction))
        moved = x + size.astype(x.dtype) * updates
        return MAPState(moved, heights, optimizer_state)

    def draws(self, target, state, *, key):
        best = jnp.argmax(jnp.where(jnp.isfinite(state.heights), state.heights, -jnp.inf))
        return Draws(state.particles[best][None])


@functools.cache  # one object for all, so that a second fit does not compile again
def _adam() -> "optax.GradientTransformation":
    import optax

    return optax.adam(1.0)
