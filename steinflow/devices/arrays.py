"""From NumPy to JAX without compiling anything: `jnp.asarray` compiles a copy, or a cast, for every new shape."""

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.typing import Array


def as_array(value, dtype: type | np.dtype | None = None) -> Array:
    """Return what `jnp.asarray(value, dtype)` returns; a copy, where the value is NumPy's."""
    if isinstance(value, jax.Array):
        return value if dtype is None else value.astype(dtype)
    array = np.array(value, dtype)  # a copy, because the device may take the memory as its own
    return jax.device_put(array) if array.dtype.kind in "biuf" else jnp.asarray(value, dtype)
