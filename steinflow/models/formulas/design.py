"""Design matrices of a formula: of the rows to fit, and the same for the rows of any other table."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from steinflow.models.columns import counted
from steinflow.models.formulas.predictors import Block, Term
from steinflow.models.formulas.syntax import Formula, FormulaError
from steinflow.models.formulas.tables import Frame

_COLLINEAR = 1e-6  # of the largest singular value
_FAR = 1e5  # sds from zero; single precision has seven digits


@dataclasses.dataclass(frozen=True)
class Arrays:
    """What a linear predictor needs of a table: columns, offsets, and for every block the levels and its columns."""

    X: np.ndarray
    offset: np.ndarray
    groups: list[tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Design:
    """The terms of a linear predictor, with all that they remember of the rows to fit."""

    common: tuple[Any, ...]
    offsets: tuple[Any, ...]
    has_intercept: bool
    groups: tuple[tuple[Any, ...], ...]
    levels: tuple[tuple[str, ...], ...]
    positions: tuple[np.ndarray, ...]
    correlated: tuple[bool, ...]

    @classmethod
    def of(cls, formula: Formula, frame: Frame, environment: Any) -> "Design":
        """Evaluate the terms of a formula on the rows to fit."""
        from formulae.matrices import DesignMatrices
        from formulae.terms.terms import Intercept

        try:
            DesignMatrices(formula.model, frame, environment)
        except FormulaError:
            raise
        except Exception as error:  # a function that the user named may raise anything
            raise FormulaError(
                f"The formula {formula.text!r} does not work on this table: {_reason(error)}."
            ) from error
        terms = formula.model.common_terms
        for term in terms:
            _check_values(term, term.data)
        for term in formula.model.group_terms:
            _check_values(term.expr, _values(term.expr, len(frame)))
        by_name = {term.name: term for term in formula.model.group_terms}
        blocks = [tuple(by_name[name] for name in names) for names, _ in formula.blocks]
        levels, positions = zip(*(_levels(block[0], frame) for block in blocks), strict=True) if blocks else ((), ())
        return cls(
            common=tuple(t for t in terms if not isinstance(t, Intercept) and t.kind != "offset"),
            offsets=tuple(term for term in terms if term.kind == "offset"),
            has_intercept=any(isinstance(term, Intercept) for term in terms),
            groups=tuple(blocks),
            levels=levels,
            positions=positions,
            correlated=tuple(together for _, together in formula.blocks),
        )

    def terms(self) -> tuple[Term, ...]:
        """Return the common terms."""
        return tuple(_term(term, term.name) for term in self.common)

    def blocks(self) -> tuple[Block, ...]:
        """Return the group terms."""
        found = []
        for terms, levels, together in zip(self.groups, self.levels, self.correlated, strict=True):
            own = tuple(_term(term.expr, term.name) for term in terms)
            wide = sum(term.num_columns for term in own) > 1
            found.append(Block(terms[0].factor.name, own, len(levels), together and wide))
        return tuple(found)

    def empty(self, frame: Frame) -> dict[str, str]:
        """Return a remark for each interaction of levels that do not occur in all combinations."""
        found = {}
        for term in self.common:
            parts = [part for part in term.components if part.kind == "categoric"]
            names = sorted({str(name) for part in parts for name in part.var_names if name})
            if len(parts) < 2 or len(parts) != len(names):
                continue
            occurring = frame[names].drop_duplicates()
            missing = int(np.prod([frame[name].nunique() for name in names])) - len(occurring)
            if missing:
                found[term.name] = (
                    f"{counted(missing, 'combination')} of {' and '.join(map(repr, names))} "
                    f"{'has' if missing == 1 else 'have'} no rows: only the priors say what their effects in "
                    f"{term.name!r} are."
                )
        return found

    def fitted(self, num_rows: int) -> Arrays:
        """Return the arrays of the rows to fit."""
        return Arrays(
            X=_stacked([term.data for term in self.common], num_rows),
            offset=_summed([term.data for term in self.offsets], num_rows),
            groups=[
                (position, _stacked([_values(term.expr, num_rows) for term in terms], num_rows))
                for terms, position in zip(self.groups, self.positions, strict=True)
            ],
        )

    def arrays(self, frame: Frame) -> tuple[Arrays, tuple[str, ...]]:
        """Return the arrays of another table, and what there is to say; levels never seen come after the known ones."""
        num_rows, notes, groups = len(frame), [], []
        try:
            X = _stacked([_new_values(term, frame) for term in self.common], num_rows)
            offset = _summed([_new_values(term, frame) for term in self.offsets], num_rows)
            for terms, levels in zip(self.groups, self.levels, strict=True):
                index, new = _positions(terms[0], levels, frame)
                Z = [_new_values(term.expr, frame) for term in terms]
                groups.append((index, _stacked(Z, num_rows)))
                if new:
                    some = ", ".join(map(repr, new[:4])) + (", ..." if len(new) > 4 else "")
                    notes.append(
                        f"{terms[0].factor.name!r} has {len(new)} level{'s' if len(new) > 1 else ''} that the fit has "
                        f"not seen ({some}): their effects are drawn from the distribution of the groups."
                    )
        except FormulaError:
            raise
        except Exception as error:  # as above
            raise FormulaError(f"The terms of the formula do not work on this table: {_reason(error)}.") from error
        return Arrays(X, offset, groups), tuple(notes)


def collinear(X: np.ndarray, names: list[str], *, centered: bool = True) -> tuple[str, ...]:
    """Return remarks where columns do not vary, or are linear combinations of others, with the names that take part.

    `centered` says that there is an intercept too.
    """
    scaled = X - X.mean(axis=0) if centered else X
    sds = np.sqrt(np.mean(scaled**2, axis=0))
    varies = sds > 10 * np.finfo(float).eps * np.max(np.abs(X), axis=0, initial=0.0)
    notes = tuple(
        f"{name!r} is the same in every row: the data say nothing about its effect, only the prior does."
        for name in dict.fromkeys(name for name, own in zip(names, varies, strict=True) if not own)
    )
    names = [name for name, own in zip(names, varies, strict=True) if own]
    scaled = scaled[:, varies] / sds[varies]
    if not names:
        return notes
    _, values, directions = np.linalg.svd(scaled, full_matrices=False)
    missing = directions[values <= _COLLINEAR * max(values[0], 1.0)]
    if not len(missing) and scaled.shape[1] <= len(X):
        return notes
    involved = (
        dict.fromkeys(
            name for name, weight in zip(names, np.max(np.abs(missing), axis=0), strict=True) if weight > 0.05
        )
        if len(missing)
        else names
    )
    return (
        *notes,
        f"The columns of {', '.join(map(repr, list(involved)[:6]))} are linear combinations of each other: the data "
        "cannot tell their effects apart, only the priors can.",
    )


def far(X: np.ndarray, names: list[str]) -> tuple[str, ...]:
    """Return a remark where columns are so far from zero that single precision loses what varies in them."""
    found = [
        name for name, mean, sd in zip(names, X.mean(axis=0), X.std(axis=0), strict=True) if 0 < _FAR * sd < abs(mean)
    ]
    if not found:
        return ()
    return (
        f"{', '.join(map(repr, dict.fromkeys(found)))} varies little around a number far from zero, so single "
        "precision makes predictions coarse; subtract that number first.",
    )


def names_of_columns(terms: tuple[Term, ...]) -> list[str]:
    """Return the term of every column."""
    return [term.name for term in terms for _ in range(term.num_columns)]


def warn(notes: tuple[str, ...]) -> None:
    """Say what there is to say, once, to whoever called."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)


def _term(term, name) -> Term:
    if term.kind == "intercept":
        return Term(name, 1, False)
    return Term(name, len(term.labels), term.kind == "categoric" or len(term.labels) > 1 or bool(term.levels))


def column_names(term: Any) -> list[str]:
    """Return the names of a term's columns: levels where it has them."""
    return [str(level) for level in (term.levels or range(len(term.labels)))]


def _levels(term, frame) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the levels that occur, in the order of formulae, and the position of that of every row to fit."""
    names, codes = _level_names(term, frame)
    order = dict(sorted(zip(codes, names, strict=True)))
    if len(order) < 2:
        raise FormulaError(
            f"The group {term.factor.name!r} has one level only, {names[0]!r}, so there is nothing that varies between "
            "levels; leave the term out."
        )
    position = {code: i for i, code in enumerate(order)}
    return tuple(order.values()), np.array([position[code] for code in codes])


def _positions(term, levels, frame) -> tuple[np.ndarray, list[str]]:
    """Return the position of the level of every row, and the names of those that are new, which come last."""
    names, _ = _level_names(term, frame)
    known = set(levels)
    new = [name for name in dict.fromkeys(names) if name not in known]
    position = {name: i for i, name in enumerate([*levels, *new])}
    return np.array([position[name] for name in names], int), new


def _level_names(term, frame) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the name of the level of every row, and formulae's numbers of its components."""
    import pandas

    columns, codes = [], []
    for component in term.factor.components:
        values = component.call.eval(frame, component.env) if hasattr(component, "call") else frame[component.name]
        values = pandas.Series(getattr(values, "data", values) if hasattr(values, "contrast") else values)
        columns.append([str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values.tolist()])
        number = {level: i for i, level in enumerate(component.levels)}
        codes.append([number.get(value, -1) for value in values.tolist()])
    return [":".join(parts) for parts in zip(*columns, strict=True)], list(zip(*codes, strict=True))


def _values(term, num_rows):
    return np.ones(num_rows) if term.kind == "intercept" else term.data


def _new_values(term, frame):
    if term.kind == "intercept":
        return np.ones(len(frame))
    values = term.eval_new_data(frame)
    _check_values(term, values)
    return values


def _check_values(term, values):
    """Refuse text with a single value, and functions that gave no finite numbers."""
    values = np.asarray(values, float)
    if not values[:1].size:
        raise FormulaError(f"{term.name!r} has one value only, so there is nothing to compare; leave the term out.")
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(bad):
        raise FormulaError(
            f"{term.name!r} is not a finite number in {len(bad):,} of {len(values):,} rows; leave these rows out, or "
            "change the term."
        )


def _stacked(parts, num_rows) -> np.ndarray:
    columns = [np.asarray(part, float).reshape(num_rows, -1) for part in parts]
    return np.concatenate(columns, axis=1) if columns else np.zeros((num_rows, 0))


def _summed(parts, num_rows) -> np.ndarray:
    return _stacked(parts, num_rows).sum(axis=1)


def _reason(error) -> str:
    if isinstance(error, KeyError):  # columns are looked up before
        return f"there is no function {error}"
    text = f"{error}".strip().removesuffix(".")
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
