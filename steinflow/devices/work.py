"""How much a function computes that the compiler's own loops do: whether it pays to compile them well."""

import math
import weakref

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

_COMPILED_ALREADY = ("dot_general", "conv_general_dilated")  # matrix products are those of a library


_COUNTED: weakref.WeakKeyDictionary[Jaxpr, float] = weakref.WeakKeyDictionary()  # JAX keeps what it has traced


def numbers_of(jaxpr: Jaxpr) -> float:
    """Return how many numbers a traced function computes one by one.

    A loop of unknown length counts once, and one inside of it as infinitely long.
    """
    if jaxpr not in _COUNTED:
        _COUNTED[jaxpr] = _numbers_of(jaxpr, inside=False)
    return _COUNTED[jaxpr]


def _numbers_of(jaxpr, *, inside):
    """Return the same; `inside` is whether this is the body of a loop of unknown length."""
    total = 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        parts = [leaf for leaf in jax.tree.leaves(equation.params, is_leaf=_is_jaxpr) if _is_jaxpr(leaf)]
        if name == "while":
            total += math.inf if inside else sum(_numbers_of(_opened(part), inside=True) for part in parts)
        elif parts:
            times = equation.params["length"] if name == "scan" else 1
            total += times * sum(_numbers_of(_opened(part), inside=inside) for part in parts)
        elif name not in _COMPILED_ALREADY:
            variables = (*equation.invars, *equation.outvars)
            total += max(math.prod(getattr(variable.aval, "shape", ())) for variable in variables)
    return total


def _is_jaxpr(leaf) -> bool:
    return isinstance(leaf, Jaxpr | ClosedJaxpr)


def _opened(part: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return part.jaxpr if isinstance(part, ClosedJaxpr) else part
