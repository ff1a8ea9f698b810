"""Exploring particles on their way."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.branches import either
from steinflow.methods.svgd.coordinates import Coordinates
from steinflow.methods.svgd.exploration import Exploration
from steinflow.methods.svgd.frames import Frame, Stretched
from steinflow.methods.svgd.metrics import Metric
from steinflow.typing import Array, Particles, PRNGKeyArray, Scores


class Walk(eqx.Module):
    """Exploring particles: their scores, their coordinates, and what the exploration remembers.

    Attributes:
        scores: those at the particles.
        slopes: the same in the coordinates of the walk.
        coordinates: those in which they walk.
        explored: how many steps the particles have explored; the loop does not know when they began.
        state: what the exploration remembers.
    """

    scores: Scores
    slopes: Scores
    coordinates: Coordinates
    explored: Array
    state: Any

    @classmethod
    def start(
        cls, exploration: Exploration, particles: Particles, metric: Metric, *, num_steps: int, key: PRNGKeyArray
    ) -> "Walk":
        """Return a walk that has to begin; its first step stays where it is."""
        state = exploration.init(particles, num_steps=num_steps, key=key)
        none = jnp.zeros((), particles.dtype)
        unknown = jnp.zeros_like(particles)
        return cls(unknown, unknown, metric.coordinates(particles), none, state)

    def begun(self, frame: Frame) -> "Walk":
        """Return a walk that begins in this frame."""
        return dataclasses.replace(self, coordinates=self.coordinates.begun(frame))

    @property
    def frame(self) -> Frame | Stretched:
        """The coordinates at present."""
        return self.coordinates.frame

    @property
    def memory_frame(self) -> Frame:
        """Those in which the way is remembered."""
        return self.coordinates.memory_frame

    def pulls(self) -> Array:
        """Return M s in the coordinates of the memory: minus the particles, on a Gaussian with covariance M."""
        frame = self.memory_frame
        return self.slopes if frame is self.frame else frame.inverse * self.frame.moves(self.slopes)

    def durations(self, exploration: Exploration) -> Array:
        """Return how long every particle stays where it is, up to a factor."""
        return jnp.broadcast_to(exploration.durations(self.state), len(self.scores)).astype(self.scores.dtype)

    def at(self, indices: Array, *, anew: Array) -> "Walk":
        """Return the walk with every particle at the position of another, or its own; each keeps its direction.

        Args:
            indices: whose position each takes.
            anew: whether the coordinates are those of particles which are gone.
        """
        known, others = self.coordinates, self.coordinates.of_others()
        coordinates = jax.tree.map(lambda new, old: jnp.where(anew, new, old), others, known)
        return dataclasses.replace(
            self, scores=self.scores[indices], slopes=self.slopes[indices], coordinates=coordinates
        )

    def ahead(self, exploration: Exploration, particles: Particles, *, key: PRNGKeyArray) -> Particles:
        """Return where the particles want to go."""
        moves = exploration.moves(self.slopes, self.state, key=key)
        return particles + self.frame.moves(moves)

    def step(
        self,
        exploration: Exploration,
        particles: Particles,
        ahead: Particles,
        scores: Scores,
        *,
        warming: Array,
        keys: tuple[PRNGKeyArray, PRNGKeyArray],
    ) -> tuple[Particles, "Walk"]:
        """Return the particles after their moves, and the walk; in the warm-up its coordinates follow them."""
        possible = jnp.all(jnp.isfinite(ahead) & jnp.isfinite(scores), axis=1, keepdims=True)
        slopes = self.frame.scores(scores)
        moves = exploration.moves(self.slopes, self.state, key=keys[0])
        # The first step is none: it takes the scores to begin with.
        state, made = jax.tree.map(
            lambda new, old: jnp.where(self.explored > 0, new, old),
            exploration.step(moves, self.slopes, slopes, possible, self.state, warming=warming, key=keys[1]),
            (self.state, possible),
        )
        moved = jnp.where(made, ahead, particles)
        scores, slopes = jnp.where(made, scores, self.scores), jnp.where(made, slopes, self.slopes)

        def learned():
            coordinates = self.coordinates.after(moved, scores)
            return coordinates, coordinates.frame.scores(scores)

        coordinates, slopes = either(warming, learned, lambda: (self.coordinates, slopes))
        return moved, Walk(scores, slopes, coordinates, self.explored + 1, state)
