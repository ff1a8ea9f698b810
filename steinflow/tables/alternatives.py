"""Which other model to try where one does not fit: as options that can be typed, and that the table allows.

What is advised depends on the family and on the form of the model: one by `--formula`, one by `--target`, or a network.
In a formula that would be long, `...` stands for the predictors so far.
"""

import dataclasses
import re
import shlex
from typing import Literal

from steinflow.models.cells import MAX_CATEGORIES
from steinflow.models.columns import in_formula, shown
from steinflow.models.families import FAMILIES
from steinflow.tables.remedies import formula_option

Form = Literal["formula", "target", "network"]
Misfit = Literal["wider", "narrower", "lower", "positive", "more zeros", "fewer zeros", "counts", "events"]
_LONGEST = 90  # characters of a formula that is written out
FEW_LEVELS = 5  # get a coefficient each; the effects of more are drawn from a distribution
_FEW_VALUES = 8  # are too few for a curve
_COUNTS = {name for name in FAMILIES if name.endswith(("poisson", "negbinomial"))}
_POSITIVE = {"gamma", "lognormal", "weibull", "exponential"}
_REAL = {"gaussian", "t"}
_NOISE = ("sigma", "alpha", "kappa")  # parameters that say how far a response varies around its mean
_WORDS = {
    "gaussian": "tails that are not heavy",
    "t": "heavier tails",
    "lognormal": "positive numbers with a long tail",
    "gamma": "positive numbers with a shorter tail",
    "weibull": "positive numbers whose spread is free",
    "poisson": "counts",
    "negbinomial": "counts that vary more than Poisson counts",
    "zero_inflated_poisson": "zeros with a separate cause",
    "zero_inflated_negbinomial": "zeros with a separate cause, and counts that vary more than Poisson counts",
    "hurdle_poisson": "zeros apart from the counts above zero",
    "hurdle_negbinomial": "zeros apart from the counts above zero, which vary more than Poisson counts",
}
# What is wrong with the draws of a family, and which families do not have that fault.
_FAMILIES: dict[Misfit, dict[str, tuple[str, ...]]] = {
    "wider": {
        "gaussian": ("t", "lognormal"),
        "poisson": ("negbinomial",),
        "zero_inflated_poisson": ("zero_inflated_negbinomial",),
        "hurdle_poisson": ("hurdle_negbinomial",),
        "exponential": ("weibull", "lognormal"),
        "gamma": ("lognormal",),
        "weibull": ("lognormal",),
    },
    "narrower": {
        "t": ("gaussian",),
        "negbinomial": ("hurdle_negbinomial",),
        "zero_inflated_negbinomial": ("hurdle_negbinomial",),
        "exponential": ("weibull", "gamma"),
        "lognormal": ("gamma",),
    },
    "lower": {"gaussian": ("t",)},
    "positive": {"gaussian": ("lognormal", "gamma"), "t": ("lognormal", "gamma"), "gamma": ("lognormal",)},
    "more zeros": {
        "poisson": ("negbinomial", "zero_inflated_poisson"),
        "negbinomial": ("zero_inflated_negbinomial", "hurdle_negbinomial"),
        "zero_inflated_poisson": ("zero_inflated_negbinomial",),
    },
    "fewer zeros": {
        "poisson": ("hurdle_poisson",),
        "zero_inflated_poisson": ("hurdle_poisson",),
        "negbinomial": ("hurdle_negbinomial",),
        "zero_inflated_negbinomial": ("hurdle_negbinomial",),
    },
    "counts": {"gaussian": ("poisson", "negbinomial"), "t": ("poisson", "negbinomial")},
    "events": {
        "exponential": ("weibull", "lognormal"),
        "weibull": ("lognormal",),
        "lognormal": ("weibull",),
        "gaussian": ("lognormal", "weibull"),
    },
}


@dataclasses.dataclass(frozen=True)
class Model:
    """What advice depends on.

    Attributes:
        form: whether the model is a formula, made from a target column, or a network.
        family: of the response.
        formulas: of the model; of a target column, the one that says the same.
        lowest: the smallest response.
        are_whole: whether all responses are whole numbers.
        amounts: the columns that are used as numbers.
        link, priors: what was asked for.
        hidden: units of the layers of a network.
    """

    form: Form
    family: str
    formulas: tuple[str, ...]
    lowest: float
    are_whole: bool
    amounts: frozenset[str] = frozenset()
    link: str | None = None
    priors: frozenset[str] = frozenset()
    hidden: tuple[int, ...] = ()

    @property
    def looks_like_counts(self) -> bool:
        """Whether a model of real numbers has responses that count something."""
        return self.family in _REAL and self.are_whole and 0 <= self.lowest <= 1

    def families(self, misfit: Misfit) -> tuple[str, ...]:
        """Return families without this fault that the response allows."""
        if self.form == "network":
            return ("counts: --model poisson",) if self.looks_like_counts else ()
        found = [name for name in _FAMILIES[misfit].get(self.family, ()) if self._allows(name)]
        found = tuple(f"{_WORDS[name]}: {self._with_family(name)}" for name in found)
        if misfit == "positive" and not found and self.family in _REAL and self.lowest >= 0:
            response, predictors = self.formulas[0].split("~", 1)
            logarithm = dataclasses.replace(self, formulas=(f"log1p({response.strip()}) ~{predictors}",))
            return (f"the logarithm of 1 and the response: {logarithm._option()}",)
        return found

    def noise(self, column: str, num_levels: int | None) -> tuple[str, ...]:
        """Return noise that depends on a column; `num_levels` is None for an amount."""
        name = next((name for name in _NOISE if name in FAMILIES[self.family].auxiliary), None)
        known = [text.split("~")[0].strip() for text in self.formulas[1:]]
        if self.form == "network" or name is None or name in known or name in self.priors:
            return ()
        own = f"{name} ~ {_term(column, num_levels, is_number=column in self.amounts)}"
        main = "" if self.form == "formula" else f"{self._option()} "
        return (f"noise that depends on '{shown(column, 40)}': {main}{formula_option(own)}",)

    def curve(self, column: str | None, num_values: int = 0) -> tuple[str, ...]:
        """Return a mean that is no straight line in a column; None where the column is not known."""
        if self.form == "network":
            return self._units()
        found = ()
        if column is not None and num_values >= _FEW_VALUES:
            bent = self._option(f"bs({in_formula(column)}, df=5)", instead_of=column)
            found = (f"a curve in '{shown(column, 40)}': {bent}",)
        return (*found, *(["a network: --model network"] if self.form == "target" else []))

    def predictor(self, column: str, num_levels: int | None, *, is_number: bool) -> tuple[str, ...]:
        """Return a model with a column that it does not have; `num_levels` is None for an amount."""
        quoted = f"'{shown(column, 40)}'"
        most = MAX_CATEGORIES if self.form == "network" else FEW_LEVELS
        if self.form != "formula" and (num_levels is None or num_levels <= most):
            return (f"{quoted} as a predictor: leave out --drop {shlex.quote(shown(column))}",)
        if self.form == "network":
            return ()
        more = _term(column, num_levels, is_number=is_number)
        what = f"an effect for each value of {quoted}" if "|" in more else f"{quoted} as a predictor"
        return (f"{what}: {self._option(more)}",)

    def codes(self, column: str, num_levels: int) -> tuple[str, ...]:
        """Return a model in which the numbers of a column, which it uses, are names; of text, one with more freedom."""
        if column not in self.amounts:
            return self._units() if self.form == "network" else ()
        what = f"an effect for each value of '{shown(column, 40)}'"
        found = () if self.form == "formula" else (f"{what}: --categorical {shlex.quote(shown(column))}",)
        if self.form == "network" or (found and num_levels <= FEW_LEVELS):
            return found
        return (*found, f"{what}: {self._option(_term(column, num_levels, is_number=True), instead_of=column)}")

    def _units(self):
        return (f"more units: --hidden {','.join(str(2 * units) for units in self.hidden)}",)

    def _allows(self, family) -> bool:
        kind, counts = FAMILIES[family], self.are_whole and self.lowest >= 0
        if (family in _COUNTS and not counts) or (family in _POSITIVE and self.lowest <= 0):
            return False
        needed = {text.split("~")[0].strip() for text in self.formulas[1:]}
        needed |= self.priors & set(FAMILIES[self.family].auxiliary)
        return (self.link is None or self.link in kind.links) and needed <= set(kind.auxiliary)

    def _with_family(self, family):
        if self.form == "formula":
            return f"--family {family}"
        return "--model poisson" if family == "poisson" else self._option(family=family)

    def _option(self, more: str | None = None, *, instead_of: str | None = None, family: str | None = None) -> str:
        """Return the formula with one more term; of a target column with the family, which was never given."""
        response, predictors = (part.strip() for part in self.formulas[0].split("~", 1))
        old = None if instead_of is None else in_formula(instead_of)
        terms = [*(term for term in _terms(predictors) if term != old), *([] if more is None else [more])]
        if old is not None and more is not None and len(terms) > len(_terms(predictors)) and "(" not in predictors:
            terms = [re.sub(rf"(?<![\w.`]){re.escape(old)}(?![\w.`])", lambda _: more, predictors)]  # it interacts
        text = f"{response} ~ {' + '.join(terms)}"
        if len(text) > _LONGEST:
            text = f"{response} ~ {' + '.join(['...', *([] if more is None else [more])])}"
        family = family or self.family
        return formula_option(text) + ("" if self.form == "formula" or family == "gaussian" else f" --family {family}")


def _term(column, num_levels, *, is_number):
    """Return a column as a term: an amount, a coefficient for each of few levels, or effects of a group."""
    name = in_formula(column)
    if num_levels is None or num_levels <= 2 or (num_levels <= FEW_LEVELS and not is_number):
        return name
    return f"C({name})" if num_levels <= FEW_LEVELS else f"(1 | {name})"


def _terms(predictors) -> list[str]:
    """Return what stands between the plus signs outside of all brackets."""
    terms, depth, quoted = [""], 0, False
    for character in predictors:
        quoted ^= character == "`"
        depth += not quoted and (character in "([{") - (character in ")]}")
        if character == "+" and depth == 0 and not quoted:
            terms.append("")
        else:
            terms[-1] += character
    return [term.strip() for term in terms]
