"""What a response may be: distributions of y given their parameters, for formulas and all other models."""

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
from steinflow.models.families.names import FAMILIES
from steinflow.models.families.positive import Beta, Exponential, Gamma, LogNormal, Weibull
from steinflow.models.families.real import Gaussian, StudentT

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cumulative",
    "Exponential",
    "Family",
    "Gamma",
    "Gaussian",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "LogNormal",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
]
