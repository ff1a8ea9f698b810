"""What posteriordb knows: the data of every model, and moments and draws of every posterior.

The files are those of the folder `posteriordb` in the folder that the environment variable `STEINFLOW_DATA` names.
"""

import functools
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

QUANTILES = ("q5", "q50", "q95")


class Reference(NamedTuple):
    """Moments of the scalar parameters, in posteriordb's order; quantiles are p x 3, where there are any."""

    names: tuple[str, ...]
    means: np.ndarray
    sds: np.ndarray
    quantiles: np.ndarray | None


def data(name: str) -> dict:
    """Return a data set by its name: numbers, and arrays of floats."""
    found = _references()["data"][name]
    return {key: np.asarray(value, float) if isinstance(value, list) else value for key, value in found.items()}


def reference(posterior: str) -> Reference:
    """Return the reference moments of a posterior."""
    parameters = _references()["posteriors"][posterior]["parameters"]
    moments = list(parameters.values())
    known = all(name in moments[0] for name in QUANTILES)
    return Reference(
        tuple(parameters),
        np.array([each["mean"] for each in moments]),
        np.array([each["sd"] for each in moments]),
        np.array([[each[name] for name in QUANTILES] for each in moments]) if known else None,
    )


def draws(posterior: str) -> np.ndarray | None:
    """Return 400 reference draws of the scalar parameters as rows, in double precision; None where there are none."""
    with np.load(_folder() / "draws.npz") as file:
        return file.get(posterior)


def gathered(names: tuple[str, ...], scalars: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns as named arrays: `beta[1]`, `beta[2]` become `beta`, with the leading axis of the rows."""
    columns: dict[str, list[int]] = {}
    for column, (name, _) in enumerate(map(_parsed, names)):
        columns.setdefault(name, []).append(column)
    vectors = {name for name, place in map(_parsed, names) if place is not None}
    return {name: scalars[:, where if name in vectors else where[0]] for name, where in columns.items()}


def scattered(names: tuple[str, ...], arrays) -> np.ndarray:
    """Return named arrays as columns in the order of `names`, the inverse of `gathered`."""
    columns = []
    for name, place in map(_parsed, names):
        values = np.asarray(arrays[name], float)
        columns.append(values if place is None else values[:, place])
    return np.stack(columns, axis=1)


def _parsed(name: str) -> tuple[str, int | None]:
    """Take `beta[2]` to ("beta", 1), and `sigma` to ("sigma", None)."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", name)
    return (match[1], int(match[2]) - 1) if match else (name, None)


@functools.cache
def _references() -> dict:
    return json.loads((_folder() / "references.json").read_text())


def _folder() -> Path:
    folder = Path(os.environ.get("STEINFLOW_DATA", "data")) / "posteriordb"
    if not (folder / "references.json").exists():
        raise SystemExit(
            f"{folder} has no references.json: set the environment variable STEINFLOW_DATA to the folder above "
            "posteriordb/, which holds references.json and draws.npz."
        )
    return folder
