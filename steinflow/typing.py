"""Array types with their shapes, so that signatures read like the mathematics."""

from typing import TypeAlias

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Scalar: TypeAlias = Float[Array, ""]
Point: TypeAlias = Float[Array, " d"]
Particles: TypeAlias = Float[Array, "n d"]
Scores: TypeAlias = Float[Array, "n d"]
Direction: TypeAlias = Float[Array, "m d"]
Weights: TypeAlias = Float[Array, " n"]
Params: TypeAlias = PyTree  # one particle as the user sees it: an array or any pytree of arrays
Batch: TypeAlias = PyTree  # rows of the data: a pytree of arrays with one leading axis

__all__ = [
    "Array",
    "Batch",
    "Direction",
    "Float",
    "PRNGKeyArray",
    "Params",
    "Particles",
    "Point",
    "PyTree",
    "Scalar",
    "Scores",
    "Weights",
]
