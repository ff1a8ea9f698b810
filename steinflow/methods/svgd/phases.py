"""The phases of a run: particles arrive, warm up, and then remember what they see.

In the first twenty steps scouts look around (`scouts.py`). The Stein flow arrives, until the cloud stands in the mass
or 30% of the steps are made, and at least 250: in a run of fewer than 500, a cloud that does not arrive in the first
half flows to the end. Then the particles explore. At first they warm up: their step and their metric adapt, and nothing
counts. Three times, every tenth of the run, they ask whether the chains have seen about the same since they
last asked (the first time: in the second half of the warm-up so far); if so, or the third time in any case, the warm-up
ends, and what follows is remembered. Chains that stayed where there is no mass take the places of others. As long as
there are such chains, or all are on their way together, the warm-up goes on, for two tenths at most beyond the third.

Noise of minibatches that is alike in all directions turns explorers a little more often, which they do anyway, and what
they see stays right. That of scores corrected at an anchor is nearly so. Where it is more than twice as large as the
scores themselves, the flow goes on, until it is less or, once half of the steps are made, to the end.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.branches import either
from steinflow.methods.base import Time
from steinflow.methods.svgd.arrival import Footing
from steinflow.methods.svgd.exploration import Exploration
from steinflow.methods.svgd.memory import Trajectory
from steinflow.methods.svgd.metrics import Metric
from steinflow.methods.svgd.scouts import NUM_STEPS, Scouts
from steinflow.methods.svgd.walk import Walk
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Particles, PRNGKeyArray, Scalar

_LEAST_ARRIVAL = 250  # steps; half of a run of 500. Who has not arrived in a shorter one does not explore
_RECENT = 0.1  # what one step adds to the average heat: a batch may by chance show no noise
_CALM = 4.0  # noise twice as large as scores in the coordinates of the cloud; without an anchor it is hundreds of times


class Moved(NamedTuple):
    """What a step may change, whatever its phase."""

    particles: Particles
    step_rule: Any
    scouts: Scouts
    footing: Footing
    walk: Walk
    arrived: Array
    heat: Scalar


class Journey(eqx.Module):
    """What exploring adds to the state of a run."""

    scouts: Scouts
    walk: Walk
    memory: Trajectory
    footing: Footing
    arrived: Array
    warm: Array  # whether the warm-up is over
    lost: Array  # who was found, at the last question, to have stayed where there is no mass
    heat: Scalar  # the variance of what minibatches add to the scores, in the worst coordinate of the cloud

    @classmethod
    def start(
        cls, exploration: Exploration, particles: Particles, metric: Metric, *, num_steps: int, key: PRNGKeyArray
    ) -> "Journey":
        """Return a journey that has not begun."""
        walk, no = Walk.start(exploration, particles, metric, num_steps=num_steps, key=key), jnp.zeros((), bool)
        return cls(
            Scouts.at(particles),
            walk,
            Trajectory.empty(particles, walk.memory_frame, num_steps),
            Footing.unknown(particles),
            no,
            no,
            jnp.zeros(len(particles), bool),
            jnp.asarray(jnp.inf, particles.dtype),
        )

    def recent_heat(self, heat: Scalar) -> Scalar:
        """Return the average heat of recent steps, with that of one more."""
        return jnp.where(jnp.isfinite(self.heat), (1 - _RECENT) * self.heat + _RECENT * heat, heat)

    def after(self, exploration: Exploration, moved: Moved, blocked: Array, phase: "Phase") -> "Journey":
        """Return the journey after a step; `blocked` says which of the particles stayed at an edge."""
        walk = moved.walk
        memory = self.memory.add(
            moved.particles,
            moved.footing.log_densities,
            walk.pulls(),
            walk.durations(exploration),
            walk.memory_frame,
            remembering=phase.listening,
            blocked=blocked,
        )
        lost = phase.asking & memory.lost()
        on_the_way = jnp.any(lost) | either(phase.asking, memory.drifting, lambda: jnp.zeros((), bool))
        ends = jnp.where(on_the_way, phase.out_of_time, phase.asking_last | memory.mixed())
        forgotten = jax.tree.map(lambda new, old: jnp.where(phase.asking, new, old), memory.forgotten(), memory)
        warm = self.warm | (phase.asking & ends)
        return Journey(moved.scouts, walk, forgotten, moved.footing, moved.arrived, warm, lost, moved.heat)


class Phase(eqx.Module):
    """Where in its run a step is."""

    scouting: Array
    early: Array  # enough steps are left to explore
    due: Array  # arrival has taken long enough
    moving: Array  # exploring, but for the first step, which takes the scores to begin with
    listening: Array  # to what the chains see, whether it is remembered or asked about
    asking: Array  # whether the warm-up is over
    asking_last: Array
    out_of_time: Array  # even for chains that are lost
    arrival: Time  # of the step rule: arrival is half a run, in which steps do not decay

    @classmethod
    def of(cls, journey: Journey, target: FlatTarget, time: Time) -> "Phase":
        """Return the phase of this step; as long as the target is tempered, no warm-up ends."""
        tenth = time.num_steps // 10
        deadline = jnp.maximum(3 * time.num_steps // 10, _LEAST_ARRIVAL)
        explored = journey.walk.explored.astype(tenth.dtype)
        return cls(
            scouting=journey.scouts.on_the_way & ~journey.arrived & ~target.is_tempered & (not target.noisy),
            early=2 * time.step < time.num_steps,
            due=time.step + 1 >= deadline,
            moving=explored > 0,
            listening=2 * explored >= tenth,
            asking=~journey.warm & (explored > 0) & (explored % tenth == 0) & ~target.is_tempered,
            asking_last=explored >= 3 * tenth,
            out_of_time=explored >= 5 * tenth,
            arrival=time if target.noisy else Time(time.step - NUM_STEPS, jnp.minimum(2 * deadline, time.num_steps)),
        )

    def ends_arrival(self, arrived: Array, heat: Scalar) -> Array:
        """Return whether particles explore from the next step on: where noise rules, the flow averages it better."""
        return (arrived | self.due) & self.early & (heat < _CALM)
