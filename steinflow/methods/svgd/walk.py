r"""Exploring particles, and the coordinates in which they explore.

The best coordinates for a walk are those in which positions and scores vary alike, in every direction: where C and S
are their covariances, the metric is the geometric mean

$$M = C \mathbin{\#} S^{-1} = C^{1/2} (C^{-1/2} S^{-1} C^{-1/2})^{1/2} C^{1/2},$$

which minimises the Fisher divergence to a Gaussian, as nutpie has it (arXiv:2603.18845).
On a Gaussian target with covariance $\Sigma$ scores are linear in positions, $S = \Sigma^{-1} C \Sigma^{-1}$, and M is
$\Sigma$ itself, whatever the sample: positions alone would know it to within $\sqrt{d / n}$.

In the warm-up C and S are averages over the last third of the way so far, in the coordinates of the walk, where both
are near I. The coordinates in which the walk began count for as many states as there are dimensions, so that both have
full rank from the first step on.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

from steinflow.devices.branches import either
from steinflow.methods.svgd.arrival import shortened
from steinflow.methods.svgd.exploration import Exploration
from steinflow.methods.svgd.metrics import Frame, Metric, frame_of
from steinflow.typing import Array, Particles, PRNGKeyArray, Scores

_FOLLOWING = 3  # spread and steepness average over about the last third of the steps: their start is soon forgotten
_LATER = 1.2  # the coordinates change when the walk is that many times as long: few decompositions, at any length
_AGAIN = 10  # steps whose weight the spread keeps when many took the place of few: it is that of others, but has a rank


class Walk(eqx.Module):
    """Exploring particles: their scores, their coordinates, and what the exploration remembers.

    Attributes:
        scores: those at the particles.
        spread: the covariance of positions on the way, in the coordinates of the frame, as far as the metric sees it.
        steepness: that of scores.
        frame: the coordinates.
        num_steps: so far.
        followed: how many of them count for spread and steepness.
        state: what the exploration remembers.
    """

    scores: Scores
    spread: Array
    steepness: Array
    frame: Frame
    num_steps: Array
    followed: Array
    state: Any

    @classmethod
    def start(
        cls, exploration: Exploration, particles: Particles, metric: Metric, *, num_steps: int, key: PRNGKeyArray
    ) -> "Walk":
        """Return a walk without coordinates, in which it has to begin; its first step stays where it is."""
        spread = jnp.zeros_like(metric.spread(particles))
        factor = jnp.zeros_like(spread)
        frame = Frame(jnp.zeros_like(particles[0]), factor, factor)
        state = exploration.init(particles, num_steps=num_steps, key=key)
        none = jnp.zeros((), particles.dtype)
        return cls(jnp.zeros_like(particles), spread, spread, frame, none, none, state)

    @property
    def memory_frame(self) -> Frame:
        """The coordinates in which the way is remembered: those of the walk, in which nothing is correlated.

        No more particles than dimensions cannot be uncorrelated in them. Their marginals are those of the parameters.
        """
        num_particles, dim = self.scores.shape
        diagonal = num_particles <= dim and self.spread.ndim == 2
        return frame_of(self.frame.center, jnp.sum(self.frame.factor**2, axis=1)) if diagonal else self.frame

    def pulls(self) -> Array:
        """Return M s in the coordinates of the memory: minus the particles, on a Gaussian with covariance M."""
        frame, scores = self.memory_frame, self.frame.scores(self.scores)
        return scores if frame is self.frame else frame.inverse * self.frame.moves(scores)

    def durations(self, exploration: Exploration) -> Array:
        """Return how long every particle stays where it is, up to a factor."""
        return jnp.broadcast_to(exploration.durations(self.state), len(self.scores)).astype(self.scores.dtype)

    def at(self, indices: Array, *, anew: Array) -> "Walk":
        """Return the walk with every particle at the position of another, or its own; each keeps its direction.

        Args:
            indices: whose position each takes.
            anew: whether the spread was that of particles which are gone.
        """
        followed = jnp.where(anew, jnp.minimum(self.followed, _AGAIN), self.followed)
        return dataclasses.replace(self, scores=self.scores[indices], followed=followed)

    def ahead(self, exploration: Exploration, particles: Particles, *, key: PRNGKeyArray) -> Particles:
        """Return where the particles want to go."""
        moves = exploration.moves(self.frame.scores(self.scores), self.state, key=key)
        return particles + self.frame.moves(moves)

    def step(
        self,
        exploration: Exploration,
        particles: Particles,
        ahead: Particles,
        scores: Scores,
        metric: Metric,
        *,
        warming: Array,
        keys: tuple[PRNGKeyArray, PRNGKeyArray],
    ) -> tuple[Particles, "Walk"]:
        """Return the particles after their moves, and the walk; in the warm-up its coordinates follow them."""
        made = jnp.all(jnp.isfinite(ahead) & jnp.isfinite(scores), axis=1, keepdims=True)
        before, there = self.frame.scores(self.scores), self.frame.scores(scores)
        moves = exploration.moves(before, self.state, key=keys[0])
        state = exploration.step(moves, before, there, made, self.state, warming=warming, key=keys[1])
        moved, scores = jnp.where(made, ahead, particles), jnp.where(made, scores, self.scores)
        # The first step is none: it takes the scores to begin with.
        state = jax.tree.map(lambda new, old: jnp.where(self.num_steps > 0, new, old), state, self.state)
        walk = dataclasses.replace(self, scores=scores, num_steps=self.num_steps + 1, state=state)

        return moved, either(warming, lambda: walk.following(moved, metric), lambda: walk)

    def begun(self, frame: Frame) -> "Walk":
        """Return a walk that begins in these coordinates, which count for as many states as give its spread full rank.

        That is one for every dimension, or one where it consists of variances.
        """
        num_particles, dim = self.scores.shape
        num_states = dim if self.spread.ndim == 2 else 1
        one = jnp.eye(dim, dtype=self.scores.dtype) if self.spread.ndim == 2 else jnp.ones_like(self.spread)
        factor, inverse = (
            jnp.diag(part) if part.ndim < self.spread.ndim else part for part in (frame.factor, frame.inverse)
        )
        frame, followed = Frame(frame.center, factor, inverse), jnp.full_like(self.followed, num_states / num_particles)
        return dataclasses.replace(self, spread=one, steepness=one, frame=frame, followed=followed)

    def following(self, particles: Particles, metric: Metric) -> "Walk":
        """Return the walk after a step of the warm-up, by what the particles have come to know."""
        newest = _FOLLOWING / (self.followed + _FOLLOWING)

        def average(old, new):
            return (1 - newest) * old + newest * new

        # A few particles with huge scores, as in the neck of a funnel, do not say how steep it is elsewhere.
        spread = average(self.spread, metric.spread(self.frame.points(particles)))
        steepness = average(self.steepness, metric.spread(shortened(self.frame.scores(self.scores))))
        center = average(self.frame.center, jnp.mean(particles, axis=0))
        frame, followed = Frame(center, self.frame.factor, self.frame.inverse), self.followed + 1
        if spread.ndim < 2:
            spread, steepness, frame = suited(frame, spread, steepness)
        else:
            stage, last_stage = (jnp.floor(jnp.log(each) / math.log(_LATER)) for each in (followed, self.followed))
            spread, steepness, frame = either(
                stage > last_stage, lambda: suited(frame, spread, steepness), lambda: (spread, steepness, frame)
            )
        return dataclasses.replace(self, spread=spread, steepness=steepness, frame=frame, followed=followed)


def suited(frame: Frame, spread: Array, steepness: Array) -> tuple[Array, Array, Frame]:
    r"""Return coordinates in which positions and scores vary alike but for a factor, and how both vary there.

    With $C = L L^\top$ and $L^\top S L = V t V^\top$, both are $t^{1/2}$ in the coordinates $L V t^{-1/4}$. The factor
    gives positions unit variance on average: on a Gaussian they have it, and in a funnel, where scores vary more, they
    keep the scale of the cloud. The coordinates are turned so that their factor is lower-triangular: where parameters
    are hardly correlated each is nearly a coordinate of its own, and its sd is not left to those of the others.
    """
    if spread.ndim < 2:  # variances alone: those of scores, in coordinates that are correlated, say little
        scale = jnp.sqrt(spread)
        found = Frame(frame.center, frame.factor * scale, frame.inverse / scale)
        new = jnp.ones_like(spread), steepness * spread, found
    else:
        root = jnp.linalg.cholesky(spread)
        values, axes = jnp.linalg.eigh(root.T @ steepness @ root)
        turn, upper = jnp.linalg.qr((frame.factor @ root @ (axes * values**-0.25)).T)
        signs = jnp.sign(jnp.diag(upper))
        turn, factor = turn * signs, upper.T * signs
        inverse = (turn.T * values**0.25) @ axes.T @ triangular_solve(root, frame.inverse, left_side=True, lower=True)
        alike, variance = (turn.T * jnp.sqrt(values)) @ turn, jnp.mean(jnp.sqrt(values))
        scale = jnp.sqrt(variance)
        found = Frame(frame.center, factor * scale, inverse / scale)
        new = alike / variance, alike * variance, found
    known = jnp.all(jnp.isfinite(found.factor) & jnp.isfinite(found.inverse))
    return jax.tree.map(lambda new, old: jnp.where(known, new, old), new, (spread, steepness, frame))
