"""From the columns of a table to a matrix of numbers: learned on the rows to fit, the same for every other table.

Numbers stay as they are; the estimators standardise them. Text of few different values becomes one column of 0 and 1
per value, except for the most frequent one, which is the reference.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from steinflow.models.supervised import shift_and_scale
from steinflow.tables.tables import Frame, TableError, check_column, listed, shown

Missing = Literal["error", "drop", "mean"]
MAX_CATEGORIES = 20
_MOSTLY_NUMBERS = 0.5  # from this part on, a column of text is a column of numbers with odd cells
_DATE = r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})([T ].*)?"
_HUGE = 1e300  # differences of such numbers overflow
_FAR_OUT = 1e6  # times the middle range: no measurement, more likely a mistake or a code for "missing"


@dataclasses.dataclass(frozen=True)
class Number:
    """A column of numbers, and their mean, which can take the place of a missing one."""

    name: str
    mean: float
    kind: Literal["number"] = "number"

    @property
    def labels(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [self.name]


@dataclasses.dataclass(frozen=True)
class Category:
    """A column of few different values: the most frequent one, and the others, each of which gets a column."""

    name: str
    reference: str
    values: tuple[str, ...]
    kind: Literal["category"] = "category"

    @property
    def labels(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [f"{self.name} = {value}" for value in self.values]


@dataclasses.dataclass(frozen=True)
class Features:
    """How the columns of a table become features."""

    columns: tuple[Number | Category, ...]
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The name of every feature."""
        return [label for column in self.columns for label in column.labels]

    @property
    def are_numbers(self) -> np.ndarray:
        """Which features are columns of numbers; the others are categories."""
        return np.array([isinstance(column, Number) for column in self.columns for _ in column.labels])

    @classmethod
    def learn(cls, frame: Frame) -> "Features":
        """Look at the columns of the rows to fit, after `check_kinds`."""
        columns, constant, notes = [], [], []
        for name in frame.columns:
            values = frame[name]
            if values.nunique(dropna=True) < 2:
                constant.append(name)
            elif _is_number(values):
                column, note = _number(name, values)
                columns.append(column)
                notes += note
            else:
                counts = values.dropna().astype(str).value_counts()
                others = sorted(str(value) for value in counts.index[1:])
                columns.append(Category(name, str(counts.index[0]), tuple(others)))
        if not columns:
            what = f"all of them are constant: {listed(constant)}" if constant else "there is none besides the target"
            raise TableError(f"There is no feature to learn from: {what}. Give a table with columns that vary.")
        if constant:
            notes.append(f"Left out because constant: {listed(constant)}.")
        return cls(tuple(columns), tuple(notes))

    def matrix(self, frame: Frame, where: str = "the table") -> tuple[np.ndarray, list[str]]:
        """Return the features of every row, NaN where a value is missing, and notes about what was never seen."""
        blocks, notes = [], []
        for column in self.columns:
            check_column(frame, column.name, where)
            values = frame[column.name]
            if isinstance(column, Number):
                numbers = _as_numbers(values)
                if numbers is None:
                    raise TableError(
                        f"Column '{shown(column.name)}' held numbers when the model was fitted, but it holds text "
                        f"such as {listed(_texts(values)[:1])} in {shown(where)}."
                    )
                blocks.append(numbers[:, None])
            else:
                block, note = _indicators(column, values)
                blocks.append(block)
                notes += note
        return np.concatenate(blocks, axis=1), notes

    def filled(self, X: np.ndarray) -> np.ndarray:
        """Return features with the mean, or the most frequent category, in place of missing values."""
        usual = [column.mean if isinstance(column, Number) else 0.0 for column in self.columns for _ in column.labels]
        return np.where(np.isnan(X), usual, X)

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain values."""
        return [dataclasses.asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: Sequence[dict[str, Any]]) -> "Features":
        """Return what `to_json` described."""
        kinds: dict[str, Any] = {"number": Number, "category": Category}
        return cls(
            tuple(
                kinds[column["kind"]](**{name: tuple(v) if name == "values" else v for name, v in column.items()})
                for column in columns
            )
        )


def missing_rows(frame: Frame) -> np.ndarray:
    """Return which rows have a missing or infinite value in any column."""
    rows = np.zeros(len(frame), bool)
    for name in frame.columns:
        rows |= _is_missing(frame[name])
    return rows


def describe_missing(frame: Frame) -> str:
    """Return how many values are missing where, most first."""
    counts = {name: int(_is_missing(frame[name]).sum()) for name in frame.columns}
    worst = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    some = ", ".join(f"'{shown(name, 40)}' ({counts[name]:,})" for name in worst[:6])
    more = f" and {len(worst) - 6} more columns" if len(worst) > 6 else ""
    return f"{int(missing_rows(frame).sum()):,} of {len(frame):,} rows have missing or infinite values, in {some}{more}"


def _is_missing(values) -> np.ndarray:
    missing = values.isna().to_numpy(bool)
    if values.dtype.kind == "f":
        return missing | np.isinf(values.to_numpy(float, na_value=np.nan))
    return missing


def _is_number(values) -> bool:
    return values.dtype.kind in "iufb"


def _as_numbers(values) -> np.ndarray | None:
    """Return a column as doubles with NaN where missing or infinite, or None if it holds something else."""
    if not _is_number(values) and values.notna().any():
        return None
    numbers = values.to_numpy(float, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(name, values):
    numbers = values.to_numpy(float, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    largest = numbers[np.argmax(np.abs(numbers))]
    if abs(largest) > _HUGE:
        raise TableError(
            f"Column '{shown(name)}' has values beyond {_HUGE:g}, such as {largest:.3g}: divide it by a unit, or leave "
            f"it out with --drop '{shown(name)}'."
        )
    mean, _ = shift_and_scale(numbers)
    low, middle, high = np.quantile(numbers, [0.25, 0.5, 0.75])
    distance = np.max(np.abs(numbers - middle))
    note = []
    if high > low and distance > _FAR_OUT * (high - low):
        note.append(
            f"Column '{shown(name)}' has values up to {largest:.3g}, while half of them lie between "
            f"{low:.3g} and {high:.3g}. Is that a mistake, or a code for a missing value?"
        )
    return Number(name, float(mean)), note


def _indicators(column, values):
    text = values.astype(str)
    missing = values.isna().to_numpy(bool)
    block = np.stack([(text == value).to_numpy(float) for value in column.values], axis=1)
    block[missing] = np.nan
    known = {column.reference, *column.values}
    unknown = sorted(set(text[~missing]) - known)
    if not unknown:
        return block, []
    return block, [
        f"Column '{shown(column.name)}' has values that the model has never seen, {listed(unknown, 4)}: they are "
        f"treated as '{shown(column.reference)}', the most frequent one."
    ]


def check_kinds(frame: Frame) -> None:
    """Refuse dates, nested values, numbers with odd cells, and text of many different values."""
    free_text = []
    for name in frame.columns:
        values = frame[name]
        if _is_number(values) or not values.notna().any():
            continue
        if values.dtype.kind in "Mm" or _looks_like_dates(values):
            raise TableError(
                f"Column '{shown(name)}' holds dates or times, which a regression cannot use as they are; turn it into "
                f"numbers (days since ..., month, ...), or leave it out with --drop '{shown(name)}'."
            )
        if isinstance(values.dropna().iloc[0], list | tuple | dict | np.ndarray | bytes | complex):
            raise TableError(
                f"Column '{shown(name)}' holds {type(values.dropna().iloc[0]).__name__} values, one per cell; give "
                f"numbers or text, or leave it out with --drop '{shown(name)}'."
            )
        _refuse_odd_cells(name, values)
        if values.nunique(dropna=True) > MAX_CATEGORIES:
            free_text.append(name)
    if free_text:
        first = frame[free_text[0]]
        which = f"Column {listed(free_text)} holds" if len(free_text) == 1 else f"Columns {listed(free_text)} hold"
        raise TableError(
            f"{which} text with too many different values to be categories ('{shown(free_text[0])}': "
            f"{first.nunique():,}, such as {listed(_texts(first)[:2])}; at most {MAX_CATEGORIES}). Add "
            + " ".join(f"--drop '{shown(name)}'" for name in free_text[:6])
            + (" ..." if len(free_text) > 6 else "")
            + f" to leave {'it' if len(free_text) == 1 else 'them'} out, or group the values."
        )


def _refuse_odd_cells(name, values) -> None:
    import pandas

    text = values.dropna().astype(str)
    odd = text[np.isnan(np.asarray(pandas.to_numeric(text, errors="coerce"), float))]
    if 0 < len(odd) <= (1 - _MOSTLY_NUMBERS) * len(text):
        markers = sorted(set(odd))
        raise TableError(
            f"Column '{shown(name)}' holds numbers, but {len(odd):,} of its {len(text):,} cells are text such as "
            f"{listed(markers, 3)}. If that means missing, add --missing-marker '{shown(markers[0])}'; otherwise "
            f"correct these cells, or leave the column out with --drop '{shown(name)}'."
        )
    if len(odd) == len(text) and text.str.fullmatch(r"\s*[-+]?\d+,\d+\s*").mean() > _MOSTLY_NUMBERS:
        raise TableError(
            f"Column '{shown(name)}' holds numbers with decimal commas, such as {listed(_texts(values)[:1])}; add "
            "--decimal ','."
        )


def _looks_like_dates(values) -> bool:
    text = values.dropna().astype(str).iloc[:100]
    return bool(text.str.fullmatch(_DATE).mean() > _MOSTLY_NUMBERS)


def _texts(values) -> list[str]:
    return [str(value) for value in values.dropna().iloc[:3]]
