"""The ways out: files that appear whole or not at all, JSON, and results as netCDF and back."""

import contextlib
import dataclasses
import errno
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.results.arviz import draws, group, variables
from steinflow.results.outcome import Ending, Outcome
from steinflow.typing import PyTree

if TYPE_CHECKING:
    import xarray

    from steinflow.results.result import Result


def write_whole(path: str | Path, content: str | bytes | memoryview) -> Path:
    """Write a file that appears whole or not at all; folders on the way to it are made.

    Args:
        path: of the file; one that exists is replaced.
        content: bytes, or text, which is written as UTF-8.

    Returns:
        The path.

    Raises:
        OSError: where it cannot be written, for instance on a full disk or where the path is that of a folder. What
            was there before is left as it was.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the name of a file", str(path))
    with _replacing(path) as unfinished, unfinished.open("xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())  # some disks say only now that they are full
    return path


def json_text(values: Any) -> str:
    """Return plain values, arrays and dataclasses as JSON, which has no NaN and no infinity: null takes their place."""
    return json.dumps(plain(values), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def plain(values: Any) -> Any:
    """Return values as JSON has them: lists for arrays, None for numbers that are not finite."""
    if isinstance(values, dict):
        return {name: plain(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        return plain(dataclasses.asdict(values))
    if hasattr(values, "tolist"):
        return plain(np.asarray(values).tolist())
    return None if isinstance(values, float) and not math.isfinite(values) else values


@contextlib.contextmanager
def appearing(folder: str | Path) -> Iterator[Path]:
    """Lend an empty folder to write into, which becomes `folder`, or replaces it, when all is written.

    An error on the way leaves what was there before as it was.
    """
    with _replacing(Path(folder)) as unfinished:
        unfinished.mkdir()
        yield unfinished


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Lend a free name beside a path: the file or folder that is made there takes its place in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, old = (path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{kind}") for kind in ("new", "old"))
    try:
        yield unfinished
        if path.is_dir():  # no system replaces a folder in one go
            path.rename(old)
        try:
            unfinished.replace(path)
        except BaseException:
            if old.exists():
                old.rename(path)
            raise
    except OSError as error:  # says the path that the user knows
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        for rest in (unfinished, old):
            if rest.is_dir():
                shutil.rmtree(rest, ignore_errors=True)
            else:
                rest.unlink(missing_ok=True)


def save_netcdf(path: str | Path, tree: "xarray.DataTree") -> Path:
    """Write a tree to a netCDF file.

    HDF5 writes into memory, not to the disk: where a disk is full, it crashes the process when it closes its file.

    Raises:
        OSError: where the file cannot be written. A file that was there before is left as it was.
    """
    try:
        return write_whole(path, tree.to_netcdf(engine="h5netcdf"))
    except OSError as error:
        error.add_note("Nothing is lost: free some space or choose another path, and save the result again.")
        raise


def to_tree(result: "Result") -> "xarray.DataTree":
    """Return all of a result that goes into a file."""
    import xarray

    history, coordinate = dict(result.history), ["coordinate"]
    recorded = variables(history)
    groups = {
        "posterior": draws(
            result.particles,
            result,
            attributes={
                "outcome": result.outcome.value,
                "message": result.ending.message,
                "info": json.dumps(dict(result.info)),
                "structure": json.dumps(describe(result.particles)),
                "history_structure": json.dumps(describe(history)),
            },
        ),
        "sample_stats": draws({"lp": result.log_densities, "weight": result.weights}, result),  # None is no array
        "unconstrained": draws(
            {"x": result.unconstrained, "score": result.scores}, result, dims={"x": coordinate, "score": coordinate}
        ),
        "history": group(recorded, {"record": len(next(iter(recorded.values()), ()))}),
    }
    return xarray.DataTree.from_dict(groups)


def open_netcdf(path: str | Path) -> "xarray.DataTree":
    """Return the tree in a netCDF file."""
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


def read_netcdf(path: str | Path) -> dict[str, Any]:
    """Return the fields of the result in a netCDF file, by name."""
    tree = open_netcdf(path)
    if not {"posterior", "sample_stats", "unconstrained", "history"} <= set(tree.children):
        many = "many" in tree.attrs
        what = "many results: read them with sf.Many.load" if many else "not a result of steinflow"
        raise ValueError(f"{path} is {what}. It has the groups {sorted(tree.children)}.")

    def arrays(group):
        return {
            name: as_array(values.values.reshape(-1, *values.shape[2:]))
            for name, values in tree[group].data_vars.items()
        }

    attributes = tree["posterior"].attrs
    statistics, internals = arrays("sample_stats"), arrays("unconstrained")
    history = {name: values.values for name, values in tree["history"].data_vars.items()}
    return {
        "particles": rebuild(json.loads(attributes["structure"]), arrays("posterior")),
        "weights": statistics.get("weight"),
        "history": rebuild(json.loads(attributes["history_structure"]), history),
        "ending": Ending(Outcome(attributes["outcome"]), attributes["message"]),
        "unconstrained": internals["x"],
        "scores": internals["score"],
        "log_densities": statistics["lp"],
        "num_chains": tree["posterior"].sizes["chain"],
        "info": json.loads(attributes["info"]),
    }


def describe(tree, names: Iterator[str] | None = None):
    """Describe the containers of a tree in JSON; leaves are the names of their variables."""
    names = iter(variables(tree)) if names is None else names
    if tree is None:
        return {"kind": "none", "children": []}
    one_level = jax.tree_util.default_registry.flatten_one_level_with_keys(tree)
    if one_level is None:
        return next(names)
    children = []
    for entry, child in one_level[0]:
        key = entry.key if isinstance(entry, jax.tree_util.DictKey) and isinstance(entry.key, int | str) else None
        key = jax.tree_util.keystr((entry,), simple=True) if key is None else key
        children.append([key, describe(child, names)])
    kind = {list: "list", tuple: "tuple"}.get(type(tree), "dict")
    return {"kind": kind, "children": children}


def rebuild(structure, arrays: Mapping[Any, Any]) -> PyTree:
    """Return the tree that `describe` described, with these arrays."""
    if isinstance(structure, str):
        return arrays[structure]
    children = {key: rebuild(child, arrays) for key, child in structure["children"]}
    match structure["kind"]:
        case "none":
            return None
        case "dict":
            return children
        case "list":
            return list(children.values())
        case _:
            return tuple(children.values())
