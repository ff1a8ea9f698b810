r"""Exploration: random moves of each particle on its own, while the run is young.

Deterministic particles know the target only where they are: one that strays into a narrow region of high density, as in
the neck of a funnel, is held there by its own score, 1/n of the sum, against the push of all the others. Langevin
moves know volume as well as density. They bring strays home and fill modes by their weight; the Stein direction then
turns what is a random sample into an even one (compare Gallego & Rios Insua, arXiv:1812.00071).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.typing import Array, Key, Particles, Scores


class Langevin(eqx.Module):
    r"""The moves $\epsilon_i\, (s_i - \bar s) + \sqrt{2 \epsilon_i}\, \xi_i$, less their mean, early in a run.

    They change the shape of the cloud and not its place, so that what minibatches make all scores err by drops out. The
    step $\epsilon$ falls to zero by half of the run. It is shorter where the score is long: no drift takes a particle
    by more than a tenth of its distance from the centre, or of the usual distance $\sqrt d$ if that is more. In a
    narrow place a full step would overshoot; a particle left far out comes home at a steady rate. The factor
    1 - d/n shortens the step too, down to no move at all where particles are no more than dimensions: there their
    randomness would outlast the run.

    Args:
        step_size: the step at the start, in the coordinates of the cloud.
    """

    step_size: float = 0.05

    def moves(self, points: Particles, scores: Scores, fraction: Array, *, key: Key) -> Array:
        """Return one move per particle, in the coordinates of points and scores; `fraction` of the run is done."""
        num_particles, dim = scores.shape
        if num_particles <= dim:
            return jnp.zeros_like(scores)

        def draw():
            own = scores - jnp.mean(scores, axis=0)
            distances, lengths = (jnp.linalg.norm(rows, axis=1, keepdims=True) for rows in (points, own))
            furthest = 0.1 * jnp.maximum(distances, jnp.sqrt(dim))
            longest = furthest / jnp.maximum(lengths, jnp.finfo(own.dtype).tiny)
            fading = (1 - dim / num_particles) * (1 - 2 * fraction)
            steps = (fading * jnp.minimum(self.step_size, longest)).astype(own.dtype)
            noise = jax.random.normal(key, own.shape, own.dtype)
            moves = steps * own + jnp.sqrt(2 * steps) * noise
            return moves - jnp.mean(moves, axis=0)

        return jax.lax.cond(fraction < 0.5, draw, lambda: jnp.zeros_like(scores))
