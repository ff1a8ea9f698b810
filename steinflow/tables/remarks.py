"""Remarks about columns that a regression takes as they are, though somebody may not have meant it so."""

import re
import shlex

import numpy as np
from scipy import stats

from steinflow.models.columns import Column, Frame, in_formula, listed, shown
from steinflow.models.formulas.design import collinear
from steinflow.tables.remedies import formula_option

_NAMES_OF_CODES = re.compile(
    r"(?:^|[_. ])(id|ids|code|zip|zipcode|postcode|postal|plz|subject|patient|person|participant|district|region|state|"
    r"county|country|city|school|class|group|site|store|shop|hospital|center|centre|cluster|batch|plot|block|plant|"
    r"household|family|species|type|category)(?:$|[_. ]|no$|num$|nr$)|(?<=[a-z])(?:Id|ID|Code)$",
    re.IGNORECASE,
)
_DIGITS = 3  # of codes such as 308, 309 or 94110; fewer are as often amounts
_YEARS = (1800, 2100)
_SURE = 1e-4  # of a lack of fit, since several columns are looked at


def about_codes(frame: Frame, y: Column | None = None) -> list[str]:
    """Return a remark about columns of whole numbers that look like codes: by name, or by their digits and the target.

    Numbers such as 308, 309, 330 of the same number of digits, each in several rows, are taken for codes where the mean
    of the target differs between them in a way that no slope describes (the F test of lack of fit).

    Args:
        frame: the columns whose numbers become slopes.
        y: the target, where it is a number.
    """
    found = [name for name in frame.columns if _are_codes(str(name), frame[name], y)]
    if not found:
        return []
    many = len(found) > 1
    return [
        f"{listed(found)} {'are' if many else 'is'} used as {'amounts' if many else 'an amount'}, with a slope. If "
        f"{'they hold' if many else 'it holds'} codes, add --categorical {shlex.quote(shown(found[0]))}, or give each "
        f"code an effect of its own in a formula: {formula_option(f'... + (1 | {in_formula(found[0])})')}."
    ]


def about_collinear(X: np.ndarray, names: list[str]) -> list[str]:
    """Return a remark about features that are linear combinations of others, or more in number than rows."""
    if X.shape[1] >= len(X):
        return [
            f"There are {X.shape[1]:,} features for {len(X):,} rows: the data cannot tell all of their effects apart, "
            "so some of them depend on the prior alone."
        ]
    return list(collinear(X, names))


def _are_codes(name, values, y) -> bool:
    whole = _whole_numbers(values)
    if whole is None:
        return False
    distinct = np.unique(whole)
    if len(distinct) <= 2 or len(distinct) > len(whole) / 2:
        return False
    if _NAMES_OF_CODES.search(name):
        return True
    digits = {len(str(abs(int(value)))) for value in distinct}
    are_years = _YEARS[0] <= distinct[0] and distinct[-1] <= _YEARS[1]
    if len(digits) > 1 or min(digits) < _DIGITS or are_years or y is None or y.dtype.kind not in "iuf":
        return False
    return _lack_of_fit(whole, y.to_numpy(float)) < _SURE


def _whole_numbers(values):
    if values.dtype.kind not in "iuf":
        return None
    numbers = values.to_numpy(float, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    whole = len(numbers) == len(values) and np.array_equal(numbers, np.round(numbers))
    return numbers if whole and np.max(np.abs(numbers)) < 2**53 else None


def _lack_of_fit(x, y) -> float:
    """Return the probability of means by x that lie so far from a line, if they were on one."""
    _, codes = np.unique(x, return_inverse=True)
    counts = np.bincount(codes)
    by_code = np.bincount(codes, y) / counts
    within = np.sum((y - by_code[codes]) ** 2)
    line = np.polynomial.Polynomial.fit(x, y, 1)(x)
    beyond = np.sum((line - y) ** 2) - within
    free = len(counts) - 2, len(y) - len(counts)
    return float(stats.f.sf((beyond / free[0]) / max(within / free[1], 1e-300), *free))
