"""What a model by formula says on average over the rows of a table: marginal means, and contrasts between them.

Every row is predicted as if its column had one value, then another, and all else stayed as it is; the average over the
rows, each as often as its weight says, is a number for every particle, and so is the difference of two. On a linear
model without interactions a contrast is a coefficient; behind a link, or with interactions, it is what coefficients do
not say.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from steinflow.results.curves import formula_of, shortened
from steinflow.results.result import Result
from steinflow.results.summary import weighted_quantiles

if TYPE_CHECKING:
    import pandas

_BLOCK = 10_000  # rows predicted at once
_FEW = 10  # whole numbers with so many values are taken as they are
_QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}


def marginal_means(
    result: Result, column: str, *, at: Sequence[Any] | None = None, by: str | None = None, groups: bool = True
) -> "pandas.DataFrame":
    """Return the mean of the response for values of a column, averaged over the rows of the table.

    Args:
        result: of a model by formula.
        column: the predictor, which is set to one value after another in all rows.
        at: the values; by default all levels (for whole numbers of up to ten values, these), or for another number its
            mean, and one sd below and above it.
        by: another column; means are given separately for each of its values.
        groups: whether effects of groups count; without them every row is in a group whose effects are zero.

    Returns:
        A row for every value (and every class, if the response has classes), with mean, sd and quantiles.

    Raises:
        ValueError: if the target is not a formula, or there is no such column.
    """
    return _table(result, _margins(result, column, at, by, groups))


def contrasts(
    result: Result,
    column: str,
    *,
    at: Sequence[Any] | None = None,
    by: str | None = None,
    pairs: bool = False,
    groups: bool = True,
) -> "pandas.DataFrame":
    """Return how the mean of the response differs between values of a column, averaged over the rows of the table.

    Args:
        result: of a model by formula.
        column: the predictor.
        at: the values to compare; by default all levels (for whole numbers of up to ten values, these), or for another
            number its mean and one unit more.
        by: another column; contrasts are given separately for each of its values.
        pairs: compare every value with every earlier one, not only with the first.
        groups: whether effects of groups count; without them every row is in a group whose effects are zero.

    Returns:
        A row for every difference (and every class, if the response has classes), with mean, sd and quantiles.

    Raises:
        ValueError: if the target is not a formula, there is no such column, or there is nothing to compare.
    """
    target = formula_of(result, "a marginal mean")
    frame = target.about.frame
    if at is None and column in frame and not has_levels(target, column):
        middle = float(frame[column].mean())
        at = [middle, middle + 1]
    margins = _margins(result, column, at, by, groups)
    found = {}
    for part in dict.fromkeys(part for part, _ in margins):
        values = [value for own, value in margins if own == part]
        if len(values) < 2:
            raise ValueError(
                f"'{column}' has only one value, {shortened(values[0])}, so there is nothing to compare; pass at=."
            )
        for k, value in enumerate(values[1:], start=1):
            for other in values[:k] if pairs else values[:1]:
                found[part, f"{shortened(value)} - {shortened(other)}"] = margins[part, value] - margins[part, other]
    return _table(result, found)


def _margins(result, column, at, by, groups) -> dict[tuple[Any, Any], np.ndarray]:
    """Return the average mean of every particle (by classes), for each part of the rows and each value."""
    target = formula_of(result, "a marginal mean")
    frame = target.about.frame
    for name in filter(None, (column, by)):
        if name not in frame:
            raise ValueError(f"There is no column '{name}' in the table; it has {', '.join(map(str, frame.columns))}.")
    values = _usual_values(target, column) if at is None else list(at)
    parts = {None: np.arange(len(frame))} if by is None else dict(_rows_by(frame[by]))
    counts = np.asarray(target.data.values.get("weight", np.ones(len(frame))), float)
    return {
        (part if by is None else f"{by}={shortened(part)}", value): _average(
            target, result, frame.iloc[rows], column, value, groups, counts[rows]
        )
        for part, rows in parts.items()
        for value in values
    }


def _average(target, result, frame, column, value, groups, counts):
    total: Any = 0.0
    for start in range(0, len(frame), _BLOCK):
        block = frame.iloc[start : start + _BLOCK].assign(**{column: value})
        means = np.asarray(target.means(result.particles, block, groups=groups), float)
        total = total + np.tensordot(means, counts[start : start + _BLOCK], axes=(1, 0))
    return total / np.sum(counts)


def _table(result, found: Mapping[tuple[Any, Any], np.ndarray]) -> "pandas.DataFrame":
    import pandas

    levels = formula_of(result, "a marginal mean").about.response.levels
    weights, rows, index = result.probabilities, [], []
    for (part, value), draws in found.items():
        for k, each in enumerate(draws.T if draws.ndim == 2 else [draws]):
            mean = weights @ each
            spread = np.sqrt(weights @ (each - mean) ** 2)
            quantiles = weighted_quantiles(each, weights, list(_QUANTILES.values()))
            rows.append([mean, spread, *quantiles])
            labels = [part, shortened(value), levels[k] if draws.ndim == 2 else None]
            index.append(", ".join(str(label) for label in labels if label is not None))
    return pandas.DataFrame(rows, index=index, columns=["mean", "sd", *_QUANTILES])


def has_levels(target: Any, name: str) -> bool:
    """Whether the values of a column are taken one by one: text, codes, and few whole numbers."""
    column = target.about.frame[name]
    if name in target.codes or column.dtype.kind not in "iuf":
        return True
    return column.nunique() <= _FEW and bool((column == column.round()).all())


def _usual_values(target, name):
    column = target.about.frame[name]
    if has_levels(target, name):
        return sorted(column.dropna().unique().tolist(), key=lambda value: (isinstance(value, str), value))
    mean, spread = float(column.mean()), float(column.std())
    return [mean - spread, mean, mean + spread]


def _rows_by(column):
    for value in sorted(column.dropna().unique().tolist(), key=str):
        yield value, np.flatnonzero((column == value).to_numpy())
