r"""Exploration: how single particles move by themselves, beside the Stein direction.

Deterministic particles know the target only where they are. A particle that strays into a narrow region of high
density, such as the neck of a funnel, is held there by its own score against the push of all the others, and modes that
are far apart keep the particles that they started with. Random moves of single particles, which know no kernel, bring
strays home and fill modes by their weight; the Stein direction then turns what is a random sample into an even one
(compare Gallego & Rios Insua, arXiv:1812.00071).
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.normals import normal, uniform
from steinflow.methods.base import Time
from steinflow.stein.geometry import mean_and_shape
from steinflow.typing import Array, Key, Particles, Scores

_STEPS_PER_POSITION = 20  # so that successive directions agree, by which the step adapts


class Exploration(eqx.Module):
    """How particles explore, in the coordinates of the metric, in which the cloud has unit scale.

    To add one: a state (None where there is nothing to remember), where scores are taken, and the moves of one step.
    """

    @abc.abstractmethod
    def init(self, particles: Particles) -> Any:
        """Return the state before the first step."""

    def positions(self, particles: Particles, state: Any, *, time: Time) -> Particles:
        """Return where the scores of this step are taken: one position per particle, by default its own."""
        return particles

    @abc.abstractmethod
    def moves(self, points: Particles, scores: Scores, state: Any, *, time: Time, key: Key) -> tuple[Array, Any]:
        """Return the random move of every point, given the scores, and the next state."""


class NoExploration(Exploration):
    """Particles follow the Stein direction and nothing else, as in the paper."""

    def init(self, particles):
        return None

    def moves(self, points, scores, state, *, time, key):
        return jnp.zeros_like(points), None


class Barker(Exploration):
    r"""Barker moves in the first half of the run, and scores from around each particle in all of it.

    Each coordinate of each particle makes a random move whose size does not depend on where the particle is, and whose
    sign follows the score (Livingstone & Zanella, JRSS B 2022; without their acceptance step, Mauri & Zanella 2024):

    $$\pm z, \qquad z \sim N(0, 2 \epsilon), \qquad P(+) = \frac{1}{1 + e^{-z (s - \bar s)}}.$$

    To first order in $\epsilon$ this is the Langevin move $\epsilon s + \sqrt{2 \epsilon}\, \xi$. But where the score
    is long, as in the neck of a funnel, a Langevin move overshoots, and one whose step is shorter there would need the
    divergence of the step, that is second derivatives. A Barker move turns back instead. The mean of all moves is taken
    out: they change the shape of the cloud and not its position, and an error that all scores share, as with
    minibatches, drops out. The step $\epsilon$ falls to zero by half of the run.

    The score of particle i is taken at $x_i \pm w\, (x_j - \bar x)$, with j and the sign in turns. The width w follows
    the gap between particles, $w = b\, n^{-1/d} (1 - d/n)$, and is less on targets that are steeper than a Gaussian as
    wide as the cloud. On a Gaussian target, whose scores are linear, this averages to the score at the particle; in a
    narrow region the walls are felt.

    Where there are no more particles than dimensions, neither is done: their randomness would outlast the run.

    Args:
        step_size: the step of the moves at the start, before a factor 1 - d/n.
        blur: b, how far from a particle its score is taken, relative to the gap between particles.
    """

    step_size: float = 0.05
    blur: float = 0.25

    def init(self, particles):
        return jnp.ones((), particles.dtype)  # how steep the target is

    def positions(self, particles, state, *, time):
        num_particles, dim = particles.shape
        if num_particles <= dim:
            return particles
        gap = num_particles ** (-1 / dim) * (1 - dim / num_particles)
        width = self.blur * gap * jax.lax.rsqrt(jnp.maximum(state, 1.0))
        turn = time.step // _STEPS_PER_POSITION
        sign = (1 - 2 * (turn % 2)).astype(particles.dtype)
        neighbours = jnp.roll(particles, 1 + turn // 2 % (num_particles - 1), axis=0)
        return particles + sign * width * mean_and_shape(neighbours)[1]

    def moves(self, points, scores, state, *, time, key):
        num_particles, dim = scores.shape
        if num_particles <= dim:
            return jnp.zeros_like(scores), state
        own = mean_and_shape(scores)[1]

        def draw():
            size_key, sign_key = jax.random.split(key)
            fading = ((1 - dim / num_particles) * (1 - 2 * time.fraction)).astype(own.dtype)
            z = jnp.sqrt(2 * self.step_size * fading) * normal(size_key, own.shape, own.dtype)
            forward = uniform(sign_key, own.shape, own.dtype) < jax.nn.sigmoid(z * own)
            return mean_and_shape(jnp.where(forward, z, -z))[1]

        return jax.lax.cond(time.fraction < 0.5, draw, lambda: jnp.zeros_like(scores)), _steepness(own)


def _steepness(own):
    """Return the typical square of a score in the coordinates of the cloud: about 1 on a Gaussian target."""
    squares = jnp.mean(own**2, axis=1)
    return jnp.exp(jnp.mean(jnp.log(jnp.clip(squares, 1e-30, 1e30))))
