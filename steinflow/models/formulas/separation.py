r"""Predictors that tell the classes of a response apart: without a prior their effects would be infinite.

Coefficients b may grow for ever if there is a direction in which no row becomes less probable, and some become more so:
$D b \ge 0$, and not zero, where the rows of D depend on the response. A linear program finds such a direction if there
is one (Albert and Anderson 1984, Konis 2007).
"""

from collections.abc import Iterator

import numpy as np

_MOST_NUMBERS = 20_000  # in a linear program, which takes a twentieth of a second
_MOST_IN_ALL = 2_000_000  # in the inequalities of all rows
_SECONDS = 0.1  # for a linear program; without an answer nothing is said
_MARGIN = 1e-4  # of columns of sd one and coefficients up to one
_MOST_ROUNDS = 5
_MOST_NAMES = 6
_MOST_PREDICTORS = 20  # of which a smallest set is looked for


def separated(
    X: np.ndarray,
    y: np.ndarray,
    names: list[str],
    *,
    trials: np.ndarray | None = None,
    ordered: bool = False,
    centered: bool = True,
) -> tuple[str, ...]:
    """Return a remark where some of the predictors tell the classes of a response apart, and which do.

    Args:
        X: a column for each coefficient.
        y: numbers of the classes, or successes.
        names: the predictor of each column.
        trials: of every row, where there are several.
        ordered: whether the classes have an order, with thresholds between them.
        centered: whether there is an intercept too.
    """
    num_classes = 2 if trials is not None else int(np.max(y)) + 1
    if num_classes < 2 or not X.shape[1]:
        return ()
    two = num_classes == 2 and trials is None
    alone = _alone(X, y, names) if two else []
    involved = alone or _together(X, y, names, num_classes, trials, ordered=ordered, centered=centered)
    if not involved:
        return ()
    some = ", ".join(map(repr, involved[:_MOST_NAMES])) + (", ..." if len(involved) > _MOST_NAMES else "")
    which = "together separate" if len(involved) > 1 and not alone else "separates"
    what = "the two values" if two else "successes and failures" if trials is not None else "the classes"
    bound = "the prior bounds its effect" if which == "separates" else "the priors bound their effects"
    return (f"{some} {which} {what} of the response, in all rows or in some: only {bound}.",)


def _alone(X, y, names) -> list[str]:
    """Return the predictors with a column of their own that does it."""
    yes, no = X[y > 0], X[y <= 0]
    if not len(yes) or not len(no):
        return []
    apart = (yes.min(axis=0) > no.max(axis=0)) | (yes.max(axis=0) < no.min(axis=0))
    # A level, or its opposite, whose rows all have the same response.
    is_level = np.all((X == 0) | (X == 1), axis=0) & (np.ptp(X, axis=0) > 0)
    apart |= is_level & np.any([np.ptp(part, axis=0) == 0 for part in (yes, no)], axis=0)
    return list(dict.fromkeys(name for name, found in zip(names, apart, strict=True) if found))


def _together(X, y, names, num_classes, trials, *, ordered, centered) -> list[str]:
    """Return a smallest set of predictors that do it together; none where that would take long to find out."""
    num_blocks = 1 if ordered or num_classes == 2 else num_classes - 1
    if len(X) * (X.shape[1] + 1) * max(num_blocks**2, 2) > _MOST_IN_ALL:
        return []
    sds = X.std(axis=0)
    X = (X - X.mean(axis=0) if centered or ordered else X) / np.where(sds > 0, sds, 1.0)
    if centered and not ordered:
        X = np.column_stack([np.ones(len(X)), X])
    inequalities = _inequalities(X, y.astype(int), num_classes, trials, ordered=ordered)
    # The predictor of each unknown: none for intercepts and thresholds, which are free in any case.
    owners = [None] * (num_classes - 1 if ordered else 0)
    owners += num_blocks * [*([None] if centered and not ordered else []), *names]
    involved = list(dict.fromkeys(names))
    if not _has_direction(inequalities):
        return []
    for name in list(involved) if len(involved) <= _MOST_PREDICTORS else ():
        without = [other for other in involved if other != name]
        if _has_direction(inequalities[:, [owner is None or owner in without for owner in owners]]):
            involved = without
    return involved


def _inequalities(X, y, num_classes, trials, *, ordered) -> np.ndarray:
    """Return D: a row for everything that must not become less probable."""
    if trials is not None:
        return np.concatenate([X[y > 0], -X[y < trials]])
    if ordered:
        return np.concatenate(list(_of_thresholds(X, y, num_classes)))
    if num_classes == 2:
        return np.where(y[:, None] > 0, X, -X)
    blocks = X[:, None, :] * np.eye(num_classes)[y][:, :, None]  # the predictor of the class of the row
    found = [(blocks - X[:, None, :] * np.eye(num_classes)[k][:, None])[y != k] for k in range(num_classes)]
    return np.concatenate(found)[:, 1:].reshape(-1, (num_classes - 1) * X.shape[1])


def _of_thresholds(X, y, num_classes) -> Iterator[np.ndarray]:
    """Yield what thresholds c and slopes must satisfy: a row of class k has c[k - 1] <= mu <= c[k]."""
    thresholds = np.eye(num_classes - 1)
    below, above = y < num_classes - 1, y > 0
    yield np.concatenate([thresholds[y[below]], -X[below]], axis=1)
    yield np.concatenate([-thresholds[y[above] - 1], X[above]], axis=1)


def _has_direction(D) -> bool:
    """Whether D b >= 0 for some b, and not all zero: asked of some of the rows, then of those that object too."""
    if not D.shape[1]:
        return False
    D = np.unique(D, axis=0) if D.size <= _MOST_NUMBERS else D
    most = max(1, _MOST_NUMBERS // D.shape[1])
    chosen = np.random.default_rng(0).permutation(len(D))[:most]
    for _ in range(_MOST_ROUNDS):
        b = _best(D[chosen])
        if b is None:
            return False
        margins = D @ b
        against = np.flatnonzero(margins < -_MARGIN)
        if not len(against):
            return True
        chosen = np.union1d(chosen[: most // 2], against[np.argsort(margins[against])][: most // 2])
    return False


def _best(D) -> np.ndarray | None:
    """Return the b in [-1, 1] with D b >= 0 and the largest sum of these; None if that is zero, or not known soon."""
    from scipy.optimize import linprog

    options = {"time_limit": _SECONDS}
    found = linprog(-D.mean(axis=0), A_ub=-D, b_ub=np.zeros(len(D)), bounds=(-1, 1), method="highs", options=options)
    return found.x if found.status == 0 and np.max(D @ found.x) > _MARGIN else None
