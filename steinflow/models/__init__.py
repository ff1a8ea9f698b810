"""Ready posteriors for your own data, and those of the paper: `sf.models.LogisticRegression(X, y)` and friends."""

from steinflow.models.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from steinflow.models.gaussian_mixture import GaussianMixture
from steinflow.models.generalized_linear import (
    GeneralizedLinear,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.supervised import Supervised
from steinflow.models.uncertainty import Uncertainty, uncertainty
from steinflow.models.varying_noise import VaryingGaussian, VaryingStudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "Family",
    "Gaussian",
    "GaussianMixture",
    "GeneralizedLinear",
    "LinearRegression",
    "LogisticRegression",
    "NeuralNetwork",
    "Poisson",
    "PoissonRegression",
    "Supervised",
    "Uncertainty",
    "VaryingGaussian",
    "VaryingStudentT",
    "uncertainty",
]
