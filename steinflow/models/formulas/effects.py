"""Tables on which the effects of predictors can be seen: some columns vary, the others are at their usual values."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from steinflow.models.formulas.design import Design
from steinflow.models.formulas.syntax import columns_of
from steinflow.models.formulas.tables import Frame

_FEW = 30  # whole numbers with at most so many values may be codes: between them there is nothing


def shown_effects(design: Design) -> list[tuple[str, ...]]:
    """Return the columns of every common term, each set of columns once; at most two of them."""
    found = {tuple(sorted(columns_of(term))): None for term in design.common}
    larger = [set(names) for names in found if len(names) == 2]
    alone = [names for names in found if len(names) == 1 and not any(set(names) <= other for other in larger)]
    return [*alone, *(tuple(sorted(names)) for names in larger)]


def coded(designs: Iterable[Design]) -> frozenset[str]:
    """Return the columns whose values are names even where they are numbers: those in C(...), and groups."""
    designs = list(designs)
    parts = [part for design in designs for term in design.common for part in term.components]
    parts = [part for part in parts if part.kind == "categoric"]
    factors = [block[0].factor for design in designs for block in design.groups]
    return frozenset(name for part in (*parts, *factors) for name in columns_of(part))


def grid(frame: Frame, names: Sequence[str], num_points: int, codes: Collection[str] = ()) -> Frame:
    """Return a table on which the first column varies, for a few values of the second, and the others stay.

    Numbers stay at their mean, or where they are whole at their median, text and codes at their most frequent value.
    """
    import pandas

    first, *others = names
    axes = {first: _along(frame[first], num_points) if first not in codes else _values(frame[first])}
    if others:
        axes[others[0]] = _some(frame[others[0]]) if others[0] not in codes else _values(frame[others[0]])
    table = pandas.DataFrame(
        [dict(zip(axes, values, strict=True)) for values in _product(list(axes.values()))], columns=list(axes)
    )
    for name in frame.columns:
        if name not in axes:
            table[name] = _usual(frame[name]) if name not in codes else frame[name].mode().iloc[0]
    return table


def is_number(column: Any) -> bool:
    """Whether a column holds numbers, which have an order and values in between."""
    return column.dtype.kind in "iuf"


def _along(column, num_points):
    values = np.unique(column.dropna().astype(str)) if not is_number(column) else np.unique(column)
    if not is_number(column) or len(values) <= 2 or (column.dtype.kind in "iu" and len(values) <= _FEW):
        return values.tolist()
    return np.linspace(values[0], values[-1], num_points).tolist()


def _values(column):
    return sorted(column.dropna().unique().tolist(), key=lambda value: (isinstance(value, str), value))


def _some(column):
    """Return levels, or for numbers the mean and a sd around it."""
    if not is_number(column):
        return _along(column, 3)
    values = np.unique(column).tolist()
    if len(values) <= 3:
        return values
    if column.dtype.kind in "iu" and len(values) <= _FEW:
        return [values[0], values[len(values) // 2], values[-1]]
    return [float(column.mean() + k * column.std()) for k in (-1, 0, 1)]


def _usual(column):
    if not is_number(column):
        return column.mode().iloc[0]
    return column.mean() if column.dtype.kind == "f" else type(column.iloc[0])(np.sort(column)[len(column) // 2])


def _product(axes):
    if len(axes) == 1:
        return [(value,) for value in axes[0]]
    return [(first, second) for second in axes[1] for first in axes[0]]
