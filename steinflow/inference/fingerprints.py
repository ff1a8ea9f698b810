"""Is this the same run? Fingerprints of targets, methods and functions that are the same in every process.

Values are compared by content, functions by their code, what they close over and the globals they use, and arrays by
their bytes (large ones by a sample of rows). Functions of installed packages are compared by name and by what they
close over.
"""

import dataclasses
import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.methods.base import Method
from steinflow.results.result import versions
from steinflow.targets.streams import Mapped, Stream
from steinflow.typing import PRNGKeyArray, PyTree

_SAMPLED_BYTES = 2**26  # larger arrays are known by some of their rows
_SAMPLED_ROWS = 1000
_MARK = "sha256:"
_OPAQUE = ("pymc", "pytensor", "torch")  # full of counters and caches: known by type


def fingerprint(value: Any) -> str:
    """Return a short text that is equal for equal values, also in another process."""
    digest = hashlib.sha256()
    for part in _parts(value, set()):
        digest.update(part if isinstance(part, bytes) else part.encode())
        digest.update(b"\0")
    return f"{_MARK}{digest.hexdigest()[:16]}"


def identity_of(
    method: Method, particles: PyTree | None, *, size: tuple[int, ...], limits: tuple[int, int], key: PRNGKeyArray
) -> dict[str, str]:
    """Return what makes a run the same run when it is started again, beside its target.

    Particles from the prior follow from target and key; their last bits may differ from machine to machine.
    """
    return {
        "version of steinflow": versions().get("steinflow", "unknown"),
        "method": fingerprint(method),
        "particles": "{} in {} dimensions".format(*size),
        "starting point of the particles": "the prior" if particles is None else fingerprint(particles),
        "num_steps": " to ".join(map(str, dict.fromkeys(limits))),
        "key": fingerprint(key),
    }


def is_fingerprint(text: str) -> bool:
    """Say whether a text came from `fingerprint`."""
    return text.startswith(_MARK)


def _parts(value, seen: set[int]) -> Iterator[str | bytes]:
    """Describe a value piece by piece."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.dtype | np.generic):
        yield repr(value)
        return
    if id(value) in seen:
        yield "again"
        return
    seen.add(id(value))
    yield _name(type(value))
    match value:
        case jax.Array() | np.ndarray():
            yield from _array(value)
        case type() | types.ModuleType() | types.BuiltinFunctionType():
            yield _name(value)
        case Mapped():
            for leaf in jax.tree.leaves(value.arrays):
                yield from _array(leaf)
        case Stream():
            yield str(value.num_rows)
        case types.CodeType():
            yield value.co_code
            yield repr(value.co_names)
            yield from _all(value.co_consts, seen)
        case types.FunctionType():
            yield from _function(value, seen)
        case types.MethodType():
            yield from _all((value.__func__, value.__self__), seen)
        case functools.partial():
            yield from _all((value.func, value.args, value.keywords), seen)
        case dict():
            for key in sorted(value, key=repr):
                yield from _all((key, value[key]), seen)
        case list() | tuple():
            yield from _all(value, seen)
        case set() | frozenset():
            yield repr(sorted(map(repr, value)))
        case _ if hasattr(value, "__wrapped__"):  # compiled and cached functions
            yield from _parts(value.__wrapped__, seen)
        case _ if dataclasses.is_dataclass(value):
            yield from _all([getattr(value, field.name, None) for field in dataclasses.fields(value)], seen)
        case _ if type(value).__module__.split(".")[0] not in _OPAQUE and hasattr(value, "__dict__"):
            yield from _parts(vars(value), seen)


def _all(values, seen):
    for value in values:
        yield from _parts(value, seen)


def _function(function, seen):
    yield _name(function)
    yield from _all((function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, seen)
        except ValueError:  # a name that is not bound yet
            yield "empty"
    if _is_installed(function):
        return
    yield from _parts(function.__code__, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name
            yield from _parts(function.__globals__[name], seen)


def _names(code) -> set[str]:
    """The global names that a function and the functions inside it may use."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_installed(function) -> bool:
    root = (function.__module__ or "").split(".")[0]
    return root == "steinflow" or root in sys.stdlib_module_names or "site-packages" in function.__code__.co_filename


def _array(array):
    yield f"{tuple(array.shape)} {array.dtype}"
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    size = int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize
    if size > _SAMPLED_BYTES:
        array = array[:: -(-array.shape[0] // _SAMPLED_ROWS)]
    yield np.ascontiguousarray(array).tobytes()


def _name(value) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
