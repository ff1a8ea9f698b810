"""The cells of the columns that a formula uses: numbers that are written as text are refused, not taken for levels."""

from collections.abc import Collection, Iterable

from steinflow.models.cells import MAX_CATEGORIES, check_cells, is_number
from steinflow.models.columns import TableError, in_formula, listed
from steinflow.models.formulas.syntax import Formula, FormulaError
from steinflow.models.formulas.tables import Frame
from steinflow.models.remedies import InPython, Remedies


def check_predictors(
    formulas: Iterable[Formula], frame: Frame, remedies: Remedies | None = None, *, functions: Collection[str] = ()
) -> tuple[str, ...]:
    """Refuse dates and numbers that are written as text; return remarks about text of many different values.

    Groups, columns in C(...) and categories may be anything, and what the user's functions are given is theirs.

    Args:
        formulas: whose predictors are looked at.
        frame: the table.
        remedies: what to do about a column, in words of Python if not given.
        functions: the names of the user's functions.

    Raises:
        FormulaError: if cells cannot be used as they are.
    """
    found = (name for formula in formulas for name in _as_they_are(formula, {"C", *functions}))
    used = [name for name in dict.fromkeys(found) if name in frame.columns and not hasattr(frame[name], "cat")]
    for name in used:
        try:
            otherwise = f"leave it out; C({in_formula(name)}) makes each value a level"
            check_cells(name, frame[name], remedies or InPython(), otherwise)
        except TableError as error:
            raise FormulaError(str(error)) from None
    return tuple(note for name in used if not is_number(frame[name]) for note in _about_levels(name, frame[name]))


def _as_they_are(formula, free):
    """Yield the columns of all terms but those inside of functions that are free to read anything."""
    terms = [*formula.model.common_terms, *(term.expr for term in formula.model.group_terms)]
    for component in (part for term in terms for part in getattr(term, "components", ())):
        if getattr(getattr(component, "call", None), "callee", None) not in free:
            yield from sorted(map(str, filter(None, component.var_names)))


def _about_levels(name, values):
    count, group = values.nunique(), f"(1 | {in_formula(name)})"
    if count <= MAX_CATEGORIES:
        return ()
    if count > len(values) / 2:
        raise FormulaError(
            f"{name!r} holds text with {count:,} different values in {len(values):,} rows, such as "
            f"{listed(values.iloc[:2].tolist())}: too many for a coefficient each. Leave it out, or give the values "
            f"effects that are drawn from one distribution: {group}."
        )
    return (
        f"{name!r} holds text with {count:,} different values, and each has a coefficient of its own; with {group} "
        "their effects are drawn from one distribution.",
    )
