"""The rows that an estimator is given: numbers as scikit-learn checks them, and tables with columns of text."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_X_y, validate_data

from steinflow.estimators.features import Features
from steinflow.models.cells import check_kinds, describe_missing, is_number, missing_rows
from steinflow.models.columns import Frame, TableError
from steinflow.models.formulas.tables import as_frame
from steinflow.models.remedies import InPython


def checked_data(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool, y_numeric: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return X as a matrix of doubles, and y.

    Of a table with columns that hold no numbers, the estimator learns the `features_` when it is fitted, and encodes
    every later table with them; what a user should know about columns and values is a warning.

    Args:
        estimator: which remembers the columns.
        X, y: as the user gave them.
        reset: whether this is a new fit.
        y_numeric: whether y holds numbers.

    Raises:
        ValueError: if X or y cannot be used.
    """
    if y_numeric and np.asarray(y).dtype.kind in "Mm":
        raise ValueError("y holds dates or times; turn it into numbers first, such as days since the first.")
    table = _table(estimator, X, reset=reset)
    if table is None:
        return validate_data(estimator, X, y, reset=reset, dtype=np.float64, y_numeric=y_numeric)
    matrix = _encoded(estimator, X, table, reset=reset)
    return check_X_y(matrix, y, dtype=np.float64, y_numeric=y_numeric, estimator=estimator)


def checked_rows(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """Return X as a matrix of doubles, with the columns of the fit.

    Raises:
        ValueError: if X cannot be used.
    """
    table = _table(estimator, X, reset=False)
    if table is None:
        return np.asarray(validate_data(estimator, X, reset=False, dtype=np.float64))
    return _encoded(estimator, X, table, reset=False)


def _table(estimator, X, *, reset) -> Frame | None:
    """Return a table whose columns need encoding; None for numbers, which scikit-learn checks."""
    if reset:
        vars(estimator).pop("features_", None)
        return _with_text(X)
    if "features_" not in vars(estimator):
        return None
    if not hasattr(X, "columns"):
        raise TableError(
            "This estimator was fitted to a table with columns of text, so it needs a table with the same columns; got "
            f"{type(X).__module__}.{type(X).__name__}."
        )
    return _named(as_frame(X))


def _encoded(estimator, X, table, *, reset):
    validate_data(estimator, X, reset=reset, skip_check_array=True)  # the names of its columns
    if missing_rows(table).any():
        raise TableError(f"In X, {describe_missing(table)}. Leave these rows out, or fill in the values first.")
    if reset:
        check_kinds(table, InPython())
        estimator.features_ = Features.learn(table)
        _warn(estimator.features_.notes)
    matrix, unseen = estimator.features_.matrix(table, "X")
    _warn(unseen)
    return matrix


def _warn(notes) -> None:
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=5)


def _with_text(X) -> Frame | None:
    """Return a table in which something else than numbers occurs, None for anything else."""
    if not hasattr(X, "columns") or np.asarray(X).dtype.kind in "biuf":
        return None
    table = _named(as_frame(X))
    return None if all(is_number(table[name]) for name in table.columns) else table


def _named(table: Frame) -> Frame:
    """Return a table whose names of columns are text, and whose numbers have a type of numbers."""
    return table.set_axis([str(name) for name in table.columns], axis=1).infer_objects()
