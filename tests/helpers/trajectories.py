"""Trajectories for the tests of what is remembered: states of a correlated Gaussian, and memories of states."""

import jax
import jax.numpy as jnp

from steinflow.methods.svgd.frames import frame_of
from steinflow.methods.svgd.memory import Trajectory

NUM, DIM, STEPS = 50, 3, 40
TRUE = jnp.array([True])[0]


add = jax.jit(Trajectory.add)


def remembered(states, scores, frame, log_densities=None, durations=None):
    """The memory of these states (steps, n, d), one after the other."""
    memory = Trajectory.empty(states[0], frame, len(states))
    values = jnp.zeros(len(states[0])) if log_densities is None else log_densities
    durations = jnp.ones(states.shape[:2]) if durations is None else durations
    for x, s, stay in zip(states, scores, durations, strict=True):
        memory = add(memory, x, values, frame.scores(s), stay, frame, remembering=TRUE)
    return memory


def frame_around(center, covariance):
    return frame_of(jnp.asarray(center, jnp.float32), jnp.asarray(covariance, jnp.float32))
