"""What comes back: the particles in the user's space, how the run went and ended, the ways out (ArviZ, netCDF)."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.diagnostics import dispersion_of
from steinflow.inference_data import inference_data
from steinflow.kernels import IMQ
from steinflow.stein import ksd_squared
from steinflow.targets import Labels, Target
from steinflow.typing import Array, Params, Particles, PyTree, Scores, Weights

Status = Literal["converged", "step limit", "interrupted", "non-finite", "collapsed"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended, in one word and in a sentence that says what to do next."""

    status: Status
    message: str

    def __str__(self):
        return f"{self.status}: {self.message}"


@dataclasses.dataclass(frozen=True)
class Result:
    """A posterior as particles.

    Attributes:
        particles: in the user's space and structure, with a leading axis.
        weights: one per particle, summing to one; None where they are equal.
        history: what was recorded, by name; `history["step"]` says when.
        outcome: how the run ended.
        unconstrained: the particles as the method saw them, points of R^d.
        scores: the gradient of the log density at these points.
        log_densities: the log density there, up to a constant.
        num_chains: how many chains the particles form, one after the other.
        info: method, versions, seconds and the like, all plain values.
        target: what was inferred; neither saved nor pickled, because it may hold code and all the data.
    """

    particles: Params
    weights: Weights | None
    history: Mapping[str, PyTree]
    outcome: Outcome
    unconstrained: Particles
    scores: Scores
    log_densities: Array
    num_chains: int
    info: Mapping[str, Any]
    target: Target | None = dataclasses.field(default=None, repr=False, compare=False)

    def __getstate__(self):
        return {**self.__dict__, "target": None}

    def __len__(self) -> int:
        return len(self.unconstrained)

    def expectation(self, function: Callable[[Params], PyTree]) -> PyTree:
        """Return the posterior mean of a function of one particle."""
        values = jax.vmap(function)(self.particles)
        return jax.tree.map(lambda leaf: jnp.tensordot(self._equal_or_given(), leaf, axes=1), values)

    def mean(self) -> Params:
        """Return the posterior mean of every parameter."""
        return self.expectation(lambda params: params)

    def sd(self) -> Params:
        """Return the posterior standard deviation of every parameter."""
        mean = self.mean()
        variance = self.expectation(lambda params: jax.tree.map(lambda x, m: (x - m) ** 2, params, mean))
        return jax.tree.map(jnp.sqrt, variance)

    @property
    def ksd(self) -> float:
        """The kernelized Stein discrepancy of the final particles (IMQ kernel)."""
        kernel = IMQ().adapt(self.unconstrained)
        squared = ksd_squared(self.unconstrained, self.scores, kernel, weights=self.weights)
        return float(jnp.sqrt(squared))

    @property
    def dispersion(self) -> Array:
        """The dispersion of every unconstrained coordinate: 1 if the spread is right, less if it has collapsed."""
        return dispersion_of(self.unconstrained, self.scores, self.weights)

    def summary(self) -> "Summary":
        """Return a table of every parameter with KSD, dispersion and outcome; it prints itself."""
        return Summary.of(self)

    def to_arviz(
        self,
        *,
        target: Target | None = None,
        log_likelihood: bool = True,
        posterior_predictive: bool = True,
        dims: Mapping[str, Sequence[str | None]] | None = None,
        coords: Mapping[str, Sequence] | None = None,
        key: int = 0,
    ):
        """Return `arviz.InferenceData` with posterior and sample_stats, and what the target knows about its data.

        NumPyro and PyMC models, networks and `sf.Posterior` add log_likelihood, posterior_predictive and observed_data,
        as far as they have them, and names for axes.

        Args:
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            log_likelihood: whether to add that group, of size particles x observations.
            posterior_predictive: whether to add that group, of the same size.
            dims: names of the axes of variables, before those of the target.
            coords: names of the places on axes, before those of the target.
            key: seeds the predictive draws.
        """
        return inference_data(
            self.particles,
            dict(_named(self.particles)),
            {"lp": self.log_densities},
            target=target or self.target,
            num_chains=self.num_chains,
            weights=self.weights,
            labels=Labels(dims or {}, coords or {}),
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            key=key,
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to a netCDF file, which executes nothing when it is read; `sf.load` brings it back."""
        import xarray

        path = Path(path)
        unfinished = path.with_name(path.name + ".unfinished")  # a crash leaves the old file whole
        try:
            xarray.DataTree.from_dict(self._datasets()).to_netcdf(unfinished, engine="h5netcdf")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def _equal_or_given(self) -> Array:
        if self.weights is None:
            return jnp.full(len(self), 1 / len(self), self.unconstrained.dtype)
        return self.weights

    def _datasets(self) -> dict:
        import xarray

        def by_draw(values, dims=()):
            values = np.asarray(values)
            shape = (self.num_chains, len(self) // self.num_chains, *values.shape[1:])
            names = dims or [f"dim_{axis}" for axis in range(values.ndim - 1)]
            return ("chain", "draw", *names), values.reshape(shape)

        def own_dims(name, values):
            return [f"{name}_dim_{axis}" for axis in range(np.ndim(values) - 1)]

        posterior = {name: by_draw(values, own_dims(name, values)) for name, values in _variables(self.particles)}
        statistics = {"lp": by_draw(self.log_densities)}
        if self.weights is not None:
            statistics["weight"] = by_draw(self.weights)
        internals = {
            "x": by_draw(self.unconstrained, ["coordinate"]),
            "score": by_draw(self.scores, ["coordinate"]),
        }
        history = {
            name: (("record", *own_dims(name, values)), np.asarray(values))
            for name, values in _variables(dict(self.history))
        }
        attributes = {
            "outcome": json.dumps(dataclasses.asdict(self.outcome)),
            "info": json.dumps(dict(self.info)),
            "structure": json.dumps(_structure(self.particles)),
            "history_structure": json.dumps(_structure(dict(self.history))),
        }
        chains = {
            "chain": np.arange(self.num_chains),
            "draw": np.arange(len(self) // self.num_chains),
        }
        return {
            "posterior": xarray.Dataset(posterior, chains, attributes),
            "sample_stats": xarray.Dataset(statistics, chains),
            "unconstrained": xarray.Dataset(internals, chains),
            "history": xarray.Dataset(history),
        }


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote.

    Dictionaries, lists and tuples of arrays come back as they were; other containers come back as dictionaries.
    """
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
    statistics, internals, history = arrays("sample_stats"), arrays("unconstrained"), tree["history"].data_vars
    structures = {name: json.loads(attributes[name]) for name in ("structure", "history_structure")}
    return Result(
        particles=_rebuild(structures["structure"], arrays("posterior")),
        weights=statistics.get("weight"),
        history=_rebuild(structures["history_structure"], {name: values.values for name, values in history.items()}),
        outcome=Outcome(**json.loads(attributes["outcome"])),
        unconstrained=internals["x"],
        scores=internals["score"],
        log_densities=statistics["lp"],
        num_chains=tree["posterior"].sizes["chain"],
        info=json.loads(attributes["info"]),
    )


@dataclasses.dataclass(frozen=True)
class Summary:
    """The posterior in numbers: a row for every scalar parameter, and what the diagnostics say."""

    names: list[str]
    columns: dict[str, np.ndarray]
    footer: list[str]
    max_rows: int = 20

    @classmethod
    def of(cls, result: Result) -> "Summary":
        """Summarise a result."""
        names, values = columns_of(result.particles)
        weights = np.asarray(result._equal_or_given(), dtype=float)
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2)
        quantiles = _weighted_quantiles(values, weights, (0.05, 0.5, 0.95))
        spread = np.asarray(result.dispersion)
        method = result.info.get("method", "")
        footer = [
            f"{len(result)} particles, {result.info.get('num_steps', '?')} steps of {method}",
            f"KSD {result.ksd:.3g}, dispersion {np.median(spread):.2f} "
            f"(from {spread.min():.2f} to {spread.max():.2f}; 1 is right, less is collapsed)",
            str(result.outcome),
        ]
        columns: dict[str, np.ndarray] = dict(
            zip(("mean", "sd", "5%", "50%", "95%"), (mean, sd, *quantiles), strict=True)
        )
        return cls(names, columns, footer)

    def __str__(self):
        shown = range(min(len(self.names), self.max_rows))
        width = max(len(self.names[i]) for i in shown) + 2
        lines = [" " * width + "".join(f"{column:>11}" for column in self.columns)]
        lines += [f"{self.names[i]:<{width}}" + "".join(f"{v[i]:>11.4g}" for v in self.columns.values()) for i in shown]
        if len(self.names) > self.max_rows:
            lines.append(f"... and {len(self.names) - self.max_rows} more parameters")
        return "\n".join([*lines, "", *self.footer])

    __repr__ = __str__


def columns_of(particles: Params) -> tuple[list[str], np.ndarray]:
    """Return the name of every scalar parameter, and their values as the columns of a matrix."""
    names, values = [], []
    for name, leaf in _named(particles):
        leaf = np.asarray(leaf)
        indices = list(np.ndindex(leaf.shape[1:]))
        names += [f"{name}[{','.join(map(str, i))}]" if i else name for i in indices]
        values.append(leaf.reshape(len(leaf), -1))
    return names, np.concatenate(values, axis=1).astype(float)


def _weighted_quantiles(values, weights, levels):
    """Quantiles of each column: where the weights below, counted to the middle of each particle, reach the level."""
    order = np.argsort(values, axis=0)
    sorted_values = np.take_along_axis(values, order, axis=0)
    sorted_weights = weights[order]
    places = np.cumsum(sorted_weights, axis=0) - sorted_weights / 2
    columns = range(values.shape[1])
    return [np.array([np.interp(q, places[:, k], sorted_values[:, k]) for k in columns]) for q in levels]


def _named(tree) -> list[tuple[str, Any]]:
    """Every array of a tree with its path as a name; a bare array is called x."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator=".") or "x", leaf) for path, leaf in leaves]


def _variables(tree) -> list[tuple[str, Any]]:
    """Every array of a tree with the name of its variable in a file: unique, and without a slash."""
    taken = {"chain", "draw", "record"}  # names of axes
    variables = []
    for name, leaf in _named(tree):
        name = name.replace("/", ".")
        while name in taken:
            name += "_"
        taken.add(name)
        variables.append((name, leaf))
    return variables


def _structure(tree, names: Iterator[str] | None = None):
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
        children.append([key, _structure(child, names)])
    kind = {list: "list", tuple: "tuple"}.get(type(tree), "dict")
    return {"kind": kind, "children": children}


def _rebuild(structure, arrays):
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
