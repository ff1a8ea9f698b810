"""Which rows of a file are held out: the same for all models of a column, whatever rows each of them leaves out."""

import numpy as np

from steinflow.models.columns import Column
from steinflow.tables.responses import MAX_CLASSES

MOST_KEPT = 5_000  # predictions for held-out rows in a run


def check_test_fraction(test_fraction: float) -> None:
    """Refuse what is no part of the rows that could be held out."""
    if not 0 <= test_fraction <= 0.9:
        raise ValueError(f"--test-fraction must be between 0 and 0.9, a fraction of the rows; got {test_fraction:g}.")


def split(
    num_rows: int, usable: np.ndarray, fraction: float, seed: int, response: Column | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers of the rows to fit and to hold out, and of the latter those whose predictions are kept.

    A row is drawn by its number in the file, so rows that cannot be used do not move the others. Of every class its
    share is held out, and at least one row is fitted, so that the model knows the class.

    Args:
        num_rows: of the file.
        usable: the numbers of the rows that the model can use, in order.
        fraction: of the rows, to be held out.
        seed: of the draw.
        response: the column to predict, in all rows of the file; None where the response has several columns.

    Raises:
        ValueError: if the fraction is none.
    """
    check_test_fraction(fraction)
    classes = np.zeros(num_rows, int) if response is None else _classes(response)
    drawn = np.random.default_rng(seed).permutation(num_rows)
    place, size = np.zeros(num_rows), np.bincount(classes)[classes]
    for code in np.unique(classes):
        rows = drawn[classes[drawn] == code]
        place[rows] = np.arange(len(rows))
    free = drawn[place[drawn] < size[drawn] - 1]
    wanted = min(max(1, round(fraction * num_rows)), len(free) - 1) if fraction > 0 else 0
    order = free[np.argsort(((place + 0.5) / size)[free], kind="stable")]
    is_test = np.isin(usable, order[: max(0, wanted)])
    # Of a class whose other rows cannot be used, one is fitted in any case.
    for code in np.setdiff1d(classes[usable[is_test]], classes[usable[~is_test]]):
        own = np.flatnonzero(is_test & (classes[usable] == code))
        is_test[own[np.argmax(place[usable[own]])]] = False
    test = usable[is_test]
    kept = np.sort(drawn[np.isin(drawn, test)][:MOST_KEPT])
    return usable[~is_test], test, kept


def _classes(response) -> np.ndarray:
    """Return the class of every row; one for all where there are more values than a classification could have."""
    codes, found = response.factorize()
    few = len(found) <= min(MAX_CLASSES, max(2, len(response) // 2))
    return codes + 1 if few else np.zeros(len(response), int)
