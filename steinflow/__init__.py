"""steinflow: from a log density to a posterior, by Stein variational gradient descent."""

from steinflow import models
from steinflow.devices.sharding import mesh
from steinflow.inference.checkpoints import Checkpoint
from steinflow.inference.loop import fit
from steinflow.inference.stopping import Converged
from steinflow.methods import svgd
from steinflow.methods.annealed import Annealed
from steinflow.methods.base import Draws, Method, Time
from steinflow.methods.dsvi import DSVI
from steinflow.methods.map import MAP
from steinflow.methods.monte_carlo import MonteCarlo
from steinflow.methods.npv import NPV
from steinflow.methods.nuts import NUTS
from steinflow.methods.pbp import PBP
from steinflow.methods.pmd import PMD
from steinflow.methods.sgld import SGLD, ParallelSGLD
from steinflow.methods.svgd.method import SVGD
from steinflow.models.formulas import formula
from steinflow.models.networks import from_network
from steinflow.results import plots
from steinflow.results.diagnostics import dispersion, goodness_of_fit, ksd
from steinflow.results.outcome import Outcome
from steinflow.results.result import Result, load
from steinflow.stein import kernels
from steinflow.stein.direction import stein_direction
from steinflow.targets import data
from steinflow.targets.base import Density, Target
from steinflow.targets.flat import flatten
from steinflow.targets.posterior import Posterior
from steinflow.targets.pymc import from_pymc
from steinflow.targets.score import from_score
from steinflow.targets.stan import from_stan

__version__ = "0.1.0"

_ESTIMATORS = ("SteinClassifier", "SteinPoissonRegressor", "SteinRegressor")


def __getattr__(name):
    if name == "constraints":  # NumPyro takes a moment to import
        from numpyro.distributions import constraints

        return constraints
    if name == "from_numpyro":
        from steinflow.targets.numpyro import from_numpyro

        return from_numpyro
    if name in _ESTIMATORS:  # not in __all__: import * works without scikit-learn
        from steinflow import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'steinflow' has no attribute {name!r}")


__all__ = [
    "DSVI",
    "MAP",
    "NPV",
    "NUTS",
    "PBP",
    "PMD",
    "SGLD",
    "SVGD",
    "Annealed",
    "Checkpoint",
    "Converged",
    "Density",
    "Draws",
    "Method",
    "MonteCarlo",
    "Outcome",
    "ParallelSGLD",
    "Posterior",
    "Result",
    "Target",
    "Time",
    "constraints",
    "data",
    "dispersion",
    "fit",
    "flatten",
    "formula",
    "from_network",
    "from_numpyro",
    "from_pymc",
    "from_score",
    "from_stan",
    "goodness_of_fit",
    "kernels",
    "ksd",
    "load",
    "mesh",
    "models",
    "plots",
    "stein_direction",
    "svgd",
]
