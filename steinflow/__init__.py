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
from steinflow.methods.svgd.exploration import Barker, NoExploration
from steinflow.methods.svgd.method import SVGD
from steinflow.methods.svgd.metrics import Cloud, Euclidean
from steinflow.methods.svgd.steps import Adaptive, DecayingAdam, adagrad
from steinflow.models.networks import from_network
from steinflow.results import plots
from steinflow.results.diagnostics import dispersion, goodness_of_fit, ksd
from steinflow.results.outcome import Outcome
from steinflow.results.refinement import Check
from steinflow.results.result import Result, load
from steinflow.results.verdict import Verdict
from steinflow.stein.approximations import RandomFeatures, Subsample
from steinflow.stein.bandwidths import Fixed, Median, Wide
from steinflow.stein.direction import stein_direction
from steinflow.stein.kernels import IMQ, RBF, Centered, Kernel, Linear, Multiquadric, Radial
from steinflow.targets.base import Density, Target
from steinflow.targets.flat import flatten
from steinflow.targets.posterior import Posterior
from steinflow.targets.pymc import from_pymc
from steinflow.targets.score import from_score
from steinflow.targets.streams import Mapped, Stream

__version__ = "0.1.0"


def __getattr__(name):
    if name == "constraints":  # NumPyro takes a moment to import
        from numpyro.distributions import constraints

        return constraints
    if name == "from_numpyro":
        from steinflow.targets.numpyro import from_numpyro

        return from_numpyro
    # Not in __all__: import * works without scikit-learn.
    if name in ("SteinClassifier", "SteinPoissonRegressor", "SteinRegressor"):
        from steinflow import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'steinflow' has no attribute {name!r}")


__all__ = [
    "DSVI",
    "IMQ",
    "MAP",
    "NPV",
    "NUTS",
    "PBP",
    "PMD",
    "RBF",
    "SGLD",
    "SVGD",
    "Adaptive",
    "Annealed",
    "Barker",
    "Centered",
    "Check",
    "Checkpoint",
    "Cloud",
    "Converged",
    "DecayingAdam",
    "Density",
    "Draws",
    "Euclidean",
    "Fixed",
    "Kernel",
    "Linear",
    "Mapped",
    "Median",
    "Method",
    "MonteCarlo",
    "Multiquadric",
    "NoExploration",
    "Outcome",
    "ParallelSGLD",
    "Posterior",
    "Radial",
    "RandomFeatures",
    "Result",
    "Stream",
    "Subsample",
    "Target",
    "Time",
    "Verdict",
    "Wide",
    "adagrad",
    "constraints",
    "dispersion",
    "fit",
    "flatten",
    "from_network",
    "from_numpyro",
    "from_pymc",
    "from_score",
    "goodness_of_fit",
    "ksd",
    "load",
    "mesh",
    "models",
    "plots",
    "stein_direction",
    "svgd",
]
