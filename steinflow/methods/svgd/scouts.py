r"""Scouts: before the cloud sets out, every particle looks for the peak that is nearest to where it starts.

The Stein flow moves all particles together, and carries those that start in a mode of their own along with the others:
70 of 100 particles in a mode without mass take the 30 with them that stood in the right one. So what the scouts have
found is looked at again when the flow has arrived. A peak that lies outside of the cloud and has a notable mass is a
mode that the flow missed: whose scout found it explores from there, and one of five of all others too. What the chains
see then says how much mass each mode has.

At a peak the curvatures $\kappa_k = |\Delta s_k| / |\Delta u_k|$ of the last move, in the coordinates of the cloud, say
how wide it is: its log mass is that of a Gaussian, $\log p - \frac12 \sum_k (1 + \log\kappa_k)$, up to a constant, as
that of the cloud is the average of $\log p$. The neck of a funnel is high and has none. A scout that is still on its
way, more than a nat below its peak ($\sum_k s_k^2 / \kappa_k > 1$), has found nothing.

Scouts climb by the signs of their scores, coordinate by coordinate (Rprop; Riedmiller & Braun 1993), which needs no
metric and no scale but that of the start: steps grow by half while the sign stays, and halve when it changes.
"""

import math

import equinox as eqx
import jax.numpy as jnp

from steinflow.methods.svgd.arrival import Footing
from steinflow.methods.svgd.frames import Frame
from steinflow.typing import Array, Particles, Scores

NUM_STEPS = 20  # eight to cross the start, twelve to halve the distance to a peak
_FIRST = 0.1  # step, in sds of the start; none is longer than one
_OTHERS = 5  # one of so many follows: a mode that two of a hundred find may have most of the mass
_NOTABLE = math.log(100)  # nats: a hundredth of the mass of the cloud


class Scouts(eqx.Module):
    """Where the scouts stand, the move that each would make next, and what changed with the last one."""

    footing: Footing
    moves: Array
    longest: Array
    moved: Array
    changed: Scores
    looks: Array  # so far

    @classmethod
    def at(cls, particles: Particles) -> "Scouts":
        """Return scouts that have not looked yet."""
        sds, zeros = jnp.std(particles, axis=0), jnp.zeros_like(particles)
        longest = jnp.where(sds > 0, sds, 1.0)
        return cls(
            Footing.unknown(particles), zeros + _FIRST * longest, longest, zeros, zeros, jnp.zeros((), jnp.int32)
        )

    @property
    def on_the_way(self) -> Array:
        """Whether they have not looked as often as they will."""
        return self.looks < NUM_STEPS

    @property
    def ahead(self) -> Particles:
        """Where they look next."""
        return self.footing.particles + self.moves

    def climbed(self, scores: Scores, log_densities: Array) -> "Scouts":
        """Return them after a look ahead; who finds nothing there stays, and tries half the move."""
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        growth = jnp.where(scores * self.moves > 0, 1.5, 0.5).astype(scores.dtype)
        uphill = jnp.sign(scores) * jnp.minimum(growth * jnp.abs(self.moves), self.longest)
        return Scouts(
            self.footing.after(self.ahead, scores, log_densities),
            jnp.where(known, uphill, 0.5 * self.moves),
            self.longest,
            jnp.where(known, self.moves, self.moved),
            jnp.where(known, scores - self.footing.scores, self.changed),
            self.looks + 1,
        )

    def followed(self, particles: Particles, missed: Array) -> Particles:
        """Return the particles, of which those whose scouts found a mode that was missed, and every fifth, go there."""
        places = jnp.arange(len(missed))
        finders, others = jnp.argsort(~missed), (places % _OTHERS == 0) & jnp.any(missed)
        guides = jnp.where(missed, places, finders[places // _OTHERS % jnp.maximum(jnp.sum(missed), 1)])
        return jnp.where((missed | others)[:, None], self.footing.particles[guides], particles)

    def missed(self, particles: Particles, log_densities: Array, frame: Frame) -> Array:
        """Say of every scout whether it found a mode that this cloud missed.

        Args:
            particles: the cloud.
            log_densities: its own.
            frame: its coordinates.
        """
        found = self.footing
        lengths, reach = (jnp.linalg.norm(frame.points(x), axis=1) for x in (found.particles, particles))
        outside = lengths > jnp.sort(reach)[-1 - len(reach) // 20]  # where at most a twentieth of the cloud is
        moved = jnp.abs(frame.points(frame.center + self.moved))
        changed = jnp.abs(frame.scores(self.changed))
        curvatures = jnp.maximum(changed / jnp.maximum(moved, 1e-30), 1.0)  # no mode is wider than the cloud
        at_peak = jnp.sum(frame.scores(found.scores) ** 2 / curvatures, axis=1) < 1
        log_masses = found.log_densities - 0.5 * jnp.sum(1 + jnp.log(curvatures), axis=1)
        typical = jnp.sort(log_densities)[len(log_densities) // 2]
        notable = log_masses > typical - _NOTABLE
        return at_peak & notable & outside
