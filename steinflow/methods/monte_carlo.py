"""Exact Monte Carlo: independent draws of the target itself, for targets that know how. The yardstick of all others."""

from collections.abc import Callable

import equinox as eqx
import jax

from steinflow.methods.base import Draws, Method
from steinflow.typing import Params, Particles, PRNGKeyArray


class MonteCarloState(eqx.Module):
    """The draws."""

    particles: Particles


class MonteCarlo(Method):
    """Independent exact draws, as many as there are particles; a step draws anew, so one step is enough.

    It has no bias: errors are those of n independent draws, 1/n of the variance for the squared error of a mean.

    Args:
        sampler: takes a key to one draw in the user's space; the target's own `sample` if not given.
    """

    sampler: Callable[[PRNGKeyArray], Params] | None = None

    def init(self, target, particles, *, num_steps, key):
        return self._drawn(target, len(particles), key)

    def step(self, target, state, batch, *, key):
        return self._drawn(target, len(state.particles), key)

    def draws(self, target, state, *, key):
        return Draws(state.particles)

    def _drawn(self, target, num_particles, key):
        sample = target.target.sample if self.sampler is None else self.sampler
        draws = jax.vmap(sample)(jax.random.split(key, num_particles))
        return MonteCarloState(target.from_user(draws))
