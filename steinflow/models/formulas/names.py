"""Families by name, and the names that they have elsewhere."""

from steinflow.models.formulas.classes import Bernoulli, Binomial, Categorical, Cumulative
from steinflow.models.formulas.counts import (
    HurdleNegativeBinomial,
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from steinflow.models.formulas.families import Gaussian, ResponseFamily, StudentT
from steinflow.models.formulas.positive import Beta, Exponential, Gamma, LogNormal, Weibull
from steinflow.models.formulas.syntax import FormulaError, nearest

FAMILIES: dict[str, type[ResponseFamily]] = {
    kind.name: kind
    for kind in (
        Gaussian,
        StudentT,
        Bernoulli,
        Binomial,
        Categorical,
        Cumulative,
        Poisson,
        NegativeBinomial,
        ZeroInflatedPoisson,
        ZeroInflatedNegativeBinomial,
        HurdlePoisson,
        HurdleNegativeBinomial,
        Gamma,
        LogNormal,
        Weibull,
        Exponential,
        Beta,
    )
}
_OTHER_NAMES = {
    "t": ("student", "student_t", "studentt"),
    "gaussian": ("normal", "linear", "ols", "lm"),
    "bernoulli": ("logistic", "logit", "binary", "probit"),
    "negbinomial": ("nbinom", "nb", "neg_binomial_2", "negative_binomial", "negativebinomial", "quasipoisson"),
    "zero_inflated_poisson": ("zip",),
    "zero_inflated_negbinomial": ("zinb", "zero_inflated_negative_binomial"),
    "hurdle_negbinomial": ("hurdle_negative_binomial",),
    "cumulative": ("ordinal", "ordered", "polr", "clm"),
    "categorical": ("multinomial", "softmax", "mnlogit"),
}
_ELSEWHERE = {other: name for name, others in _OTHER_NAMES.items() for other in others}


def family_named(name: str) -> type[ResponseFamily]:
    """Return a family, or say which there are."""
    if name in FAMILIES:
        return FAMILIES[name]
    guess = _ELSEWHERE.get(str(name).casefold()) or nearest(str(name), FAMILIES)
    hint = f" Did you mean {guess!r}?" if guess else ""
    raise FormulaError(f"There is no family {name!r}.{hint} There are {', '.join(FAMILIES)}.")


def link_of(link: str | None, family: ResponseFamily) -> str:
    """Return the link of the mean: the usual one of the family if none was chosen."""
    link = link or family.links[0]
    if link not in family.links:
        raise FormulaError(f"The family {family.name!r} takes the links {', '.join(family.links)}; got {link!r}.")
    return link
