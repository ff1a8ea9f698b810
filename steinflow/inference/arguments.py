"""The user's arguments, checked before anything runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from steinflow.inference.checkpoints import Checkpoint
from steinflow.methods.base import Method


def checked_method(method: Any) -> Method | None:
    """Return the method, or None where none was named.

    Raises:
        TypeError: if it is something else, such as the class of a method.
    """
    if not isinstance(method, Method | None):
        raise TypeError(f"method must be an inference method, such as sf.SVGD(); got {method!r}.")
    return method


def checked_count(name: str, value: Any) -> int | None:
    """Return a number of particles or steps, 1e4 as 10,000; None where nothing was said.

    Raises:
        ValueError: if it is not a whole number, or less than 1.
    """
    if value is None:
        return None
    try:
        count = int(value)
        if isinstance(value, bool | str) or count != value:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a whole number; got {value!r}.") from None
    if count < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")
    return count


def checked_record(record: Any) -> dict[str, Any]:
    """Return what to record by name.

    Raises:
        TypeError: if these are not functions with names.
    """
    if record is None:
        return {}
    if not isinstance(record, Mapping) or not all(map(callable, record.values())):
        raise TypeError(
            f'record must be a dictionary of functions of all particles, such as {{"mean": lambda x: x.mean(0)}}; '
            f"got {record!r}."
        )
    return dict(record)


def checked_stop(stop: Any) -> Any:
    """Return the stopping rule, or None.

    Raises:
        TypeError: if it is not a function of the history.
    """
    if stop is None or (callable(stop) and not isinstance(stop, type)):
        return stop
    raise TypeError(f"stop must be a function of the history so far, such as sf.Converged(); got {stop!r}.")


def checked_checkpoint(checkpoint: Any) -> Checkpoint | str | Path | None:
    """Return where to save a run, or None.

    Raises:
        TypeError: if it is no folder.
    """
    if isinstance(checkpoint, Checkpoint | str | Path | None):
        return checkpoint
    raise TypeError(f"checkpoint must be a folder or sf.Checkpoint(folder, ...); got {checkpoint!r}.")


def checked_mesh(mesh: Any) -> Mesh | None:
    """Return the devices that share the work, or None.

    Raises:
        TypeError: if it is something else, such as a number of devices.
    """
    if isinstance(mesh, Mesh | None):
        return mesh
    raise TypeError(f"mesh must be a jax.sharding.Mesh, as returned by sf.mesh(); got {mesh!r}.")
