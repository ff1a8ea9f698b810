"""The left side of a formula: `y`, `y[level]`, `p(successes, trials)`, `censored(time, status)` and `Surv`."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from steinflow.models.families import Categorical, Cumulative, Family
from steinflow.models.families.base import values_of
from steinflow.models.formulas.syntax import FormulaError, as_formula_error, columns_of
from steinflow.models.formulas.tables import Frame

_WITH_SPREAD = ("gaussian", "t", "gamma", "lognormal", "weibull", "beta")  # which may become zero
_STATUS = {"none": 0, "right": 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1, "False": 0, "True": 1}


@dataclasses.dataclass(frozen=True)
class Censored:
    """Times, and whether each is only a lower bound."""

    values: np.ndarray
    is_bound: np.ndarray


@dataclasses.dataclass(frozen=True)
class Successes:
    """How many of several trials succeeded."""

    values: np.ndarray
    trials: np.ndarray


@dataclasses.dataclass(frozen=True)
class Response:
    """The response of every row, as numbers.

    Attributes:
        name: as in the formula.
        y: numbers; levels are numbered, and of another table NaN is one that the fit has not seen.
        levels: names of the classes, where there are any.
        trials: of a binomial response.
        is_bound: whether the value is only a lower bound.
        is_sorted_text: whether the levels have no order but that of the alphabet.
    """

    name: str
    y: np.ndarray
    levels: tuple[str, ...] | None = None
    trials: np.ndarray | None = None
    is_bound: np.ndarray | None = None
    is_sorted_text: bool = False

    def selected(self, rows: np.ndarray) -> "Response":
        """Return the response of some of the rows."""
        trials, is_bound = (None if part is None else part[rows] for part in (self.trials, self.is_bound))
        return dataclasses.replace(self, y=self.y[rows], trials=trials, is_bound=is_bound)


def censored(values, status) -> Censored:
    """`censored(time, status)`: status is "right" or 1 where the value is a lower bound, otherwise "none" or 0."""
    texts = np.asarray(status).astype(str).tolist()
    unknown = sorted(set(texts) - set(_STATUS))
    if unknown:
        raise FormulaError(
            f"The status in censored(time, status) must be 'none' or 0, or 'right' or 1; got {_some(unknown)}. A "
            f"comparison gives that: censored(time, status == {unknown[0]!r})."
        )
    return Censored(np.asarray(values, float), np.array([_STATUS[text] for text in texts], bool))


def survived(time, event) -> Censored:
    """`Surv(time, event)`: event is 1 where it happened at that time, 0 where it had not happened until then."""
    event = np.asarray(event)
    found = np.unique(event).tolist() if event.dtype.kind in "biuf" else sorted(set(map(str, event)))
    if not set(found) <= {0, 1}:
        raise FormulaError(
            f"The event in Surv(time, event) must be 1 where it happened and 0 where it did not; got {_some(found)}. A "
            f"comparison gives that: Surv(time, event == {found[-1]!r})."
        )
    return Censored(np.asarray(time, float), event.astype(float) == 0)


def successes(values, trials) -> Successes:
    """`p(successes, trials)`: whole numbers; trials may be a single one."""
    y, trials = np.broadcast_arrays(np.asarray(values, float), np.asarray(trials, float))
    wrong = (y < 0) | (y > trials) | (y != np.round(y)) | (trials < 1) | (trials != np.round(trials))
    if np.any(wrong):
        raise FormulaError(
            "In p(successes, trials), successes must be whole numbers between 0 and the number of trials, and trials 1 "
            f"or more; {np.sum(wrong):,} of {len(y):,} rows have others, such as {y[wrong][0]:g} of "
            f"{trials[wrong][0]:g}."
        )
    return Successes(y, trials)


def evaluate(term: Any, frame: Frame, environment: Any, levels: tuple[str, ...] | None = None) -> Response:
    """Return the response of the rows of a table, with the levels of the rows to fit if it is another table."""
    component = term.term.components[0]
    if hasattr(component, "call"):
        try:
            values = component.call.eval(frame, environment)
        except FormulaError:
            raise
        except KeyError as error:  # columns are looked up before
            raise FormulaError(f"In the response {component.name!r} there is no function {error}.") from error
        except Exception as error:
            reason = f"{error}".removesuffix(".")
            raise FormulaError(f"The response {component.name!r} does not work on this table: {reason}.") from error
    else:
        values = frame[component.name]
        if component.reference is not None:
            hits = np.array([label == str(component.reference) for label in _labels(values)], float)
            if not hits.any() and levels is None:
                found = ", ".join(map(repr, sorted(set(_labels(values)))[:8]))
                raise FormulaError(f"{component.name!r} has no value {component.reference!r}; it has {found}.")
            return Response(component.name, hits, ("other", str(component.reference)))
    match values:
        case Censored():
            return Response(component.name, values.values, is_bound=values.is_bound)
        case Successes():
            return Response(component.name, values.values, trials=values.trials)
    return _plain(component.name, values, levels)


def response_columns(term: Any) -> set[str]:
    """Return the columns that the response needs."""
    return columns_of(term)


def trial_columns(term: Any) -> set[str]:
    """Return the columns that say of how many trials; predictions need them."""
    return set(_names(_trials(term)))


def evaluate_trials(term: Any, frame: Frame, environment: Any) -> np.ndarray | None:
    """Return the number of trials of every row; None where the response has none."""
    trials = _trials(term)
    if trials is None:
        return None
    return np.broadcast_to(np.asarray(trials.eval(frame, environment), float), len(frame))


def _trials(term):
    call = getattr(term.term.components[0], "call", None)
    return call.args[1] if call is not None and call.callee in ("p", "prop", "proportion") else None


def _names(expression) -> Iterator[str]:
    """Yield the columns in an argument of formulae: a name, a literal, or an operation on these."""
    for argument in getattr(expression, "args", ()):
        yield from _names(argument)
    if type(expression).__name__ == "LazyVariable":
        yield str(expression.name)


def _plain(name, values, levels) -> Response:
    import pandas

    values = pandas.Series(np.asarray(values)) if not isinstance(values, pandas.Series) else values
    is_number = pandas.api.types.is_numeric_dtype(values)
    if is_number and levels is None:
        y = values.to_numpy(float)
        if not np.isfinite(y).all():
            raise FormulaError(
                f"The response {name!r} is not a finite number in {np.sum(~np.isfinite(y)):,} of {len(y):,} rows; "
                "leave these rows out, or change the function."
            )
        return Response(name, y)
    if values.dtype.kind in "Mm":
        raise FormulaError(f"The response {name!r} holds dates or times; turn it into numbers first.")
    ordered = hasattr(values, "cat") and values.cat.ordered
    if levels is None:
        used = values.cat.remove_unused_categories().cat.categories if hasattr(values, "cat") else values.unique()
        levels = tuple(map(str, used if ordered else sorted(used)))
    position = {level: i for i, level in enumerate(levels)}
    y = np.array([position.get(label, np.nan) for label in _labels(values)], float)
    return Response(name, y, levels, is_sorted_text=not (ordered or is_number))


def _labels(values) -> list[str]:
    """Return the name of the class of every row."""
    if values.dtype.kind in "iuf":
        return list(map(_label, values.to_numpy(float)))
    return values.astype(str).tolist()


def _label(number) -> str:
    """Return the name of a class that is a number, the same for 1 and 1.0."""
    return f"{number:.15g}"


def remarks(response: Response, family: Family) -> tuple[str, ...]:
    """Return what there is to say about the response of the rows to fit."""
    name, y, notes = response.name, response.y, []
    if family.ordered and response.is_sorted_text:
        levels = " < ".join(map(repr, response.levels or ()))
        notes.append(
            f"The classes of {name!r} are text, so their order is that of the alphabet: {levels}. For another, number "
            "them, or make the column an ordered category."
        )
    if response.is_bound is not None and response.is_bound.all():
        notes.append("No event was observed: only the priors say how long it takes. Are the codes the other way round?")
    elif len(y) and np.ptp(y if response.trials is None else y / response.trials) == 0:
        notes.append(f"All values of the response {name!r} are the same: only the priors bound the effects.")
    return tuple(notes)


def for_family(response: Response, kind: type[Family]) -> tuple[Family, Response]:
    """Return the family for this response, and the response as the family wants it.

    Raises:
        FormulaError: if the two do not go together.
    """
    name, y = response.name, response.y
    if kind.name == "binomial" and response.trials is None:
        raise FormulaError(
            "The family 'binomial' is for successes of several trials, 'p(successes, trials) ~ ...'; for a response of "
            f"two values take family='bernoulli'. Got the response {name!r}."
        )
    if response.trials is not None and kind.name != "binomial":
        raise FormulaError(
            f"Successes of several trials, {name!r}, need family='binomial'; got the family {kind.name!r}."
        )
    if response.is_bound is not None and not kind.censored:
        raise FormulaError(
            f"The family {kind.name!r} does not allow censored values; use weibull, exponential, lognormal or gaussian."
        )
    if issubclass(kind, Categorical | Cumulative):
        levels = response.levels
        if levels is None:
            found = np.unique(y)
            levels = tuple(map(_label, found))
            response = dataclasses.replace(response, y=np.searchsorted(found, y).astype(float), levels=levels)
        if len(levels) < 3:
            raise FormulaError(
                f"The family {kind.name!r} needs three classes or more; {name!r} has {_some(levels)}."
                + (" For two classes use family='bernoulli'." if len(levels) == 2 else "")
            )
        if len(levels) > max(3, len(y) // 2):
            raise FormulaError(
                f"{name!r} has {len(levels)} different values in {len(y)} rows, too many for classes; for numbers take "
                "another family."
            )
        return kind(len(levels)), response
    if kind.name == "bernoulli" and response.levels is not None and len(response.levels) != 2:
        raise FormulaError(
            f"The family 'bernoulli' needs a response of two values; {name!r} has {_some(response.levels)}."
            + (" For more classes take family='categorical'." if len(response.levels) > 2 else "")
        )
    if response.levels is not None and kind.name != "bernoulli":
        raise FormulaError(
            f"The family {kind.name!r} needs numbers; {name!r} holds text such as {response.levels[0]!r}. For two "
            "classes take family='bernoulli', for more 'categorical' or 'cumulative'."
        )
    if kind.name in _WITH_SPREAD and np.ptp(y) == 0:
        raise FormulaError(f"The response {name!r} is {y[0]:g} in every row, so there is nothing to predict.")
    if kind.name == "bernoulli":
        _check_two_values(y, name)
    family: Family = kind()
    with as_formula_error():
        return family, dataclasses.replace(response, y=family.check(y, name))


def _check_two_values(y, name):
    """Refuse numbers other than 0 and 1: which of two others is the success is for the user to say."""
    found = np.unique(y)
    if set(found) <= {0, 1}:
        return
    remedy = (
        f"write {name}['{found[1]:.15g}'] ~ ... if that value is the success"
        if len(found) == 2
        else "for more classes take family='categorical', for several trials family='binomial' and p(successes, trials)"
    )
    raise FormulaError(f"The family 'bernoulli' needs 0 and 1, or two texts; {name!r} has {values_of(y)}: {remedy}.")


def _some(values) -> str:
    """Return some values in words."""
    return ", ".join(map(repr, values[:6])) + (", ..." if len(values) > 6 else "")
