"""What the cells of a column hold: missing values, and what no regression can use as it is."""

from typing import Any

import numpy as np

from steinflow.models.columns import Column, Frame, TableError, listed, shown
from steinflow.models.remedies import Remedies

MAX_CATEGORIES = 20
_MOSTLY = 0.5  # from this part on, a column of text is a column of numbers with odd cells, or of dates
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = (
    r"\d{4}[-/](?:0?[1-9]|1[0-2])(?:[-/]\d{1,2})?",
    r"\d{1,2}[-./]\d{1,2}[-./]\d{2,4}",
    rf"\d{{1,2}}\.?[- ]{_MONTH}[- ]\d{{2,4}}",
    rf"{_MONTH}[- ](?:\d{{1,2}},? )?\d{{4}}",
)
_TIME = r"\d{1,2}:[0-5]\d(?::[0-5]\d)?.*"
_DATE = rf"(?i)\s*(?:(?:{'|'.join(_DATES)})(?:[T ].*)?|{_TIME})"
_SIGN = r"\(?[-+]?\s*(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)?\s*[-+]?"
_UNIT = (
    r"\s*(?:[$€£¥₹%]|USD|EUR|GBP|CHF|JPY|[kKmM]|kg|mg|g|km|cm|mm|ml|l|lbs?|oz|ft|in|mi|h|hrs?|min|s|ms|°[CF])?\s*\)?"
)
_DIGITS = (  # what reads them by how they are written, the most special first
    ({"thousands": ","}, r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}"),
    ({"thousands": ".", "decimal": ","}, r"\d{1,3}(?:\.\d{3})+,\d+"),
    ({"thousands": " "}, r"\d{1,3}(?: \d{3})+"),
    ({"thousands": "'"}, r"\d{1,3}(?:'\d{3})+(?:\.\d+)?"),
    ({"decimal": ","}, r"\d*,\d+"),
)
_PLAIN = r"\d+(?:\.\d+)?"
_SPACES = "[\N{NO-BREAK SPACE}\N{FIGURE SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}]"  # no option reads these


def is_number(values: Column) -> bool:
    """Whether a column holds numbers."""
    return values.dtype.kind in "iufb"


def missing_cells(frame: Frame) -> np.ndarray:
    """Return which cells are missing or infinite, as a matrix."""
    missing = np.array(frame.isna(), bool)
    floats = np.flatnonzero([dtype.kind == "f" for dtype in frame.dtypes])
    missing[:, floats] |= np.isinf(frame.iloc[:, floats].to_numpy(float, na_value=np.nan))
    return missing


def missing_rows(frame: Frame) -> np.ndarray:
    """Return which rows have a missing or infinite value in any column."""
    return np.any(missing_cells(frame), axis=1)


def describe_missing(frame: Frame) -> str:
    """Return how many values are missing where, most first."""
    missing = missing_cells(frame)
    counts = dict(zip(frame.columns, missing.sum(axis=0).tolist(), strict=True))
    worst = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    some = ", ".join(f"'{shown(name, 40)}' ({counts[name]:,})" for name in worst[:6])
    more = f" and {len(worst) - 6} more columns" if len(worst) > 6 else ""
    num_rows = int(missing.any(axis=1).sum())
    return f"{num_rows:,} of {len(frame):,} rows have missing or infinite values, in {some}{more}"


def check_kinds(frame: Frame, remedies: Remedies, *, free: frozenset[str] = frozenset()) -> None:
    """Refuse dates, nested values, numbers with odd cells, and text of many different values.

    Args:
        frame: the columns to learn from.
        remedies: what to do about them.
        free: of these, columns of which the user said that they are categories, however many.
    """
    many = []
    for name in frame.columns:
        check_cells(name, frame[name], remedies, remedies.leave_out([name]))
        if not is_number(frame[name]) and name not in free and frame[name].nunique(dropna=True) > MAX_CATEGORIES:
            many.append(name)
    if many:
        first = frame[many[0]]
        which = f"Column {listed(many)} holds" if len(many) == 1 else f"Columns {listed(many)} hold"
        raise TableError(
            f"{which} text with too many different values to be categories ('{shown(many[0])}': "
            f"{first.nunique():,}, such as {listed(texts(first)[:2])}; at most {MAX_CATEGORIES}). "
            f"{_capitalized(remedies.leave_out(many))}; or let each value have an effect of its own, drawn from a "
            f"distribution of effects, as a group in a formula: {remedies.as_group(many[0])}."
        )


def check_cells(name: str, values: Column, remedies: Remedies, otherwise: str) -> None:
    """Refuse dates, nested values, and numbers that cannot be read as such.

    Args:
        name: of the column.
        values: its cells.
        remedies: what to do about it.
        otherwise: the last thing to do about it.
    """
    if is_number(values) or not values.notna().any():
        return
    if values.dtype.kind in "Mm" or _looks_like_dates(values):
        raise TableError(
            f"Column '{shown(name)}' holds dates or times, which a regression cannot use as they are; turn it into "
            f"numbers (days since ..., month, ...), or {otherwise}."
        )
    first: Any = values.dropna().iloc[0]
    if isinstance(first, list | tuple | dict | np.ndarray | bytes | complex):
        raise TableError(
            f"Column '{shown(name)}' holds {type(first).__name__} values, one per cell; give numbers or text, or "
            f"{otherwise}."
        )
    _refuse_odd_cells(name, values.dropna().astype(str), remedies, otherwise)


def _capitalized(sentence) -> str:
    return sentence[0].upper() + sentence[1:]


def _refuse_odd_cells(name, text, remedies, otherwise) -> None:
    import pandas

    odd = text[np.isnan(np.asarray(pandas.to_numeric(text, errors="coerce"), float))]
    if not len(odd):
        return
    _refuse_written_numbers(name, odd, remedies, otherwise)
    if len(odd) <= (1 - _MOSTLY) * len(text):
        markers = sorted(set(odd))
        raise TableError(
            f"Column '{shown(name)}' holds numbers, but {len(odd):,} of its {len(text):,} cells are text such as "
            f"{listed(markers, 3)}. If that means missing, {remedies.as_missing(markers[0])}; otherwise "
            f"correct these cells, or {otherwise}."
        )


def _refuse_written_numbers(name, odd, remedies, otherwise) -> None:
    """Refuse numbers that are written for people, with what reads them."""
    digits = "|".join([*(pattern for _, pattern in _DIGITS), _PLAIN])
    plain = odd.str.replace(_SPACES, " ", regex=True)
    if plain.str.fullmatch(f"{_SIGN}(?:{digits}){_UNIT}").mean() <= _MOSTLY:
        return
    bare = odd.str.replace(r"[^\d.,' ]", "", regex=True).str.strip()
    options = next((options for options, pattern in _DIGITS if bare.str.fullmatch(pattern).any()), None)
    what = f"Column '{shown(name)}' holds numbers that are written as text, such as {listed(texts(odd)[:2])}"
    if odd.str.fullmatch(r"\s*[-+]?[\d.,' ]+\s*").mean() <= _MOSTLY:
        raise TableError(
            f"{what}: write them without signs of currency, units and separators, as 1250.5, or {otherwise}."
        )
    if options == {"decimal": ","} and bare.str.fullmatch(r"\d{1,3},\d{3}").all():
        raise TableError(
            f"{what}: {remedies.read_with(thousands=',')} if the comma separates thousands, or "
            f"{remedies.read_with(decimal=',')} if it is a decimal comma."
        )
    if options is not None:
        raise TableError(f"{what}: {remedies.read_with(**options)}.")


def _looks_like_dates(values) -> bool:
    text = values.dropna().astype(str).iloc[:100]
    return bool(text.str.fullmatch(_DATE).mean() > _MOSTLY)


def texts(values: Column) -> list[str]:
    """Return some of the cells as text."""
    return [str(value) for value in values.dropna().iloc[:3]]
