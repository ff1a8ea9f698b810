r"""What particles remember of their way: sums over the whole trajectory, n times hundreds of states, and some of these.

Every particle is a chain. All this is compiled with the steps; `recollection.py` works out what it says.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.methods.svgd.frames import Frame
from steinflow.methods.svgd.recollection import Path, Recollection, drift_of, lost_chains
from steinflow.typing import Array, Particles, Scalar

_STATES = 4000  # of all particles together; enough for a tail, little beside the rest
_MIXED = 1.2  # R-hat at which the warm-up ends
_MOVED = 0.3  # sds that a mean may still move in the second half; as on arrival, what follows does the rest
_GOLDEN = 2654435769  # 2^32 over the golden ratio


class Trajectory(eqx.Module):
    """Sums over the way of every particle, and some of its states."""

    frame: Frame  # the coordinates of the sums
    count: Scalar  # of the steps
    blocked: Scalar  # how many of all moves were not made, because the density ends there
    time: Array  # that every particle took for them: what it saw counts as long as it stayed
    points: Array
    squares: Array
    pulls: Array
    products: Array
    heights: Array  # not a sum but an average, of log densities, which may be large
    states: Array  # of some steps, in the particles' own coordinates; the last row is a scrap
    state_pulls: Array  # there, in the coordinates of the frame
    log_densities: Array  # there
    durations: Array  # how long the particles stayed there
    steps: Array  # which steps these are

    @classmethod
    def empty(cls, particles: Particles, frame: Frame, num_steps: int) -> "Trajectory":
        """Return a memory of nothing, with room for the states of `num_steps` steps or fewer."""
        num_particles, dim = particles.shape
        num_states = min(max(-(-_STATES // num_particles), 4), max(num_steps, 1))
        zeros = jnp.zeros_like(particles)
        states = jnp.zeros((num_states + 1, num_particles, dim), particles.dtype)
        values, steps = states[..., 0], jnp.zeros(num_states + 1, jnp.int32)
        count, time = jnp.zeros((), jnp.int32), zeros[:, 0]
        sums = time[0], time, zeros, zeros, zeros, zeros, time
        return cls(frame, count, *sums, states, states, values, values, steps)

    def add(
        self,
        particles: Particles,
        log_densities: Array,
        pulls: Array,
        durations: Array,
        frame: Frame,
        *,
        remembering: Array,
        blocked: Array | bool = False,
    ) -> "Trajectory":
        """Return the memory with one more state.

        Args:
            particles: the state.
            log_densities: there, up to a constant.
            pulls: the scores there, times the covariance that the walk assumes, in the coordinates of the frame.
            durations: how long every particle stays there, up to a factor.
            frame: the coordinates to remember it in, the same for all states.
            remembering: whether to; states outside are not added.
            blocked: whose move was not made, because the density ends there.
        """
        u, slot = frame.points(particles), jnp.where(remembering, self._slot(), len(self.states) - 1)
        time = self.time + jnp.where(remembering, durations, 0.0)
        newest = durations / jnp.maximum(time, durations)

        def plus(total, new):
            return total + jnp.where(remembering, durations[:, None] * new, 0.0)

        return Trajectory(
            frame=jax.tree.map(lambda old, new: jnp.where(remembering, new, old), self.frame, frame),
            count=self.count + remembering.astype(self.count.dtype),
            blocked=self.blocked + jnp.sum(remembering & blocked, dtype=self.blocked.dtype),
            time=time,
            points=plus(self.points, u),
            squares=plus(self.squares, u**2),
            pulls=plus(self.pulls, pulls),
            products=plus(self.products, u * pulls),
            heights=jnp.where(remembering, self.heights + newest * (log_densities - self.heights), self.heights),
            states=self.states.at[slot].set(particles),
            state_pulls=self.state_pulls.at[slot].set(pulls),
            log_densities=self.log_densities.at[slot].set(log_densities),
            durations=self.durations.at[slot].set(durations),
            steps=self.steps.at[slot].set(self.count),
        )

    def forgotten(self) -> "Trajectory":
        """Return a memory of nothing."""

        def sums(memory):
            return (
                memory.count,
                memory.blocked,
                memory.time,
                memory.points,
                memory.squares,
                memory.pulls,
                memory.products,
                memory.heights,
            )

        return eqx.tree_at(sums, self, tuple(map(jnp.zeros_like, sums(self))))

    def mixed(self) -> Array:
        """Return whether the chains have seen about the same: R-hat below 1.2 in every coordinate."""
        time = jnp.maximum(self.time, jnp.finfo(self.time.dtype).tiny)[:, None]
        shares, means = time / jnp.sum(time), self.points / time
        within = jnp.sum(shares * (self.squares / time - means**2), axis=0)
        between = jnp.sum(shares * (means - jnp.sum(shares * means, axis=0)) ** 2, axis=0)
        return jnp.all(between < (_MIXED**2 - 1) * within)

    def lost(self) -> Array:
        """Say of every chain whether it stayed where there is no mass."""
        time = jnp.maximum(self.time, jnp.finfo(self.time.dtype).tiny)[:, None]
        return lost_chains(self.heights, self.squares / time - (self.points / time) ** 2, jnp)

    def drifting(self) -> Array:
        """Return whether all chains together are still on their way, which R-hat does not see."""
        kept = jnp.arange(len(self.states), dtype=self.count.dtype) < jnp.minimum(self.count, len(self.states) - 1)
        durations = jnp.where(kept[:, None], self.durations, 0.0)
        return drift_of(self.frame.points(self.states), durations, 2 * self.steps >= self.count, jnp) > _MOVED

    def _slot(self) -> Array:
        """Return where the next state goes, so that at any time all steps so far are equally likely to be kept.

        This is reservoir sampling: the (t + 1)-th state replaces one of the m that are kept with probability
        m / (t + 1).
        """
        last = len(self.states) - 1
        return jnp.where(self.count < last, self.count, slot_of(self.count, (self.count + 1).astype(jnp.float32), last))

    def recalled(self, *, noisy: bool = False) -> Recollection:
        """Return what there is to work with on the host, in double precision; `noisy` where steps saw minibatches."""
        kept = slice(min(int(self.count), len(self.states) - 1))
        time = np.maximum(np.asarray(self.time, float), np.finfo(np.float32).tiny)
        sums = self.points, self.squares, self.pulls, self.products
        path = self.steps, self.states, self.state_pulls, self.log_densities, self.durations
        return Recollection.of(
            int(self.count),
            float(self.blocked) / max(int(self.count) * len(time), 1),
            jax.tree.map(lambda leaf: np.asarray(leaf, float), self.frame),
            time,
            *(np.asarray(total, float) / time[:, None] for total in sums),
            heights=np.asarray(self.heights, float),
            path=Path(*(np.asarray(each)[kept] for each in path)),
            noisy=noisy and int(self.count) > 1,
        )


def slot_of(count: Array, horizon: Scalar, num_slots: int) -> Array:
    """Return one of so many slots with probability num_slots / horizon, all equally likely; else the number of slots.

    The multiples of the golden ratio take the place of random numbers.
    """
    fraction = (count.astype(jnp.uint32) * jnp.uint32(_GOLDEN)).astype(jnp.float32) * np.float32(2.0**-32)
    return jnp.minimum((fraction * horizon).astype(jnp.int32), num_slots)
