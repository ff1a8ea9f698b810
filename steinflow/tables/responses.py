"""The column to predict: classes, numbers or counts, and how it is encoded for the model."""

import dataclasses
from typing import Any, Literal

import numpy as np

from steinflow.models.columns import Column, TableError, label_of, listed, shown

Kind = Literal["classes", "numbers", "counts"]
ModelName = Literal["logistic", "linear", "poisson", "network"]
MAX_CLASSES = 50
FEW_NUMBERS = 10  # whole numbers with at most so many different values are taken for classes
_HUGE = 1e300


@dataclasses.dataclass(frozen=True)
class Response:
    """What the target column holds.

    Attributes:
        name: of the column.
        kind: "classes", "numbers" or "counts".
        labels: of the classes, in the order of their codes; with two, the second is the one whose probability counts.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()

    @classmethod
    def learn(cls, values: Column, kind: Kind) -> "Response":
        """Look at the target of all rows, and refuse one that does not suit the model."""
        name = str(values.name)
        match kind:
            case "classes":
                return cls(name, kind, _class_labels(name, values))
            case "counts":
                _check_numbers(name, values, "poisson")
                counts = values.to_numpy(float)
                if not np.all(_are_counts(counts)):
                    raise TableError(
                        f"A Poisson regression predicts counts, 0, 1, 2, ..., but '{shown(name)}' has values such as "
                        f"{counts[~_are_counts(counts)][0]:g}; use --model linear."
                    )
                return cls(name, kind)
            case "numbers":
                _check_numbers(name, values, "linear")
                return cls(name, kind)

    def encode(self, values: Column) -> np.ndarray:
        """Return the codes of classes, numbers, or counts; NaN for what is none of these."""
        if self.kind == "classes":
            codes = {label: float(code) for code, label in enumerate(self.labels)}
            return np.array([codes.get(label, np.nan) for label in _labels_of(values)])
        if values.dtype.kind not in "iufb":
            raise TableError(f"'{shown(self.name)}' holds text such as {listed(_some(values))} instead of numbers.")
        numbers = values.to_numpy(float, na_value=np.nan)
        return numbers if self.kind == "numbers" else np.where(_are_counts(numbers), numbers, np.nan)

    def decode(self, y: np.ndarray) -> np.ndarray:
        """Return the labels of codes; numbers and counts as they are."""
        return np.array(self.labels, dtype=object)[y.astype(int)] if self.kind == "classes" else y

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Response":
        """Return what `to_json` described."""
        fixed: dict[str, Any] = {**values, "labels": tuple(values["labels"])}
        return cls(**fixed)


def choose_kind(values: Column, model: ModelName | None) -> tuple[Kind, str]:
    """Return what the target holds, for this model or for none yet, and a sentence that says why."""
    name, distinct = shown(values.name), values.nunique()
    match model:
        case "linear":
            return "numbers", "as you asked"
        case "poisson":
            return "counts", "as you asked"
        case "logistic":
            return "classes", "as you asked"
    if values.dtype.kind == "b" or distinct == 2:
        return "classes", f"'{name}' has two different values"
    if values.dtype.kind not in "iufb":
        return "classes", f"'{name}' holds text with {distinct:,} different values"
    numbers = values.to_numpy(float)
    if distinct <= FEW_NUMBERS and np.all(numbers == np.round(numbers)):
        return "classes", (
            f"'{name}' has {distinct} different whole numbers, which are treated as classes; for numbers on a scale "
            "use --model linear, for counts --model poisson"
        )
    reason = f"'{name}' is a number with {distinct:,} different values"
    if np.all(_are_counts(numbers)) and np.min(numbers) <= 1:  # ages and prices rarely go down to 0
        reason += ", all of them whole and not negative; for counts use --model poisson, or a formula with --family "
        reason += "negbinomial"
    return "numbers", reason


def _are_counts(numbers) -> np.ndarray:
    return (numbers >= 0) & (numbers == np.round(numbers))


def _check_numbers(name, values, model) -> None:
    if values.dtype.kind not in "iufb":
        raise TableError(
            f"--model {model} predicts numbers, but '{shown(name)}' holds text such as {listed(_some(values))}; use "
            "--model logistic, which predicts classes, or name another --target."
        )
    numbers = values.to_numpy(float)
    if np.ptp(numbers) == 0:
        raise TableError(_always(name, numbers[0]))
    if np.max(np.abs(numbers)) > _HUGE:
        raise TableError(f"The target '{shown(name)}' has values beyond {_HUGE:g}; divide it by a unit.")


def _always(name, value) -> str:
    what = f"The target '{shown(name)}' is {value:g} in every row"
    return f"{what}, so there is nothing to predict; name another --target."


def _class_labels(name, values) -> tuple[str, ...]:
    distinct = values.dropna().unique()
    if len(distinct) < 2 and values.dtype.kind in "iuf":
        raise TableError(_always(name, distinct[0]))
    if len(distinct) < 2:
        raise TableError(
            f"The target '{shown(name)}' has one class, {listed(_labels_of(values)[:1])}, in every row; "
            "classification needs at least two classes. Name another --target, or add rows of another class."
        )
    numeric = values.dtype.kind in "iuf"
    fractional = numeric and bool(np.any(distinct.astype(float) != np.round(distinct.astype(float))))
    most = FEW_NUMBERS if fractional else min(MAX_CLASSES, max(2, len(values) // 2))
    if len(distinct) > most:
        remedy = "use --model linear, which predicts numbers" if numeric else "group them, or name another --target"
        raise TableError(
            f"The target '{shown(name)}' has {len(distinct):,} different values, such as {listed(_some(values))}, too "
            f"many for classes (at most {most} here); {remedy}."
        )
    ordered = sorted(distinct) if values.dtype.kind in "iufb" else sorted(distinct, key=str)
    return tuple(label_of(value) for value in ordered)


def _labels_of(values) -> list[str]:
    return [label_of(value) for value in values]


def _some(values) -> list[str]:
    return [str(value) for value in values.dropna().iloc[:2]]
