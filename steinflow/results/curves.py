"""The effects of the predictors of a formula on the mean of its response, as numbers to be drawn."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from steinflow.results.result import Result
from steinflow.results.summary import number, weighted_quantiles

BAND = (0.05, 0.95)


@dataclasses.dataclass(frozen=True)
class Curve:
    """The mean along a predictor: positions on its axis, the median and the limits of the central 90%."""

    label: str | None
    x: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


@dataclasses.dataclass(frozen=True)
class Effect:
    """The effect of a predictor, or of two that interact.

    Attributes:
        names: of the predictors; the first is along the axis.
        levels: on the axis, where the first one has no numbers; positions are 0, 1, ...
        curves: one, or one for every class, or for some values of the second predictor.
        response: what the other axis is.
        of_classes: whether there is a curve for every class.
    """

    names: tuple[str, ...]
    levels: tuple[str, ...] | None
    curves: tuple[Curve, ...]
    response: str
    of_classes: bool


def formula_of(result: Result, what: str) -> Any:
    """Return the model by formula whose result this is.

    Raises:
        ValueError: if it is none, or was not kept; `what` is what needs it.
    """
    if not hasattr(result.target, "effect_grid"):
        raise ValueError(f"{what} needs the result of a model by formula, before it is saved: sf.formula(...).")
    return result.target


def effect_of(result: Result, names: Sequence[str]) -> Effect:
    """Return the effect of a column, or of two, with the others at their usual values and without groups."""
    target: Any = result.target
    names = _numbers_first(target, names)
    grid = target.effect_grid(names)
    means = np.asarray(target.means(result.particles, grid, groups=False), float)
    low, middle, high = weighted_quantiles(means, result.probabilities, (BAND[0], 0.5, BAND[1]))
    everywhere = np.ones(len(grid), bool)
    of_classes = means.ndim == 3
    if of_classes:
        parts = [(str(level), (everywhere, k)) for k, level in enumerate(target.about.response.levels)]
    elif len(names) > 1:
        parts = [(shortened(value), ((grid[names[1]] == value).to_numpy(),)) for value in grid[names[1]].unique()]
    else:
        parts = [(None, (everywhere,))]
    first = grid[names[0]]
    levels = tuple(map(shortened, first.unique())) if _has_levels(target, names[0]) else None
    positions = first if levels is None else first.map({value: i for i, value in enumerate(first.unique())})
    x = positions.to_numpy(float)
    curves = tuple(Curve(label, x[pick[0]], low[pick], middle[pick], high[pick]) for label, pick in parts)
    name = target.about.response.name
    return Effect(tuple(names), levels, curves, f"P({name})" if of_classes else name, of_classes)


def _numbers_first(target, names):
    return sorted(names, key=lambda name: _has_levels(target, name)) if len(names) > 1 else list(names)


def _has_levels(target, name):
    """Whether there is nothing between the values of a column: text, codes, and two whole numbers."""
    values = target.about.frame[name]
    return name in target.codes or values.dtype.kind not in "iuf" or set(values.unique()) <= {0, 1}


def kaplan_meier(grid: np.ndarray, times: np.ndarray, is_bound: np.ndarray) -> np.ndarray:
    """Return the estimate of Kaplan and Meier of the probability to exceed each value of a grid.

    Args:
        grid: where.
        times: of all rows.
        is_bound: which of them are only known to be exceeded.
    """
    events, counts = np.unique(times[~is_bound], return_counts=True)
    at_risk = len(times) - np.searchsorted(np.sort(times), events)
    shares = np.cumprod(np.append(1.0, 1 - counts / at_risk))
    return shares[np.searchsorted(events, grid, side="right")]


def shortened(value: object) -> str:
    """Return a value for a legend."""
    return number(value, 3) if isinstance(value, float) else str(value)
