"""From the columns of a table to a matrix of numbers: learned on the rows to fit, the same for every other table.

Numbers stay as they are; the estimators standardise them. Text of few different values becomes one column of 0 and 1
per value, except for the most frequent one, which is the reference.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from steinflow.models.cells import is_number, texts
from steinflow.models.columns import MISSING_LEVEL, Frame, TableError, check_column, label_of, listed, shown
from steinflow.models.supervised import shift_and_scale
from steinflow.results.summary import number

Missing = Literal["error", "drop", "mean", "level"]
_HUGE = 1e300  # differences of such numbers overflow
_FAR_OUT = 1e6  # times the middle range: no measurement, more likely a mistake or a code for "missing"


@dataclasses.dataclass(frozen=True)
class Number:
    """A column of numbers, and their mean, which can take the place of a missing one.

    Attributes:
        name: of the column.
        mean: of the rows to fit.
        is_flag: whether it holds 0 and 1 only, so that its effect is that of going from 0 to 1.
        limits: the smallest and the largest of the rows to fit; None where they were not kept.
    """

    name: str
    mean: float
    is_flag: bool = False
    limits: tuple[float, float] | None = None
    kind: Literal["number"] = "number"

    @property
    def labels(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [self.name]


@dataclasses.dataclass(frozen=True)
class Category:
    """A column of few different values: the most frequent one, and the others, each of which gets a column.

    A missing value is one of them if one of them is called "missing".
    """

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

    @property
    def are_amounts(self) -> np.ndarray:
        """Which features are numbers beyond 0 and 1: their effects are given per standard deviation."""
        return np.array(
            [isinstance(column, Number) and not column.is_flag for column in self.columns for _ in column.labels]
        )

    @classmethod
    def learn(cls, frame: Frame) -> "Features":
        """Look at the columns of the rows to fit, after `check_kinds`."""
        columns, constant, notes = [], [], []
        for name in frame.columns:
            values = frame[name]
            if values.nunique(dropna=True) < 2:
                constant.append(name)
            elif is_number(values):
                column, note = _number(name, values)
                columns.append(column)
                notes += note
            else:
                counts = _labels(values.dropna()).value_counts()
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
                        f"such as {listed(texts(values)[:1])} in {shown(where)}."
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
                kinds[column["kind"]](**{name: tuple(v) if isinstance(v, list) else v for name, v in column.items()})
                for column in columns
            )
        )


def _as_numbers(values) -> np.ndarray | None:
    """Return a column as doubles with NaN where missing or infinite, or None if it holds something else."""
    if not is_number(values) and values.notna().any():
        return None
    numbers = values.to_numpy(float, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _labels(values):
    """Return the name of every value; of a column of categories only those that occur."""
    return values.astype(object).map(label_of)


def _number(name, values):
    numbers = values.to_numpy(float, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    largest = numbers[np.argmax(np.abs(numbers))]
    if abs(largest) > _HUGE:
        raise TableError(
            f"Column '{shown(name)}' has values beyond {_HUGE:g}, such as {number(largest, 3)}: divide it by a unit, "
            "or leave it out."
        )
    mean, _ = shift_and_scale(numbers)
    low, middle, high = np.quantile(numbers, [0.25, 0.5, 0.75])
    distance = np.max(np.abs(numbers - middle))
    note = []
    if high > low and distance > _FAR_OUT * (high - low):
        note.append(
            f"Column '{shown(name)}' has values up to {number(largest, 3)}, while half of them lie between "
            f"{number(low, 3)} and {number(high, 3)}. Is that a mistake, or a code for a missing value?"
        )
    limits = float(np.min(numbers)), float(np.max(numbers))
    return Number(name, float(mean), bool(np.all((numbers == 0) | (numbers == 1))), limits), note


def _indicators(column, values):
    missing = values.isna().to_numpy(bool)
    text = _labels(values)
    known = {column.reference, *column.values}
    if MISSING_LEVEL in known:
        text, missing = text.where(~missing, MISSING_LEVEL), np.zeros(len(text), bool)
    block = np.stack([(text == value).to_numpy(float) for value in column.values], axis=1)
    block[missing] = np.nan
    unknown = sorted(set(text[~missing]) - known)
    if not unknown:
        return block, []
    return block, [
        f"Column '{shown(column.name)}' has values that the model has never seen, {listed(unknown, 4)}: they are "
        f"treated as '{shown(column.reference)}', the most frequent one."
    ]
