"""Remarks about columns that a regression takes as they are, though somebody may not have meant it so."""

import re
import shlex

import numpy as np
from scipy import stats

from steinflow.models.columns import Column, Frame, TableError, in_formula, listed, shown
from steinflow.models.formulas.design import collinear
from steinflow.tables.remedies import formula_option

_NAMES_OF_CODES = re.compile(
    r"(?:^|[_. ])(id|ids|code|zip|zipcode|postcode|postal|plz|fips|subject|patient|person|participant|customer|doctor|"
    r"teacher|rater|provider|prov|district|region|state|county|country|city|school|class|group|site|store|shop|dept|"
    r"inst|hospital|clinic|ward|lab|center|centre|cluster|batch|plot|block|plant|herd|ship|household|family|species|"
    r"item|product|type|category)(?:$|[_. ]|no$|num$|nr$)|(?<=[a-z])(?:Id|ID|Code)$",
    re.IGNORECASE,
)
_YEARS = (1800, 2100)
_SURE = 1e-4  # of means that differ, since several columns are looked at
_FEWEST = 6  # codes that can be seen to have no order
_NO_LINE = 0.2  # the most that a line explains of what differs between codes without an order
_NO_NEIGHBOURS = 1.2  # the least that means of neighbours are apart: 2 without an order, and 0 along a curve


def about_codes(frame: Frame, y: Column | None = None, response: str = "y", *, is_network: bool = False) -> list[str]:
    """Return a remark about columns of whole numbers that look like codes: by their name, or by the target.

    Numbers that come again and again are taken for codes where the mean of the target differs between them (an F test)
    but has no order: no line describes it, and means of neighbours are as far apart as any two (von Neumann's ratio).

    Args:
        frame: the columns whose numbers become slopes.
        y: the target.
        response: what it is called in a formula.
        is_network: whether they become inputs of a network, which has no slopes and no groups.
    """
    found = [name for name in frame.columns if are_codes(str(name), frame[name], y)]
    if not found:
        return []
    found.sort(key=lambda name: _NAMES_OF_CODES.search(str(name)) is None)
    many = len(found) > 1
    text = f"{listed(found)} {'are' if many else 'is'} used as {'amounts' if many else 'an amount'}"
    text += f"{'' if is_network else ', with a slope'}. If {'they hold' if many else 'it holds'} codes, add "
    text += f"--categorical {shlex.quote(shown(found[0]))}"
    group = formula_option(f"{response} ~ ... + (1 | {in_formula(found[0])})")
    return [f"{text}{'' if is_network else f', or give each code an effect of its own in a formula: {group}'}."]


def about_collinear(X: np.ndarray, names: list[str]) -> list[str]:
    """Return a remark about features that are linear combinations of others, or more in number than rows."""
    if X.shape[1] >= len(X):
        return [
            f"There are {X.shape[1]:,} features for {len(X):,} rows: the data cannot tell all of their effects apart, "
            "so some of them depend on the prior alone."
        ]
    return list(collinear(X, names))


def are_codes(name: str, values: Column, y: Column | None) -> bool:
    """Whether whole numbers look like codes, by the name of their column or by what the numbers `y` say."""
    whole = _whole_numbers(values)
    if whole is None:
        return False
    distinct = np.unique(whole)
    if len(distinct) <= 2 or len(distinct) > len(whole) / 2:
        return False
    if _NAMES_OF_CODES.search(name):
        return True
    are_years = _YEARS[0] <= distinct[0] and distinct[-1] <= _YEARS[1]
    if are_years or y is None or len(distinct) < _FEWEST:
        return False
    if y.nunique() == 2:
        return _has_no_order(whole, y.factorize()[0])
    return y.dtype.kind in "iuf" and _has_no_order(whole, y.to_numpy(float))


def _whole_numbers(values):
    if values.dtype.kind not in "iuf":
        return None
    numbers = values.to_numpy(float, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    whole = len(numbers) == len(values) and np.array_equal(numbers, np.round(numbers))
    return numbers if whole and np.max(np.abs(numbers)) < 2**53 else None


def _has_no_order(x, y) -> bool:
    """Whether means of y differ between the values of x, and neither along a line nor from neighbour to neighbour."""
    _, codes = np.unique(x, return_inverse=True)
    counts = np.bincount(codes)
    means = np.bincount(codes, y) / counts
    within, between = np.sum((y - means[codes]) ** 2), np.sum(counts * (means - y.mean()) ** 2)
    free = len(counts) - 1, len(y) - len(counts)
    if stats.f.sf(between / free[0] / max(within / free[1], 1e-300), *free) > _SURE:
        return False
    line = np.polynomial.Polynomial.fit(x, y, 1)(x)
    along = np.sum((line - y.mean()) ** 2) / between
    apart = np.sum(np.diff(means) ** 2) / np.sum((means - means.mean()) ** 2)
    return bool(along < _NO_LINE and apart > _NO_NEIGHBOURS)


def about_dates(frame: Frame) -> list[str]:
    """Return a remark about columns of dates that are written as numbers, such as 20200131."""
    found = [name for name in frame.columns if are_dates(frame[name])]
    if not found:
        return []
    return [
        f"{listed(found)} {'look' if len(found) > 1 else 'looks'} like dates written as numbers, between which the "
        "steps are uneven (20200131, 20200201); turn them into days since the first."
    ]


def refuse_dates(name: str, values: Column, otherwise: str) -> None:
    """Refuse a target of such dates."""
    if are_dates(values):
        raise TableError(
            f"Column '{shown(name)}' holds dates written as numbers, such as {values.iloc[0]:.0f}; turn it into "
            f"numbers that count (days since ..., month, ...), or {otherwise}."
        )


def are_dates(values: Column) -> bool:
    """Whether all numbers of a column are dates such as 20200131, and not all the same."""
    numbers = _whole_numbers(values)
    if numbers is None or not np.all((numbers > 18_000_000) & (numbers < 22_000_000)) or np.ptp(numbers) == 0:
        return False
    month, day = numbers // 100 % 100, numbers % 100
    return bool(np.all((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)))
