"""How many numbers a function computes one by one."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.work import numbers_of

X = np.ones((10, 3), np.float32)


def work_of(function, *arguments):
    return numbers_of(jax.jit(function).trace(*arguments).jaxpr.jaxpr)


def test_every_operation_counts_by_its_larger_side():
    assert work_of(jnp.sin, X) == 30
    assert work_of(lambda x: jnp.sin(jnp.exp(x)), X) == 60
    assert work_of(lambda x: jnp.sum(x, axis=0), X) == 30


def test_matrix_products_are_free():
    assert work_of(lambda x: x @ x.T, X) == work_of(lambda x: x.T, X) == 30


def test_loops_count_as_often_as_they_run():
    def repeated(x):
        return jax.lax.scan(lambda x, _: (jnp.sin(x), None), x, length=7)[0]

    assert work_of(repeated, X) == 7 * 30
    assert work_of(jax.vmap(repeated), X) == 7 * 30


def test_a_loop_of_unknown_length_counts_once_and_inside_of_another_for_ever():
    def steps(x, stop):
        return jax.lax.fori_loop(0, stop, lambda _, x: jnp.sin(x), x)

    def steps_of_steps(x, stop):
        return jax.lax.fori_loop(0, stop, lambda _, x: steps(x, stop), x)

    assert 30 < work_of(steps, X, np.int32(5)) < 40
    assert math.isinf(work_of(steps_of_steps, X, np.int32(5)))


def test_all_branches_count():
    def either(x):
        return jax.lax.cond(x[0, 0] > 0, jnp.sin, lambda x: jnp.sin(jnp.sin(x)), x)

    assert work_of(either, X) >= 90
