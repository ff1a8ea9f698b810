"""The functions that densities are made of, for arrays of JAX and of NumPy.

A family is written once. On the device its code is traced and differentiated; on the host, where predictions and draws
are made, it compiles nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def functions_of(*arrays: Any) -> Any:
    """Return what computes with these arrays: `exp`, `where`, `gammaln`, `expit`, ... by the names of NumPy and SciPy.

    Args:
        arrays: pytrees; where one leaf is an array of JAX, all functions are JAX's.
    """
    on_device = any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arrays))
    return _DEVICE if on_device else _HOST


class _Device:
    def __getattr__(self, name):
        return getattr(jnp, name, None) or getattr(jax.scipy.special, name, None) or getattr(jax.nn, name)

    def log_expit(self, x):
        return _log_sigmoid(x)


class _Host:
    def __getattr__(self, name):
        from scipy import special  # takes a while to import

        return getattr(np, name, None) or getattr(special, name)


_DEVICE, _HOST = _Device(), _Host()


@jax.custom_jvp
def _log_sigmoid(x):
    return jax.nn.log_sigmoid(x)


@_log_sigmoid.defjvp
def _log_sigmoid_jvp(primals, tangents):
    """The derivative is the sigmoid; that of JAX goes through the logarithm again and takes twice as long."""
    (x,), (dx,) = primals, tangents
    return _log_sigmoid(x), jax.nn.sigmoid(-x) * dx
