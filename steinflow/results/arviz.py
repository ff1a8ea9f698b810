"""Results as ArviZ knows them: groups of named arrays in a `DataTree`. Only this file asks which ArviZ is installed."""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from steinflow.results.summary import named_arrays
from steinflow.targets.base import Target
from steinflow.typing import Array, PyTree

if TYPE_CHECKING:
    import xarray

    from steinflow.results.result import Result

_AXES = {"chain", "draw", "record"}


def variables(tree: PyTree) -> dict[str, Array]:
    """Return every array of a tree by a name that a `DataTree` allows: no slash, not an axis, and no name twice."""
    named: dict[str, Array] = {}
    for name, leaf in named_arrays(tree):
        name = _plain(name)
        while name in named or name in _AXES:
            name += "_"
        named[name] = leaf
    return named


def group(
    arrays: Mapping[str, Any],
    axes: Mapping[str, int],
    *,
    dims: Mapping[str, Sequence[str | None]] | None = None,
    coords: Mapping[str, Sequence] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> "xarray.Dataset":
    """Return a group in ArviZ's schema: named axes, and positions on each of them.

    Args:
        arrays: by name, as `variables` returns them.
        axes: names and lengths of the axes that all arrays have in common, which come first.
        dims: names of the other axes, by array; they are numbered where a name is missing or they do not fit.
        coords: names of the positions on an axis; they are numbered where there are none.
        attributes: of the group.
    """
    import xarray

    dims, coords = ({_plain(name): labels for name, labels in given.items()} for given in (dims or {}, coords or {}))
    positions: dict[str, Any] = {axis: np.arange(length) for axis, length in axes.items()}
    named = {}
    for name, values in arrays.items():
        shape = np.shape(values)[len(axes) :]
        own = _own_axes(name, shape, dims.get(name, ()))
        named[name] = (*axes, *own), np.asarray(values)
        for axis, length in zip(own, shape, strict=True):
            positions.setdefault(axis, list(coords.get(axis, range(length))))
    return xarray.Dataset(named, positions, attributes)


def draws(tree: PyTree, result: "Result", **options) -> "xarray.Dataset":
    """Return a group of what has a row for every particle, with axes for chains and draws; options as of `group`."""
    shape = (result.num_chains, len(result) // result.num_chains)
    arrays = {name: np.reshape(values, (*shape, *np.shape(values)[1:])) for name, values in variables(tree).items()}
    return group(arrays, dict(zip(("chain", "draw"), shape, strict=True)), **options)


def to_arviz(
    result: "Result",
    target: Target | None,
    *,
    log_likelihood: bool,
    posterior_predictive: bool,
    dims: Mapping[str, Sequence[str | None]],
    coords: Mapping[str, Sequence],
    key: int,
):
    """Return what the installed ArviZ works on; the arguments are those of `Result.to_arviz`. Weights are not seen."""
    import xarray

    sampled: dict[str, PyTree] = {"posterior": result.particles, "sample_stats": {"lp": result.log_densities}}
    observed: Mapping[str, Array] = {}
    observations = None if target is None else target.observations
    if observations is not None:
        labels = observations.labels()
        dims, coords = {**labels.dims, **dims}, {**labels.coords, **coords}
        observed = observations.observed()
        if log_likelihood:
            sampled["log_likelihood"] = observations.log_likelihoods(result.particles)
        if posterior_predictive:
            sampled["posterior_predictive"] = observations.predictive(result.particles, key=jax.random.key(key))
    origin = _origin(result)
    groups = {
        name: draws(values, result, dims=dims, coords=coords, attributes={**origin, "sample_dims": ["chain", "draw"]})
        for name, values in sampled.items()
        if name == "posterior" or values
    }
    if observed:
        groups["observed_data"] = group(variables(observed), {}, dims=dims, coords=coords, attributes=origin)
    return for_installed_version(xarray.DataTree.from_dict(groups))


def for_installed_version(tree: "xarray.DataTree"):
    """Return the tree, which ArviZ 1 works on; as `arviz.InferenceData` where ArviZ is older."""
    version = _version()
    if version is None or version >= 1:  # xarray alone does much with a tree
        return tree
    return _old_arviz().InferenceData.from_datatree(tree)


def psis(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log importance weights with smoothed tails, by ArviZ, and Pareto's k of each row; draws are last.

    Raises:
        ModuleNotFoundError: where ArviZ is not installed.
    """
    version = _version()
    if version is None:
        raise ModuleNotFoundError("Pareto k is ArviZ's: pip install 'steinflow[arviz]'.", name="arviz")
    if version < 1:
        smoothed, k = _old_arviz().psislw(log_weights)
    else:
        array_stats: Any = importlib.import_module("arviz_stats.base").array_stats  # a part of ArviZ 1
        smoothed, k = array_stats.psislw(-log_weights)  # it takes log likelihoods, whose inverse is the weight
    return np.asarray(smoothed), np.asarray(k)


def _version() -> int | None:
    """Return ArviZ's major version; None where it is not installed."""
    try:
        return int(metadata.version("arviz").split(".")[0])
    except metadata.PackageNotFoundError:
        return None


def _old_arviz() -> Any:
    with warnings.catch_warnings():  # ArviZ announces its next major version on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def _origin(result: "Result") -> dict[str, str]:
    """Return the attributes of ArviZ's schema that say where draws come from."""
    version = result.info.get("versions", {}).get("steinflow")
    return {"inference_library": "steinflow"} | ({"inference_library_version": version} if version else {})


def _own_axes(variable: str, shape: Sequence[int], names: Sequence[str | None]) -> list[str]:
    """Name every axis; names that do not fit the shape are not used."""
    names = names if len(names) == len(shape) else [None] * len(shape)
    return [_plain(name or f"{variable}_dim_{axis}") for axis, name in enumerate(names)]


def _plain(name: str) -> str:
    """Return a name without slashes, which part the groups of a `DataTree`."""
    return name.replace("/", ".")
