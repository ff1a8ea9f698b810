"""Functions compiled in one piece: called as they are, each of their operations is a program that takes 20 ms.

And what a function consists of, before it is compiled.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import steinflow as sf
from steinflow.stein import discrepancy

stein_direction = eqx.filter_jit(sf.stein_direction)
ksd_squared = eqx.filter_jit(discrepancy.ksd_squared)


def equations(function, n, d):
    """All equations of a function of particles and scores, those inside loops and calls too."""
    rows = jax.ShapeDtypeStruct((n, d), jnp.float32)

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            yield equation
            for inner in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
                if hasattr(inner, "eqns"):
                    yield from walk(inner)

    return list(walk(jax.make_jaxpr(function)(rows, rows).jaxpr))
