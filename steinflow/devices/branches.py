"""A branch of compiled code that many runs take together, each by its own condition."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from steinflow.typing import Array, PyTree


def either(condition: Array, when_true: Callable[[], PyTree], when_false: Callable[[], PyTree]) -> PyTree:
    """Return what one of two functions returns, as `jax.lax.cond` does.

    Under `jax.vmap`, `lax.cond` computes both branches at every step. Here a branch is computed for all where at least
    one takes it, and for nobody where nobody does.
    """
    arrays, rest = eqx.partition(
        (eqx.filter_closure_convert(when_true), eqx.filter_closure_convert(when_false)), eqx.is_array
    )

    def branch(which, arrays):
        return eqx.combine(arrays, rest)[which]()

    @custom_vmap
    def chosen(condition, arrays):
        return jax.lax.cond(condition, lambda: branch(0, arrays), lambda: branch(1, arrays))

    @chosen.def_vmap
    def chosen_by_many(size, batched, condition, arrays):
        condition_varies, arrays_vary = batched
        axes = jax.tree.map(lambda varies: 0 if varies else None, arrays_vary)

        def taken(which):
            return jax.vmap(lambda arrays: branch(which, arrays), in_axes=(axes,), axis_size=size)(arrays)

        shapes = jax.eval_shape(lambda: taken(0))
        everywhere = jax.tree.map(lambda _: True, shapes)
        if not condition_varies:
            return jax.lax.cond(condition, lambda: taken(0), lambda: taken(1)), everywhere

        def nothing():
            return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

        if_true = jax.lax.cond(jnp.any(condition), lambda: taken(0), nothing)
        if_false = jax.lax.cond(jnp.all(condition), nothing, lambda: taken(1))

        def select(true, false):
            return jnp.where(condition.reshape(size, *[1] * (true.ndim - 1)), true, false)

        return jax.tree.map(select, if_true, if_false), everywhere

    return chosen(condition, arrays)
