"""A loop of ten lines around a method, for tests that look at states or at many runs at once."""

import jax
import jax.numpy as jnp

from steinflow.methods.base import Time


def run(method, target, particles, num_steps, key, *, taken=None):
    """Return the state after `taken` steps of a run of `num_steps`, all of them if not given; it can be compiled."""
    init_key, step_key, data_key = jax.random.split(key, 3)

    def body(step, state):
        batch = target.minibatch(data_key, step)
        time = Time(step, jnp.asarray(num_steps))
        return method.step(target, state, batch, time=time, key=jax.random.fold_in(step_key, step))

    state = method.init(target, particles, num_steps=num_steps, key=init_key)
    return jax.lax.fori_loop(0, num_steps if taken is None else taken, body, state)
