"""What chains keep of their path: the last points, in the order of time."""

import equinox as eqx
import jax.numpy as jnp

from steinflow.typing import Array


class Trace(eqx.Module):
    """The last points of a chain: a buffer of fixed length, written in a circle.

    Until something is kept it holds the starting point, so that a chain is never empty.
    """

    points: Array
    count: Array  # of all points that were ever kept

    @classmethod
    def starting_at(cls, point: Array, length: int) -> "Trace":
        """Return a trace that has kept nothing yet."""
        return cls(jnp.broadcast_to(point, (length, *point.shape)), jnp.zeros((), jnp.int32))

    @property
    def num_kept(self) -> Array:
        """How many points it holds."""
        return jnp.clip(self.count, 1, len(self.points))

    def keep(self, point: Array) -> "Trace":
        """Return the trace with one more point; the oldest falls out when it is full."""
        return Trace(self.points.at[self.count % len(self.points)].set(point), self.count + 1)

    def in_order(self) -> Array:
        """Return the buffer, its `num_kept` points in front, oldest first; what comes after them means nothing."""
        full = self.count >= len(self.points)
        return jnp.roll(self.points, jnp.where(full, -self.count, 0), axis=0)
