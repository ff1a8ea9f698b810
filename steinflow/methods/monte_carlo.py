"""Exact Monte Carlo: independent draws of the target itself, where there is a way. The yardstick of all others."""

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
        sampler: a function of a key that returns one draw in the user's space, such as
            `sf.models.GaussianMixture().sample`.

    Raises:
        TypeError: if `sampler` cannot be called.
    """

    sampler: Callable[[PRNGKeyArray], Params]

    def __check_init__(self):
        if not callable(self.sampler):
            raise TypeError(
                f"MonteCarlo needs a function from a key to one draw, sf.MonteCarlo(lambda key: ...); got "
                f"{self.sampler!r}. Where there is none, use sf.NUTS() or sf.SVGD()."
            )

    def init(self, target, particles, *, num_steps, key):
        return self._drawn(target, len(particles), key)

    def step(self, target, state, batch, *, time, key):
        return self._drawn(target, len(state.particles), key)

    def draws(self, target, state, *, key):
        return Draws(state.particles)

    def _drawn(self, target, num_particles, key):
        draws = jax.vmap(self.sampler)(jax.random.split(key, num_particles))
        return MonteCarloState(target.from_user(draws))
