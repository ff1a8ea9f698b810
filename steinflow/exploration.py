r"""Exploration: random moves of each particle on its own, while the run is young.

Deterministic particles know the target only where they are: one that strays into a narrow region of high density, as in
the neck of a funnel, is held there by its own score, 1/n of the sum, against the push of all the others. Langevin
moves know volume as well as density. They bring strays home and fill modes by their weight; the Stein direction then
turns what is a random sample into an even one (compare Gallego & Rios Insua, arXiv:1812.00071).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.typing import Array, Key, Scores


class Langevin(eqx.Module):
    r"""The moves $\epsilon_i\, (s_i - \bar s) + \sqrt{2 \epsilon_i}\, \xi_i$, less their mean, early in a run.

    They change the shape of the cloud and not its place, so that what minibatches make all scores err by drops out. The
    step $\epsilon$ falls to zero by half of the run. It is shorter where the score is longer than twice what it is
    under a Gaussian target, $2 \sqrt d$: there a full step would overshoot. The factor 1 - d/n shortens it too, down to
    no move at all where particles are no more than dimensions: there their randomness would outlast the run.

    Args:
        step_size: the step at the start, in the coordinates of the cloud.
    """

    step_size: float = 0.05

    def moves(self, scores: Scores, fraction: Array, *, key: Key) -> Array:
        """Return one move per particle, in the coordinates that the scores are in; `fraction` of the run is done."""
        num_particles, dim = scores.shape
        if num_particles <= dim:
            return jnp.zeros_like(scores)

        def draw():
            own = scores - jnp.mean(scores, axis=0)
            lengths = jnp.sqrt(jnp.sum(own**2, axis=1, keepdims=True))
            shortened = jnp.minimum(1.0, 2 * jnp.sqrt(dim) / jnp.maximum(lengths, jnp.finfo(own.dtype).tiny))
            step_size = self.step_size * (1 - dim / num_particles) * (1 - 2 * fraction)
            steps = (step_size * shortened).astype(own.dtype)
            noise = jax.random.normal(key, own.shape, own.dtype)
            moves = steps * own + jnp.sqrt(2 * steps) * noise
            return moves - jnp.mean(moves, axis=0)

        return jax.lax.cond(fraction < 0.5, draw, lambda: jnp.zeros_like(scores))
