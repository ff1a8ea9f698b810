"""Random keys made and split on the host, where JAX would compile a program for either."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.devices.normals import threefry
from steinflow.typing import PRNGKeyArray

_THREEFRY = "threefry2x32"


def as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """Accept a JAX key, old or new, or an int.

    Raises:
        TypeError: if it is neither.
    """
    if isinstance(key, int | np.integer):
        return _seeded(int(key))
    if isinstance(key, np.ndarray | jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0:
            return jnp.asarray(key)
        if key.dtype == jnp.uint32 and key.ndim == 1:
            return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be an int or a single JAX random key, such as jax.random.key(0); got {key!r}.")


def split_key(key: PRNGKeyArray, num: int) -> tuple[PRNGKeyArray, ...]:
    """Return new keys, those of `jax.random.split`."""
    config: Any = jax.config  # its settings are not known to type checkers
    if str(jax.random.key_impl(key)) != _THREEFRY or not config.jax_threefry_partitionable:
        return tuple(jax.random.split(key, num))
    first, second = np.asarray(jax.random.key_data(key))
    words = threefry(first, second, np.zeros(num, np.uint32), np.arange(num, dtype=np.uint32))
    return tuple(jax.random.wrap_key_data(as_array(pair), impl=_THREEFRY) for pair in np.stack(words, axis=1))


def _seeded(seed: int) -> PRNGKeyArray:
    config: Any = jax.config
    if config.jax_default_prng_impl == _THREEFRY and 0 <= seed < 2**31:
        return jax.random.wrap_key_data(as_array(np.array([0, seed], np.uint32)), impl=_THREEFRY)
    return jax.random.key(seed)
