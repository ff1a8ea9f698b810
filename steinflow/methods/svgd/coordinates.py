r"""Coordinates of particles that explore, learned on the way from positions and scores.

The best coordinates for a walk are those in which positions and scores vary alike, in every direction: where C and S
are their covariances, the metric is the geometric mean

$$M = C \mathbin{\#} S^{-1} = C^{1/2} (C^{-1/2} S^{-1} C^{-1/2})^{1/2} C^{1/2},$$

which minimises the Fisher divergence to a Gaussian, as nutpie has it (arXiv:2603.18845).
On a Gaussian target with covariance $\Sigma$ scores are linear in positions, $S = \Sigma^{-1} C \Sigma^{-1}$, and M is
$\Sigma$ itself, whatever the sample: positions alone would know it to within $\sqrt{d / n}$.

Both forget their start: they see about the last third of the way so far. `Whole` averages matrices, `LowRank` keeps
some of the states, where the matrices would be too large.
"""

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

from steinflow.devices.branches import either
from steinflow.methods.svgd.arrival import shortened
from steinflow.methods.svgd.frames import Frame, Stretched, frame_of
from steinflow.methods.svgd.memory import slot_of
from steinflow.stein.geometry import mean_and_shape
from steinflow.typing import Array, Particles, Scalar, Scores

_FOLLOWING = 3  # what is learned is that of about the last third of the steps: their start is soon forgotten
_LATER = 1.2  # the coordinates change when the walk is that many times as long: few decompositions, at any length
_AGAIN = 10  # steps whose weight is kept when many took the place of few: it is that of others, but has a rank
_STATES = 400  # of all particles together, which span a metric of low rank
_RANK = 256  # directions in which it differs most from the scales: twice as many take twice the time
_UNKNOWN = 0.1  # of the average variance: the least that a few hundred states say of any direction


class Coordinates(eqx.Module):
    """The frame of a walk, and what is known of it."""

    frame: eqx.AbstractVar[Any]  # a frame of either kind

    @abc.abstractmethod
    def begun(self, frame: Frame) -> "Coordinates":
        """Return those of a walk that begins in this frame."""

    @abc.abstractmethod
    def after(self, particles: Particles, scores: Scores) -> "Coordinates":
        """Return those after a step of the warm-up, by what the particles have come to know."""

    @abc.abstractmethod
    def of_others(self) -> "Coordinates":
        """Return the same when most particles have taken the positions of others, which know better."""

    @property
    @abc.abstractmethod
    def memory_frame(self) -> Frame:
        """Those in which the way is remembered."""


class Fixed(Coordinates):
    """The frame in which the walk began."""

    frame: Frame

    def begun(self, frame):
        return Fixed(frame)

    def after(self, particles, scores):
        return self

    def of_others(self):
        return self

    @property
    def memory_frame(self):
        return self.frame


class Whole(Coordinates):
    """Averages of all covariances, in the coordinates of the walk, where both are near I.

    The frame in which the walk began counts for as many states as there are dimensions, so that both have full rank
    from the first step on.

    Attributes:
        frame: L is lower-triangular.
        spread: the covariance of positions.
        steepness: that of scores.
        followed: how many steps count.
        num_particles: of the walk.
    """

    frame: Frame
    spread: Array
    steepness: Array
    followed: Scalar
    num_particles: int = eqx.field(static=True)

    @classmethod
    def unknown(cls, particles: Particles) -> "Whole":
        """Return those of a walk that has to begin."""
        num_particles, dim = particles.shape
        one = jnp.eye(dim, dtype=particles.dtype)
        followed = jnp.asarray(dim / num_particles, particles.dtype)
        return cls(Frame(jnp.zeros_like(particles[0]), one, one), one, one, followed, num_particles)

    def begun(self, frame):
        factor, inverse = (jnp.diag(part) if part.ndim < 2 else part for part in (frame.factor, frame.inverse))
        one, num = jnp.eye(len(factor), dtype=factor.dtype), self.num_particles
        return Whole(
            Frame(frame.center, factor, inverse), one, one, jnp.full_like(self.followed, len(factor) / num), num
        )

    def after(self, particles, scores):
        newest = _FOLLOWING / (self.followed + _FOLLOWING)

        def average(old, new):
            return (1 - newest) * old + newest * new

        # A few particles with huge scores, as in the neck of a funnel, do not say how steep it is elsewhere.
        spread = average(self.spread, _covariance(self.frame.points(particles)))
        steepness = average(self.steepness, _covariance(shortened(self.frame.scores(scores))))
        center = average(self.frame.center, jnp.mean(particles, axis=0))
        frame, followed = Frame(center, self.frame.factor, self.frame.inverse), self.followed + 1
        spread, steepness, frame = either(
            _new_stage(followed), lambda: suited(frame, spread, steepness), lambda: (spread, steepness, frame)
        )
        return Whole(frame, spread, steepness, followed, self.num_particles)

    def of_others(self):
        return dataclasses.replace(self, followed=jnp.minimum(self.followed, _AGAIN))

    @property
    def memory_frame(self):
        """The same, in which nothing is correlated; or that of the parameters, by themselves.

        No more particles than dimensions cannot be uncorrelated. Their marginals are those of the parameters.
        """
        if self.num_particles <= len(self.spread):
            return frame_of(self.frame.center, jnp.sum(self.frame.factor**2, axis=1))
        return self.frame


class LowRank(Coordinates):
    """Scales of all coordinates, and what some hundred states say of the directions that they span.

    Scales are those of variances: the square of each is the geometric mean of C and 1 / S in its coordinate.

    Attributes:
        frame: of low rank.
        positions: some of those on the way, of shape (m, n, d).
        slopes: the scores there.
        seen: the number of steps so far.
        followed: how many of them count.
    """

    frame: Stretched
    positions: Array
    slopes: Array
    seen: Array
    followed: Scalar

    @classmethod
    def unknown(cls, particles: Particles) -> "LowRank":
        """Return those of a walk that has to begin."""
        num_particles, dim = particles.shape
        nothing = jnp.zeros((-(-_STATES // num_particles), num_particles, dim), particles.dtype)
        zeros, one = jnp.zeros_like(particles[0]), jnp.ones_like(particles[0])
        axes = jnp.zeros((dim, _RANK), particles.dtype)
        frame = Stretched(Frame(zeros, one, one), axes, jnp.ones_like(axes[0]), one)
        return cls(frame, nothing, nothing, jnp.zeros((), jnp.int32), jnp.asarray(dim / num_particles, particles.dtype))

    def begun(self, frame):
        nothing = jax.tree.map(jnp.zeros_like, self)
        stretched = Stretched(frame, nothing.frame.axes, jnp.ones_like(self.frame.stretch), frame.factor**2)
        _, num_particles, dim = self.positions.shape
        followed = jnp.full_like(self.followed, dim / num_particles)
        return dataclasses.replace(nothing, frame=stretched, followed=followed)

    def after(self, particles, scores):
        num_slots = len(self.positions)
        seen, followed = self.seen + 1, self.followed + 1
        slot = slot_of(self.seen, (followed + _FOLLOWING) / _FOLLOWING, num_slots)
        slot = jnp.where(self.seen < num_slots, self.seen, slot)  # at the end of the row: nowhere
        positions = self.positions.at[slot].set(particles, mode="drop")
        slopes = self.slopes.at[slot].set(scores, mode="drop")
        ready = _new_stage(followed) & (seen >= num_slots)
        frame = either(ready, lambda: spanned(self.frame, positions, slopes), lambda: self.frame)
        return LowRank(frame, positions, slopes, seen, followed)

    def of_others(self):
        """Return the same, which learns from now on."""
        return dataclasses.replace(self, seen=jnp.zeros_like(self.seen))

    @property
    def memory_frame(self):
        """That of the parameters, by themselves."""
        return frame_of(self.frame.center, self.frame.variances)


def _new_stage(followed):
    stage, last_stage = (jnp.floor(jnp.log(each) / math.log(_LATER)) for each in (followed, followed - 1))
    return stage > last_stage


def _covariance(rows):
    _, deviations = mean_and_shape(rows)
    return deviations.T @ deviations / len(rows)


def suited(frame: Frame, spread: Array, steepness: Array) -> tuple[Array, Array, Frame]:
    r"""Return coordinates in which positions and scores vary alike but for a factor, and how both vary there.

    With $C = L L^\top$ and $L^\top S L = V t V^\top$, both are $t^{1/2}$ in the coordinates $L V t^{-1/4}$. The factor
    gives positions unit variance on average: on a Gaussian they have it, and in a funnel, where scores vary more, they
    keep the scale of the cloud. The coordinates are turned so that their factor is lower-triangular: where parameters
    are hardly correlated each is nearly a coordinate of its own, and its sd is not left to those of the others.
    """
    change, back, values = _alike(spread, steepness, frame.inverse)
    turn, upper = jnp.linalg.qr((frame.factor @ change).T)
    signs = jnp.sign(jnp.diag(upper))
    turn, factor = turn * signs, upper.T * signs
    inverse = turn.T @ back
    alike, variance = (turn.T * jnp.sqrt(values)) @ turn, jnp.mean(jnp.sqrt(values))
    scale = jnp.sqrt(variance)
    found = Frame(frame.center, factor * scale, inverse / scale)
    return _if_known((alike / variance, alike * variance, found), (spread, steepness, frame))


def spanned(frame: Stretched, positions: Array, slopes: Array) -> Stretched:
    """Return the same of low rank: alike in the span of these positions and slopes, of shape (m, n, d), and scaled."""
    dim = positions.shape[-1]
    center, x = mean_and_shape(positions.reshape(-1, dim))
    _, s = mean_and_shape(slopes.reshape(-1, dim))
    s = frame.scaled.scores(s)
    typical = jnp.median(jnp.linalg.norm(s, axis=1)) * dim**-0.5  # more than 1 where coordinates are correlated
    s = shortened(s / typical) / frame.scaled.factor
    scale = (jnp.mean(x**2, axis=0) / jnp.mean(s**2, axis=0)) ** 0.25
    x, s = (rows / jnp.sqrt(jnp.mean(rows**2)) for rows in (x / scale, s * scale))
    span, _ = jnp.linalg.qr(jnp.concatenate([x, s]).T)
    one = jnp.eye(span.shape[1], dtype=x.dtype)
    spread, steepness = (_covariance(rows @ span) + _UNKNOWN * one for rows in (x, s))
    root, _, _ = _alike(spread, steepness, one)
    values, directions = jnp.linalg.eigh(root @ root.T)
    chosen = jnp.argsort(-jnp.abs(jnp.log(values)))[:_RANK]
    axes, stretch = span @ directions[:, chosen], jnp.sqrt(values[chosen])
    variances = 1 + axes**2 @ (values[chosen] - 1)

    def stretched(scale):
        return Stretched(Frame(center, scale, 1 / scale), axes, stretch, variances * scale**2)

    size = jnp.sqrt(jnp.mean(stretched(scale).points(positions) ** 2))
    return _if_known(stretched(scale * size), frame)


def _alike(spread, steepness, inverse):
    """Return coordinates A in which both are t^1/2, A^-1 times a matrix, and t."""
    root = jnp.linalg.cholesky(spread)
    values, axes = jnp.linalg.eigh(root.T @ steepness @ root)
    back = axes.T @ triangular_solve(root, inverse, left_side=True, lower=True)
    return root @ (axes * values**-0.25), (values**0.25)[:, None] * back, values


def _if_known(new, old):
    known = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]))
    return jax.tree.map(lambda new, old: jnp.where(known, new, old), new, old)
