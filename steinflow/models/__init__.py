"""Ready posteriors for your own data, and those of the paper: `sf.models.LogisticRegression(X, y)` and friends."""

from steinflow.models.families import (
    Bernoulli,
    Beta,
    Categorical,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    HurdleNegativeBinomial,
    HurdlePoisson,
    LogNormal,
    NegativeBinomial,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from steinflow.models.gaussian_mixture import GaussianMixture
from steinflow.models.generalized_linear import (
    GeneralizedLinear,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from steinflow.models.heads import Head, VaryingGaussian, VaryingStudentT
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.supervised import Supervised
from steinflow.models.uncertainty import Uncertainty, uncertainty

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "Exponential",
    "Family",
    "Gamma",
    "Gaussian",
    "GaussianMixture",
    "GeneralizedLinear",
    "Head",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "LinearRegression",
    "LogNormal",
    "LogisticRegression",
    "NegativeBinomial",
    "NeuralNetwork",
    "Poisson",
    "PoissonRegression",
    "StudentT",
    "Supervised",
    "Uncertainty",
    "VaryingGaussian",
    "VaryingStudentT",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "uncertainty",
]
