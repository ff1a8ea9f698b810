"""A posterior as a table: a row for every scalar parameter."""

import dataclasses
from typing import Any

import jax
import numpy as np

from steinflow.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class Summary:
    """The posterior in numbers: a row for every scalar parameter, and what the diagnostics say."""

    names: list[str]
    columns: dict[str, np.ndarray]
    footer: list[str]
    max_rows: int = 20

    @classmethod
    def of(cls, particles: Params, weights: Array, footer: list[str]) -> "Summary":
        """Summarise weighted particles."""
        names, values = columns_of(particles)
        shares = np.asarray(weights, dtype=float)
        mean = shares @ values
        sd = np.sqrt(shares @ (values - mean) ** 2)
        quantiles = _weighted_quantiles(values, shares, (0.05, 0.5, 0.95))
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
    for name, leaf in named_arrays(particles):
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


def named_arrays(tree) -> list[tuple[str, Any]]:
    """Every array of a tree with its path as a name; a bare array is called x."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator=".") or "x", leaf) for path, leaf in leaves]
