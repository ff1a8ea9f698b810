r"""Exploration: what keeps single particles from going astray.

Deterministic particles know the target only where they are: one that strays into a narrow region of high density, as in
the neck of a funnel, is held there by its own score, 1/n of the sum, against the push of all the others. Two things
tell it of the volume around it, which is what probability is made of. Scores are taken near a particle, not at it. And
particles make Langevin moves while the run is young, which bring strays home and fill modes by their weight; the Stein
direction then turns what is a random sample into an even one (compare Gallego & Rios Insua, arXiv:1812.00071).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.normals import normal
from steinflow.typing import Array, Key, Particles, Scores

_STEPS_PER_PLACE = 20  # so that successive directions agree, by which the step adapts


class Exploration(eqx.Module):
    r"""Scores from around each particle in the whole run, Langevin moves early in it.

    The score of particle i is taken at $x_i \pm w\, (x_j - \bar x)$, with j and the sign in turns. The width w follows
    the gap between particles, $w = b\, n^{-1/d} (1 - d/n)$, and is less on targets that are steeper than a Gaussian as
    wide as the cloud. On a Gaussian target, whose scores are linear, this averages to the score at the particle; in a
    narrow place the walls are felt.

    The moves are $\epsilon_i\, (s_i - \bar s) + \sqrt{2 \epsilon_i}\, \xi_i$, less their mean. They change the shape of
    the cloud and not its place, so that what minibatches make all scores err by drops out. The step $\epsilon$ falls to
    zero by half of the run. It is shorter where the score is long: no drift takes a particle by more than a tenth of
    its distance from the centre, or of the usual distance $\sqrt d$ if that is more. In a narrow place a full step
    would overshoot; a particle left far out comes home at a steady rate. The factor 1 - d/n shortens the step too.

    Where particles are no more than dimensions, neither is done: their randomness would outlast the run.

    Args:
        step_size: the step of the moves at the start, in the coordinates of the cloud.
        blur: b, how far from a particle its score is taken, over the gap between particles.
    """

    step_size: float = 0.05
    blur: float = 0.25

    def places(self, particles: Particles, step: Array, steepness: Array) -> Particles:
        """Return where the scores of this step are taken, one place near each particle.

        `steepness` is that of the step before.
        """
        num_particles, dim = particles.shape
        if num_particles <= dim:
            return particles
        gap = num_particles ** (-1 / dim) * (1 - dim / num_particles)
        width = self.blur * gap * jax.lax.rsqrt(jnp.maximum(steepness, 1.0))
        turn = step // _STEPS_PER_PLACE
        sign = (1 - 2 * (turn % 2)).astype(particles.dtype)
        others = jnp.roll(particles, 1 + turn // 2 % (num_particles - 1), axis=0)
        return particles + sign * width * (others - jnp.mean(particles, axis=0))

    def steepness(self, scores: Scores) -> Array:
        """Return the typical square of a score in the coordinates of the cloud: about 1 on a Gaussian target."""
        squares = jnp.mean((scores - jnp.mean(scores, axis=0)) ** 2, axis=1)
        return jnp.exp(jnp.mean(jnp.log(jnp.clip(squares, 1e-30, 1e30))))

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
            noise = normal(key, own.shape, own.dtype)
            moves = steps * own + jnp.sqrt(2 * steps) * noise
            return moves - jnp.mean(moves, axis=0)

        return jax.lax.cond(fraction < 0.5, draw, lambda: jnp.zeros_like(scores))
