"""The ways out: files that appear whole or not at all, results as netCDF and back, and `arviz.InferenceData`."""

import contextlib
import errno
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.results.outcome import Ending, Outcome
from steinflow.results.summary import named_arrays
from steinflow.targets.base import Target
from steinflow.typing import Array, PyTree

if TYPE_CHECKING:
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
    finally:
        for rest in (unfinished, old):
            if rest.is_dir():
                shutil.rmtree(rest, ignore_errors=True)
            else:
                rest.unlink(missing_ok=True)


def to_netcdf(result: "Result") -> memoryview:
    """Return the content of a netCDF file that holds a result.

    HDF5 writes into memory, not to the disk: where a disk is full, it crashes the process when it closes its file.
    """
    import xarray

    shape = (result.num_chains, len(result) // result.num_chains)

    def by_draw(values, dims=()):
        values = np.asarray(values)
        return ("chain", "draw", *dims), values.reshape(*shape, *values.shape[1:])

    def own_dims(name, values):
        return [f"{name}_dim_{axis}" for axis in range(np.ndim(values) - 1)]

    history = dict(result.history)
    chains = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    groups = {
        "posterior": xarray.Dataset(
            {name: by_draw(values, own_dims(name, values)) for name, values in _variables(result.particles)},
            chains,
            {
                "outcome": result.outcome.value,
                "message": result.ending.message,
                "info": json.dumps(dict(result.info)),
                "structure": json.dumps(_describe(result.particles)),
                "history_structure": json.dumps(_describe(history)),
            },
        ),
        "sample_stats": xarray.Dataset(
            {
                "lp": by_draw(result.log_densities),
                **({} if result.weights is None else {"weight": by_draw(result.weights)}),
            },
            chains,
        ),
        "unconstrained": xarray.Dataset(
            {"x": by_draw(result.unconstrained, ["coordinate"]), "score": by_draw(result.scores, ["coordinate"])},
            chains,
        ),
        "history": xarray.Dataset(
            {name: (("record", *own_dims(name, values)), np.asarray(values)) for name, values in _variables(history)}
        ),
    }
    return xarray.DataTree.from_dict(groups).to_netcdf(engine="h5netcdf")


def read_netcdf(path: str | Path) -> dict[str, Any]:
    """Return the fields of the result in a netCDF file, by name."""
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        tree = tree.load()
    if not {"posterior", "sample_stats", "unconstrained", "history"} <= set(tree.children):
        raise ValueError(f"{path} is not a result of steinflow: it has the groups {sorted(tree.children)}.")

    def arrays(group):
        return {
            name: jnp.asarray(values.values.reshape(-1, *values.shape[2:]))
            for name, values in tree[group].data_vars.items()
        }

    attributes = tree["posterior"].attrs
    statistics, internals = arrays("sample_stats"), arrays("unconstrained")
    history = {name: values.values for name, values in tree["history"].data_vars.items()}
    return {
        "particles": _rebuild(json.loads(attributes["structure"]), arrays("posterior")),
        "weights": statistics.get("weight"),
        "history": _rebuild(json.loads(attributes["history_structure"]), history),
        "ending": Ending(Outcome(attributes["outcome"]), attributes["message"]),
        "unconstrained": internals["x"],
        "scores": internals["score"],
        "log_densities": statistics["lp"],
        "num_chains": tree["posterior"].sizes["chain"],
        "info": json.loads(attributes["info"]),
    }


def _variables(tree) -> list[tuple[str, Any]]:
    """Return every array of a tree with the name of its variable in a file: unique, and without a slash."""
    taken = {"chain", "draw", "record"}  # names of axes
    variables = []
    for name, leaf in named_arrays(tree):
        name = name.replace("/", ".")
        while name in taken:
            name += "_"
        taken.add(name)
        variables.append((name, leaf))
    return variables


def _describe(tree, names: Iterator[str] | None = None):
    """Describe the containers of a tree in JSON; leaves are the names of their variables."""
    names = (name for name, _ in _variables(tree)) if names is None else names
    if tree is None:
        return {"kind": "none", "children": []}
    one_level = jax.tree_util.default_registry.flatten_one_level_with_keys(tree)
    if one_level is None:
        return next(names)
    children = []
    for entry, child in one_level[0]:
        key = entry.key if isinstance(entry, jax.tree_util.DictKey) and isinstance(entry.key, int | str) else None
        key = jax.tree_util.keystr((entry,), simple=True) if key is None else key
        children.append([key, _describe(child, names)])
    kind = {list: "list", tuple: "tuple"}.get(type(tree), "dict")
    return {"kind": kind, "children": children}


def _rebuild(structure, arrays: Mapping[Any, Any]) -> PyTree:
    """Return the tree that `_describe` described, with these arrays."""
    if isinstance(structure, str):
        return arrays[structure]
    children = {key: _rebuild(child, arrays) for key, child in structure["children"]}
    match structure["kind"]:
        case "none":
            return None
        case "dict":
            return children
        case "list":
            return list(children.values())
        case _:
            return tuple(children.values())


def inference_data(
    result: "Result",
    target: Target | None,
    *,
    log_likelihood: bool,
    posterior_predictive: bool,
    dims: Mapping[str, Sequence[str | None]],
    coords: Mapping[str, Sequence],
    key: int,
):
    """Return `arviz.InferenceData`; the arguments are those of `Result.to_arviz`. Weights are not looked at."""
    groups: dict[str, Mapping[str, Array]] = {
        "posterior": dict(named_arrays(result.particles)),
        "sample_stats": {"lp": result.log_densities},
    }
    observed: Mapping[str, Array] = {}
    observations = None if target is None else target.observations
    if observations is not None:
        labels = observations.labels()
        dims, coords = {**labels.dims, **dims}, {**labels.coords, **coords}
        observed = observations.observed()
        if log_likelihood:
            groups["log_likelihood"] = observations.log_likelihoods(result.particles)
        if posterior_predictive:
            groups["posterior_predictive"] = observations.predictive(result.particles, key=jax.random.key(key))

    def by_chain(values):
        values = np.asarray(values)
        return values.reshape(result.num_chains, -1, *values.shape[1:])

    by_group: dict[str, Any] = {
        name: {variable: by_chain(values) for variable, values in group.items()}
        for name, group in groups.items()
        if group
    }
    shapes = {variable: values.shape[2:] for group in by_group.values() for variable, values in group.items()}
    if observed:
        by_group["observed_data"] = {name: np.asarray(values) for name, values in observed.items()}
        shapes = {name: values.shape for name, values in by_group["observed_data"].items()} | shapes
    with warnings.catch_warnings():  # ArviZ announces its next major version on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz.from_dict(
        **by_group,
        coords={name: list(positions) for name, positions in coords.items()},
        dims={variable: _axes(variable, shape, dims.get(variable, ())) for variable, shape in shapes.items()},
    )


def _axes(variable: str, shape: Sequence[int], names: Sequence[str | None]) -> list[str]:
    """Name every axis; names that do not fit the shape are not used."""
    names = names if len(names) == len(shape) else [None] * len(shape)
    return [name or f"{variable}_dim_{axis}" for axis, name in enumerate(names)]
