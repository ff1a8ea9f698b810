"""The buffer of a chain: how much of it counts, and in which order."""

import jax.numpy as jnp
import numpy as np

from steinflow.methods.trace import Trace


def kept(trace):
    return np.asarray(trace.in_order())[: int(trace.num_kept)].tolist()


def test_the_last_points_in_order():
    trace = Trace.starting_at(jnp.zeros(()), 3)
    assert kept(trace) == [0], "where it started, before anything was kept"
    for count, point in enumerate((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), start=1):
        trace = trace.keep(jnp.asarray(point))
        assert kept(trace) == list(range(max(1, count - 2), count + 1)), "no point twice"
