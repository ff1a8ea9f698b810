"""Families by name, and the names that they have elsewhere."""

from steinflow.models.columns import nearest
from steinflow.models.families.base import Family
from steinflow.models.families.classes import Bernoulli, Binomial, Categorical, Cumulative
from steinflow.models.families.counts import (
    HurdleNegativeBinomial,
    HurdlePoisson,
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from steinflow.models.families.positive import Beta, Exponential, Gamma, LogNormal, Weibull
from steinflow.models.families.real import Gaussian, StudentT

FAMILIES: dict[str, type[Family]] = {
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


def family_named(name: str) -> type[Family]:
    """Return a family.

    Raises:
        ValueError: if there is none of that name; it says which there are.
    """
    if name in FAMILIES:
        return FAMILIES[name]
    guess = _ELSEWHERE.get(str(name).casefold()) or nearest(str(name), FAMILIES)
    hint = f" Did you mean {guess!r}?" if guess else ""
    raise ValueError(f"There is no family {name!r}.{hint} There are {', '.join(FAMILIES)}.")


def link_of(link: str | None, family: Family) -> str:
    """Return the link of the mean: the usual one of the family if none was chosen.

    Raises:
        ValueError: if the family does not take it.
    """
    link = link or family.links[0]
    if link not in family.links:
        raise ValueError(f"The family {family.name!r} takes the links {', '.join(family.links)}; got {link!r}.")
    return link
