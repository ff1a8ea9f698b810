"""What chains keep of their path: the last points, in the order of time."""

import equinox as eqx
import jax.numpy as jnp

from steinflow.typing import Array


class Trace(eqx.Module):
    """The last points of a chain: a buffer of fixed length, written in a circle."""

    points: Array
    count: Array

    @classmethod
    def starting_at(cls, point: Array, length: int) -> "Trace":
        """Return a trace that has kept nothing yet."""
        return cls(jnp.broadcast_to(point, (length, *point.shape)), jnp.zeros((), jnp.int32))

    def keep(self, point: Array) -> "Trace":
        """Return the trace with one more point; the oldest falls out when it is full."""
        return Trace(self.points.at[self.count % len(self.points)].set(point), self.count + 1)

    def in_order(self) -> Array:
        """Return the points, oldest first. As long as there are fewer than fit in, they repeat."""
        length = len(self.points)
        oldest = jnp.where(self.count < length, 0, self.count)
        return self.points[(jnp.arange(length) + oldest) % jnp.clip(self.count, 1, length)]
