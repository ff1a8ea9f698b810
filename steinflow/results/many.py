"""Many posteriors of one model: a sequence of results, and one table."""

import collections
import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import numpy as np

from steinflow.results import arviz
from steinflow.results.files import describe, open_netcdf, rebuild, save_netcdf
from steinflow.results.outcome import Ending, Outcome
from steinflow.results.result import Result
from steinflow.results.summary import Summary, frames_of, number
from steinflow.typing import Params, PyTree

if TYPE_CHECKING:
    import xarray

_AXIS = "posterior"


@dataclasses.dataclass(frozen=True, eq=False)
class Many(Sequence[Result]):
    """The posteriors that `sf.fit_many` found, one `Result` each.

    `many[3]` and `many["name"]` are results like those of `sf.fit`, with their own verdict; `many[:10]` is a shorter
    `Many`. The results have no history, and have `draws()` only if the draws of all posteriors fit in 256 MB. To fit
    one of them again, alone and for longer, use `sf.fit(many[3].target, num_steps=4000)`.

    Attributes:
        results: in the order of the items.
        names: one for each.
    """

    results: tuple[Result, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int | str) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> "Many": ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return Many(self.results[index], self.names[index])
        if isinstance(index, str):
            if index not in self.names:
                raise KeyError(f"There is no posterior named {index!r}; there are {len(self)}: {self.names[:5]} ...")
            index = self.names.index(index)
        return self.results[index]

    def __repr__(self) -> str:
        return f"<{len(self)} posteriors: {_counted(self.levels)}>"

    @functools.cached_property
    def levels(self) -> np.ndarray:
        """The level of every verdict: good, doubtful or bad."""
        return np.array([result.verdict.level for result in self])

    @property
    def outcomes(self) -> list[Outcome]:
        """How every run ended."""
        return [result.outcome for result in self]

    @functools.cached_property
    def particles(self) -> Params:
        """All particles, in the user's structure, with an axis of posteriors before that of particles.

        Raises:
            ValueError: where the posteriors have different numbers of particles.
        """
        return self._stacked(lambda result: result.particles)

    def mean(self) -> Params:
        """Return the posterior means, with an axis of posteriors."""
        return _stack([result.mean() for result in self])

    def sd(self) -> Params:
        """Return the posterior standard deviations, with an axis of posteriors."""
        return _stack([result.sd() for result in self])

    def summary(self) -> "ManySummary":
        """Return a table with a row for every posterior and parameter, which can be printed."""
        labels = self.results[0].labels  # those of all
        parts = [Summary.of(result.particles, result.probabilities, [], labels) for result in self]
        columns = {name: np.stack([part.columns[name] for part in parts]) for name in parts[0].columns}
        rows = [result.info.get("num_rows") for result in self]
        known = None if None in rows else np.array(rows)
        return ManySummary(parts[0].names, columns, self.names, self.levels, self.outcomes, known)

    def to_arviz(self):
        """Return posterior and sample_stats in ArviZ's schema, with the further dimension `posterior`.

        Likelihoods and predictions are those of single posteriors: `many[3].to_arviz()`.
        """
        import xarray

        labels = self.results[0].labels
        attributes = {"inference_library": "steinflow", "sample_dims": ["chain", "draw"]}
        equal = Many(tuple(result.with_equal_weights() for result in self), self.names)
        groups = {
            "posterior": equal._group(equal.particles, attributes, dims=labels.dims, coords=labels.coords),
            "sample_stats": equal._group({"lp": equal._stacked(lambda result: result.log_densities)}, attributes),
        }
        return arviz.for_installed_version(xarray.DataTree.from_dict(groups))

    def save(self, path: str | Path) -> Path:
        """Write everything except the targets to one netCDF file, for `sf.Many.load`."""
        import xarray

        known = {
            "many": json.dumps(
                [
                    {"outcome": result.outcome.value, "message": result.ending.message, "info": dict(result.info)}
                    for result in self
                ]
            ),
            "structure": json.dumps(describe(self.results[0].particles)),
        }
        values = {"lp": lambda result: result.log_densities}
        if self.results[0].weights is not None:
            values["weight"] = lambda result: result.weights
        points = {"x": lambda result: result.unconstrained, "score": lambda result: result.scores}
        groups = {
            "/": xarray.Dataset(attrs=known),
            "posterior": self._group(self.particles),
            "sample_stats": self._group({name: self._stacked(of) for name, of in values.items()}),
            "unconstrained": self._group({name: self._stacked(of) for name, of in points.items()}),
        }
        return save_netcdf(path, xarray.DataTree.from_dict(groups))

    @classmethod
    def load(cls, path: str | Path) -> "Many":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: where there is no such file.
            ValueError: where the file does not hold many results.
        """
        tree = open_netcdf(path)
        if "many" not in tree.attrs:
            raise ValueError(f"{path} does not hold many results; one is read with sf.load.")

        def arrays(group):
            return {name: _rows(values.values) for name, values in tree[group].data_vars.items()}

        attributes, chains = tree.attrs, int(tree["posterior"].sizes["chain"])
        posterior, statistics, points = map(arrays, ("posterior", "sample_stats", "unconstrained"))
        structure = json.loads(attributes["structure"])
        results = [
            Result(
                particles=rebuild(structure, {name: values[k] for name, values in posterior.items()}),
                weights=statistics["weight"][k] if "weight" in statistics else None,
                history={},
                ending=Ending(Outcome(known["outcome"]), known["message"]),
                unconstrained=points["x"][k],
                scores=points["score"][k],
                log_densities=statistics["lp"][k],
                num_chains=chains,
                info=known["info"],
            )
            for k, known in enumerate(json.loads(attributes["many"]))
        ]
        return cls(tuple(results), tuple(map(str, tree["posterior"].coords[_AXIS].values)))

    def _stacked(self, of) -> PyTree:
        sizes = {(len(result), result.num_chains) for result in self}
        if len(sizes) > 1:
            raise ValueError(
                "The posteriors have different numbers of particles or chains, as after an interruption, and do not "
                f"fit in one array: {sorted(sizes)[:5]}. Take them one by one."
            )
        return _stack([of(result) for result in self])

    def _group(self, tree: PyTree, attributes: dict[str, Any] | None = None, **labels) -> "xarray.Dataset":
        """Return a group of what has a row for every posterior and particle."""
        chains = self.results[0].num_chains
        arrays = {name: _by_chain(np.asarray(values), chains) for name, values in arviz.variables(tree).items()}
        axes = {"chain": chains, "draw": len(self.results[0]) // chains, _AXIS: len(self)}
        return arviz.group(arrays, axes, attributes=attributes, **labels).assign_coords({_AXIS: list(self.names)})


@dataclasses.dataclass(frozen=True)
class ManySummary:
    """Many posteriors in numbers.

    Attributes:
        parameters: their names.
        columns: mean, sd and quantiles, each with a row for every posterior and a column for every parameter.
        names: of the posteriors.
        levels: of their verdicts.
        outcomes: of their runs.
        num_rows: of the data of each, where that is known.
        max_rows: how many posteriors to print at most.
        max_parameters: how many parameters to print at most.
    """

    parameters: list[str]
    columns: dict[str, np.ndarray]
    names: tuple[str, ...]
    levels: np.ndarray
    outcomes: list[Outcome]
    num_rows: np.ndarray | None = None
    max_rows: int = 20
    max_parameters: int = 4

    def __str__(self):
        shown, chosen = (
            range(min(len(self.names), self.max_rows)),
            range(min(len(self.parameters), self.max_parameters)),
        )
        rows = [] if self.num_rows is None else ["rows"]
        cells = [["", *rows, *(self.parameters[p] for p in chosen), "verdict", "ended"]]
        mean, sd = self.columns["mean"], self.columns["sd"]
        cells += [
            [
                self.names[k],
                *([] if self.num_rows is None else [str(self.num_rows[k])]),
                *(f"{number(mean[k, p])} ± {number(sd[k, p])}" for p in chosen),
                str(self.levels[k]),
                str(self.outcomes[k]),
            ]
            for k in shown
        ]
        widths = [max(map(len, column)) + 2 for column in zip(*cells, strict=True)]
        lines = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        if len(self.names) > self.max_rows:
            lines.append(f"... and {len(self.names) - self.max_rows} more posteriors")
        if len(self.parameters) > self.max_parameters:
            lines.append(f"... and {len(self.parameters) - self.max_parameters} more parameters")
        return "\n".join([*lines, "", f"{len(self.names)} posteriors, mean ± sd: {_counted(self.levels)}"])

    __repr__ = __str__

    def to_dataframe(self, *, library: Literal["pandas", "polars"] = "pandas"):
        """Return a table with a row for every posterior and parameter, of pandas or Polars."""
        frames, num = frames_of(library), len(self.parameters)
        return frames.DataFrame(
            {
                "posterior": [name for name in self.names for _ in range(num)],
                **({} if self.num_rows is None else {"rows": np.repeat(self.num_rows, num)}),
                "parameter": self.parameters * len(self.names),
                **{name: values.ravel() for name, values in self.columns.items()},
                "verdict": np.repeat(self.levels, num),
                "outcome": [str(outcome) for outcome in self.outcomes for _ in range(num)],
            }
        )


def _counted(levels: np.ndarray) -> str:
    counts = collections.Counter(levels.tolist())
    return ", ".join(f"{counts[level]} {level}" for level in ("good", "doubtful", "bad") if counts[level])


def _stack(trees: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _by_chain(values: np.ndarray, num_chains: int) -> np.ndarray:
    """Return values of shape (posteriors, particles, ...) as (chains, draws, posteriors, ...)."""
    return np.moveaxis(values.reshape(len(values), num_chains, -1, *values.shape[2:]), 0, 2)


def _rows(values: np.ndarray) -> np.ndarray:
    """Undo `_by_chain`."""
    values = np.moveaxis(values, 2, 0)
    return values.reshape(len(values), -1, *values.shape[3:])
