"""steinflow: from a log density to a posterior, by Stein variational gradient descent."""

from steinflow import models, plots
from steinflow.bandwidths import Fixed, Median
from steinflow.diagnostics import dispersion, goodness_of_fit, ksd
from steinflow.fit import fit
from steinflow.kernels import IMQ, RBF, Kernel, Linear, Radial
from steinflow.methods.base import Method
from steinflow.methods.svgd import SVGD
from steinflow.metrics import Euclidean
from steinflow.optimizers import adagrad, adagrad_with_momentum
from steinflow.result import Outcome, Result, load
from steinflow.stein import stein_direction
from steinflow.stopping import Converged
from steinflow.targets import Density, Posterior, Target

__version__ = "0.1.0"


def __getattr__(name):
    if name == "constraints":  # NumPyro takes a moment to import
        from numpyro.distributions import constraints

        return constraints
    raise AttributeError(f"module 'steinflow' has no attribute {name!r}")


__all__ = [
    "IMQ",
    "RBF",
    "SVGD",
    "Converged",
    "Density",
    "Euclidean",
    "Fixed",
    "Kernel",
    "Linear",
    "Median",
    "Method",
    "Outcome",
    "Posterior",
    "Radial",
    "Result",
    "Target",
    "adagrad",
    "adagrad_with_momentum",
    "constraints",
    "dispersion",
    "fit",
    "goodness_of_fit",
    "ksd",
    "load",
    "models",
    "plots",
    "stein_direction",
]
