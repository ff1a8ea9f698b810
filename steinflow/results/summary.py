"""A posterior as a table: a row for every scalar parameter. And how numbers are summarised and shown everywhere."""

import dataclasses
import importlib
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np

from steinflow.targets.observations import Labels
from steinflow.typing import Params, Weights


@dataclasses.dataclass(frozen=True)
class Summary:
    """The posterior in numbers: a row for every scalar parameter, and what the diagnostics say.

    Attributes:
        names: one per parameter.
        columns: mean, sd and quantiles, each with one value per parameter.
        footer: the lines below the table.
        max_rows: how many parameters to print at most.
    """

    names: list[str]
    columns: dict[str, np.ndarray]
    footer: list[str]
    max_rows: int = 20

    @classmethod
    def of(cls, particles: Params, weights: np.ndarray, footer: list[str], labels: Labels = Labels()) -> "Summary":
        """Summarise weighted particles."""
        names, values = columns_of(particles, labels)
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2)
        low, median, high = weighted_quantiles(values, weights, (0.05, 0.5, 0.95))
        return cls(names, {"mean": mean, "sd": sd, "5%": low, "50%": median, "95%": high}, footer)

    def __str__(self):
        shown = range(min(len(self.names), self.max_rows))
        width = max(len(self.names[i]) for i in shown) + 2
        lines = [" " * width + "".join(f"{column:>11}" for column in self.columns)]
        lines += [
            f"{self.names[i]:<{width}}" + "".join(f"{number(column[i]):>11}" for column in self.columns.values())
            for i in shown
        ]
        if len(self.names) > self.max_rows:
            lines.append(f"... and {len(self.names) - self.max_rows} more parameters")
        return "\n".join([*lines, "", *self.footer])

    __repr__ = __str__


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return quantiles along the first axis, one row per level.

    A quantile is where the weights below, counted to the middle of each value, reach the level, with straight lines
    between values. Values of zero weight do not count.

    Args:
        values: of shape (n, ...).
        weights: n nonnegative numbers; only their proportions matter.
        levels: between 0 and 1.
    """
    counts = weights > 0
    values, weights = values[counts], weights[counts] / np.sum(weights)
    order = np.argsort(values, axis=0)
    sorted_values, sorted_weights = np.take_along_axis(values, order, axis=0), weights[order]
    cumulative = np.cumsum(sorted_weights, axis=0) - sorted_weights / 2
    quantiles = np.empty((len(levels), *values.shape[1:]))
    for i in np.ndindex(values.shape[1:]):
        quantiles[:, *i] = np.interp(levels, cumulative[:, *i], sorted_values[:, *i])
    return quantiles


def number(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, or all digits before the point of one below a million."""
    return f"{value:.0f}" if 10**digits - 0.5 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def columns_of(particles: Params, labels: Labels = Labels()) -> tuple[list[str], np.ndarray]:
    """Return the name of every scalar parameter, and their values as the columns of a matrix.

    Positions on an axis are numbered where labels have no names for them.
    """
    names, values = [], []
    for name, leaf in named_arrays(particles):
        leaf = np.asarray(leaf)
        axes = labels.dims.get(name, ())
        positions = [
            labels.coords.get(axis or "", range(size)) for axis, size in zip(axes, leaf.shape[1:], strict=False)
        ]
        if [len(axis) for axis in positions] != list(leaf.shape[1:]):
            positions = [range(size) for size in leaf.shape[1:]]
        indices = list(itertools.product(*positions))
        names += [f"{name}[{','.join(map(str, i))}]" if i else name for i in indices]
        values.append(leaf.reshape(len(leaf), -1))
    return names, np.concatenate(values, axis=1).astype(float)


def dataframe(
    particles: Params,
    weights: Weights | None,
    num_chains: int,
    library: Literal["pandas", "polars"],
    labels: Labels = Labels(),
):
    """Return particles as a table of pandas or Polars; the arguments are those of `Result`."""
    frames = frames_of(library)
    names, values = columns_of(particles, labels)
    extra: dict[str, Any] = {} if weights is None else {"weight": np.asarray(weights, float)}
    if num_chains > 1:
        chain, draw = np.divmod(np.arange(len(values)), len(values) // num_chains)
        extra = {"chain": chain, "draw": draw, **extra}
    columns = dict(zip(names, values.T, strict=True))
    for name, column in extra.items():
        while name in columns:  # a parameter may be called so
            name += "_"
        columns[name] = column
    return frames.DataFrame(columns)


def frames_of(library: Literal["pandas", "polars"]) -> Any:
    """Return the library that makes tables.

    Raises:
        ModuleNotFoundError: where it is not installed.
    """
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ModuleNotFoundError(
            f"to_dataframe(library={library!r}) needs it: pip install 'steinflow[{library}]'.", name=library
        ) from error


def named_arrays(tree) -> list[tuple[str, Any]]:
    """Return every array of a tree with its path as a name; a bare array is called x."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator=".") or "x", leaf) for path, leaf in leaves]
