"""Walks of particles that explore, without the loop."""

import jax
import jax.numpy as jnp

from steinflow.methods.svgd.exploration import Microcanonical
from steinflow.methods.svgd.metrics import Cloud
from steinflow.methods.svgd.walk import Walk


def walked(score, particles, num_steps, *, warming=False, seed=0, exploration=None):
    """Particles after a walk in the coordinates of the cloud, and the walk."""
    exploration = Microcanonical() if exploration is None else exploration

    def step(k, carry):
        x, walk = carry
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed + 1), k))
        ahead = jnp.where(k == 0, x, walk.ahead(exploration, x, key=keys[0]))
        return walk.step(exploration, x, ahead, score(ahead), warming=jnp.asarray(warming), keys=(keys[0], keys[1]))

    @jax.jit
    def walk_from(x):
        walk = Walk.start(exploration, x, Cloud(), num_steps=1000, key=jax.random.key(seed)).begun(Cloud().frame(x))
        return jax.lax.fori_loop(0, num_steps, step, (x, walk))

    return walk_from(particles)
