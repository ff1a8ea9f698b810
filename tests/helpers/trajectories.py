"""Trajectories for the tests of what is remembered: states of a correlated Gaussian, and memories of states."""

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.methods.svgd.frames import frame_of
from steinflow.methods.svgd.memory import Trajectory
from steinflow.methods.svgd.recollection import Moments

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


def moments(mean, sd):
    nothing = np.zeros(len(mean))
    return Moments(np.asarray(mean, float), np.asarray(sd, float), nothing, nothing)


def recalled_of(states, frame):
    """What is remembered of independent states, whose scores are noise and say nothing."""
    memory, noise = Trajectory.empty(states[0], frame, len(states)), np.random.default_rng(9)
    for x in states:
        once, pulls = jnp.ones(len(x)), jnp.asarray(100 * noise.standard_normal(x.shape), x.dtype)
        memory = memory.add(x, 0 * once, pulls, once, frame, remembering=jnp.asarray(True))
    return memory.recalled()


def flat(dim, constrain=lambda x: x):
    """A target of this dimension, whose user sees what `constrain` says."""

    class Seen(sf.Target):
        def log_density(self, params, batch=None):
            return jnp.sum(params)

        def constrain(self, params):
            return constrain(params)

    return sf.flatten(Seen(), jnp.zeros((2, dim)))[0]
