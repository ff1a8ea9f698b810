"""Columns of tables: their types, their names and cells in words, and what to do about those that cannot be used."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# What pandas calls DataFrame and Series; it is loaded only where a table is read, and its own types help no checker.
Frame = Any
Column = Any

MISSING_LEVEL = "missing"  # where missing values of text are a value of their own


class TableError(ValueError):
    """What is wrong with a table, in a sentence that says what to do."""


def shown(text: object, length: int = 60) -> str:
    """Return text from a file so that it can be printed: on one line, not too long, no control characters."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def in_formula(name: object) -> str:
    """Return the name of a column as a formula has it, in backticks where it is no plain word."""
    text = shown(name)
    return text if re.fullmatch(r"[^\W\d_][\w.]*", text) else f"`{text}`"


def listed(names: Sequence[object], most: int = 8) -> str:
    """Return names as 'a', 'b', ... and how many more there are."""
    some = ", ".join(f"'{shown(name, 40)}'" for name in names[:most])
    return f"{some} and {len(names) - most} more" if len(names) > most else some


def label_of(value: object) -> str:
    """Return a value as text: the same for 1 and 1.0, so that labels survive a change of the column's type."""
    is_float = isinstance(value, float | np.floating)
    return str(int(value)) if is_float and float(value).is_integer() else str(value)


def as_text(frame: Frame, names: Sequence[str]) -> Frame:
    """Return a table with these columns as text: of codes the number is a name, and not an amount."""
    return frame.assign(**{name: frame[name].map(label_of, na_action="ignore") for name in names})


def counted(count: int, thing: str) -> str:
    """Return a number of things in words: 1 row, 2 rows."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def check_column(frame: Frame, name: str, where: str) -> None:
    """Refuse a column that is not there, with the nearest name that is."""
    if name in frame.columns:
        return
    near = nearest(name, frame.columns)
    guess = "" if near is None else f" Did you mean '{shown(near)}'?"
    raise TableError(
        f"There is no column '{shown(name)}' in {shown(where)}.{guess} Its columns are {listed(list(frame.columns))}."
    )


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that somebody who wrote `name` may have meant, or None."""
    names = list(names)
    same_letters = [other for other in names if other.casefold() == name.casefold()]
    close = same_letters or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return close[0] if close else None
