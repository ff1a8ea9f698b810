r"""Arrival: from wherever the particles start to where the mass is.

In the coordinates of the cloud the Stein flow arrives at any scale and correlation, by a constant factor per step, as
long as no few particles rule it. A score of length l there says that the target's centre is l away if the target is as
wide as the cloud, whose radius is $\sqrt d$. One of ten radii or a million says the same: that way, and not how far.
"""

import math

import equinox as eqx
import jax.numpy as jnp

from steinflow.stein.discrepancy import dispersion_of
from steinflow.typing import Array, Particles, Scores

_TRUST = 10.0  # radii of the cloud
_SOME = 32  # particles whose median is that of all, but for a fifth of an sd; to sort all took half of a step
_OFF, _WIDTH = 0.3, 1.4  # sds; a factor of the variance
_CHANCE = 10.0  # by how much log densities differ in one mode, beside


class Footing(eqx.Module):
    """Where the target was last known to every particle, and what it was: who steps off comes back.

    A density that is zero beyond an edge (its logarithm minus infinity) has no slope there that would lead back. Who
    has never stood anywhere goes half of the way to one who does, at every step.
    """

    particles: Particles
    scores: Scores
    log_densities: Array

    @classmethod
    def unknown(cls, particles: Particles) -> "Footing":
        """Return that of particles which have not asked yet."""
        nothing = jnp.full_like(particles, jnp.nan)
        return cls(particles, nothing, nothing[:, 0])

    def after(self, particles: Particles, scores: Scores, log_densities: Array) -> "Footing":
        """Return it after a look at these positions."""
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        scores = jnp.where(known, scores, self.scores)
        stands = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        positions = jnp.where(known, particles, self.particles)
        guide = positions[jnp.argmax(stands)]
        closer = jnp.where(jnp.any(stands), 0.5 * (particles + guide), particles)
        return Footing(
            jnp.where(stands, positions, closer), scores, jnp.where(known[:, 0], log_densities, self.log_densities)
        )

    def at(self, indices: Array) -> "Footing":
        """Return it with every particle where another stands, or where it does."""
        return Footing(self.particles[indices], self.scores[indices], self.log_densities[indices])


def shortened(scores: Scores) -> Scores:
    """Return the scores, in the coordinates of the cloud, none further than ten radii of the cloud from their median.

    What all scores share is left as it is: a cloud far from its target may stride.
    """
    shared, own, longest = _apart(scores)
    return shared + own * (longest / jnp.maximum(jnp.linalg.norm(own, axis=1, keepdims=True), longest))


def _apart(scores):
    """Return what all scores share, what each has of its own, and how long that may be."""
    some = scores[:: max(1, len(scores) // _SOME)]
    shared = jnp.sort(some, axis=0)[len(some) // 2]
    return shared, scores - shared, _TRUST * scores.shape[1] ** 0.5


def has_arrived(points: Particles, scores: Scores) -> Array:
    """Return whether the cloud stands in the mass, by points and scores in its own coordinates.

    Its mean is within 0.3 sds, the spread in every coordinate within about 20% (its square by a factor of 0.7 to 1.4),
    and no score is one to be shortened. Exploring particles do the rest. No more particles than dimensions know the
    spread of no coordinate, and the flow leaves them too narrow: there it is enough that on average they are not wider.
    Nor do they know how coordinates are correlated, which makes scores longer, wherever the cloud is: there, scores
    count in units of their own root mean square.
    """
    num_particles, dim = points.shape
    dispersion = dispersion_of(points, scores)
    if num_particles > dim:
        as_wide = jnp.all((dispersion > 1 / _WIDTH) & (dispersion < _WIDTH))
    else:
        as_wide = jnp.mean(dispersion) < _WIDTH
        scores = scores / jnp.maximum(jnp.sqrt(jnp.mean(scores**2)), 1.0)
    in_place = jnp.mean(jnp.mean(scores, axis=0) ** 2) < _OFF**2 + 1 / num_particles
    _, own, longest = _apart(scores)
    return in_place & as_wide & jnp.all(jnp.linalg.norm(own, axis=1) < longest)


def astray(log_densities: Array, dim: int) -> Array:
    """Say of every particle whether it arrived at a mode without mass, as models of time series have many.

    There its log density is below that of the best tenth by more than all that a difference in width could make up for.
    A mode ten times as wide in every coordinate has the same mass at a log density lower by log 10 per dimension. A
    particle that never found the target is astray too.
    """
    known = jnp.isfinite(log_densities)  # of nobody, where a target knows only its scores
    best = jnp.sort(jnp.where(known, log_densities, jnp.inf))[jnp.sum(known) * 9 // 10]
    return jnp.any(known) & ~(known & (log_densities >= best - (_CHANCE + math.log(10) * dim)))


def homes(lost: Array) -> Array:
    """Return for every particle the index of the one whose position it takes: its own, unless it is lost."""
    order = jnp.argsort(lost)  # those at home first
    places = jnp.arange(len(lost))
    return jnp.where(lost, order[places % jnp.maximum(jnp.sum(~lost), 1)], places)
