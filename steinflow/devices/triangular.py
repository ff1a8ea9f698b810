"""The inverse of a lower-triangular matrix, by matrix products.

LAPACK's triangular solve, which `jax.scipy.linalg.solve_triangular` calls on CPUs, takes longer than the rest of an
SVGD step: its threads get in the way of XLA's.
"""

import jax
import jax.numpy as jnp

from steinflow.typing import Array

_SMALL = 32  # up to here by substitution, row by row


def inverse(lower: Array) -> Array:
    """Return the inverse of a lower-triangular matrix, by halves: all but small blocks is matrix products."""
    size = len(lower)
    if size <= _SMALL:
        return _by_substitution(lower)
    half = size // 2
    first, last = inverse(lower[:half, :half]), inverse(lower[half:, half:])
    corner = -last @ (lower[half:, :half] @ first)
    return jnp.block([[first, jnp.zeros_like(corner.T)], [corner, last]])


def _by_substitution(lower):
    size = len(lower)

    def substitute(row, inverse):
        unit = jnp.zeros(size, lower.dtype).at[row].set(1.0)
        return inverse.at[row].set((unit - lower[row] @ inverse) / lower[row, row])

    return jax.lax.fori_loop(0, size, substitute, jnp.zeros_like(lower))
