"""A table beside data sets that a model draws, as plain values for plots: drawn from the posterior, or from the priors.

Each has a `kind`. Numbers and counts have `edges` of bars, and how many rows lie in each; classes have `levels`, and
the share of each; times have `times`, and the share of rows without the event by then, the observed one by Kaplan and
Meier. All have these values as `observed`, and the central 90% of those drawn as `low`, `middle` and `high`.
"""

from typing import Any

import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.results.curves import BAND, kaplan_meier
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.residuals import Drawn, chosen_rows, levels_of
from steinflow.targets.flat import from_prior

_MOST_BARS = 60
_MOST_GROUPED, _MOST_GROUPS, _ROWS_PER_GROUP = 4, 20, 3  # columns, levels, and rows of a level on average
_TIMES = 80
_PRIOR_DRAWS = 100
_ROOM = 2  # on each side of the table, in its own widths, for what the priors draw


def predictive_shape(drawn: Drawn | None) -> dict[str, Any] | None:
    """Return fitted rows beside rows drawn from the posterior; None where there are no draws.

    In `groups` there is the same about means by the levels of some columns.
    """
    if drawn is None or drawn.draws is None or len(drawn.y) < 2:
        return None
    y, draws = drawn.y, drawn.draws
    if drawn.events is not None:
        return {**_of_times(y, ~drawn.events.happened, draws), "groups": []}
    # What few of the draws reach would squeeze all the rest.
    low, high = min(np.min(y), np.quantile(draws, 0.002)), max(np.max(y), np.quantile(draws, 0.998))
    return {**_of_numbers(drawn.kind, y, draws, low, high), "groups": _grouped_means(drawn)}


def prior_shape(fitted: FormulaFit) -> dict[str, Any]:
    """Return fitted rows beside rows drawn from the priors of a formula.

    Priors may reach very far: the bars end near the table, and `beyond` is the share of the values that lie beyond.
    """
    target, about = fitted.target, fitted.target.about
    rows = chosen_rows(len(about.frame), fitted.weights)
    y, is_bound = about.response.y[rows], about.response.is_bound
    prior_key, data_key = split_key(as_key(0), 2)
    flat, particles = from_prior(target, _PRIOR_DRAWS, key=prior_key)
    frame = about.frame.iloc[rows].reset_index(drop=True)
    drawn = target.observations.predictive(flat.to_user(particles), frame, key=data_key)
    draws = np.asarray(next(iter(drawn.values())), float)
    if is_bound is not None:
        return _of_times(y, is_bound[rows], draws)
    if fitted.classes is not None:
        return _of_classes(list(fitted.classes), y, draws)
    room = _ROOM * (np.ptp(y) or abs(y[0]) or 1.0)
    reached = np.quantile(draws[np.isfinite(draws)], BAND) if np.isfinite(draws).any() else (np.min(y), np.max(y))
    low = max(min(np.min(y), reached[0]), np.min(y) - room)
    high = min(max(np.max(y), reached[1]), np.max(y) + room)
    shape = _of_numbers("counts" if fitted.is_count else "numbers", y, draws, low, high)
    is_inside = (draws >= shape["edges"][0]) & (draws <= shape["edges"][-1])
    return {**shape, "beyond": float(np.mean(~is_inside))}


def _of_numbers(kind, y, draws, low, high) -> dict[str, Any]:
    if kind == "counts":
        step = 1 if high - low <= _MOST_BARS else np.ceil(2 * (high - low + 1) / _MOST_BARS)
        edges = np.arange(np.floor(low) - 0.5, high + step, step)
    elif high > low:
        edges = np.linspace(low, high, _MOST_BARS // 2 + 1)
    else:
        edges = np.array([low - 0.5, low + 0.5])
    shares = [np.histogram(row, edges)[0] for row in draws]
    return {"kind": kind, "edges": _plain(edges), **_beside(np.histogram(y, edges)[0], shares)}


def _of_classes(levels, y, draws) -> dict[str, Any]:
    def shares(values):
        return np.bincount(values[np.isfinite(values)].astype(int), minlength=len(levels)) / len(values)

    return {"kind": "classes", "levels": levels, **_beside(shares(y), [shares(row) for row in draws])}


def _of_times(y, is_bound, draws) -> dict[str, Any]:
    """Of rows drawn anew all events are known."""
    times = np.linspace(min(0.0, np.min(y)), np.max(y), _TIMES)
    left = [np.mean(row[:, None] > times, axis=0) for row in draws]
    return {"kind": "times", "times": _plain(times), **_beside(kaplan_meier(times, y, is_bound), left)}


def _beside(observed, drawn) -> dict[str, list[float]]:
    limits = np.quantile(drawn, (BAND[0], 0.5, BAND[1]), axis=0)
    return dict(zip(("observed", "low", "middle", "high"), map(_plain, (observed, *limits)), strict=True))


def _plain(values) -> list[float]:
    return np.asarray(values, float).tolist()


def _grouped_means(drawn) -> list[dict[str, Any]]:
    """Return the mean of the rows by the levels of some columns, those of the model first: observed, and drawn."""
    found = []
    for name in sorted(drawn.frame.columns, key=lambda name: name not in drawn.used):
        codes, levels = levels_of(drawn.frame[name])
        if not 1 < len(levels) <= _MOST_GROUPS or len(levels) > len(codes) / _ROWS_PER_GROUP:
            continue
        each = np.eye(len(levels))[codes] / np.bincount(codes)
        found.append({"column": str(name), "levels": levels, **_beside(drawn.y @ each, drawn.draws @ each)})
    return found[:_MOST_GROUPED]
