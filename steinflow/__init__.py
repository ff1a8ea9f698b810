"""steinflow: from a log density to a posterior, by Stein variational gradient descent."""

import importlib
from typing import TYPE_CHECKING, Any

from steinflow.devices.sharding import mesh
from steinflow.inference.calibration import calibrate
from steinflow.inference.checkpoints import Checkpoint
from steinflow.inference.cross_validation import cross_validate
from steinflow.inference.groups import fit_groups
from steinflow.inference.loop import fit
from steinflow.inference.many import fit_many
from steinflow.inference.stopping import Converged
from steinflow.methods import svgd
from steinflow.methods.base import Draws, Method, Time
from steinflow.methods.svgd.ensemble import Ensemble
from steinflow.methods.svgd.method import SVGD
from steinflow.results.diagnostics import dispersion, goodness_of_fit, ksd
from steinflow.results.many import Many
from steinflow.results.outcome import Outcome
from steinflow.results.result import Result, load
from steinflow.stein import kernels
from steinflow.stein.direction import stein_direction
from steinflow.targets import data
from steinflow.targets.base import Density, Target
from steinflow.targets.flat import flatten
from steinflow.targets.posterior import Posterior

if TYPE_CHECKING:
    from numpyro.distributions import constraints

    from steinflow import models
    from steinflow.estimators import SteinClassifier as SteinClassifier
    from steinflow.estimators import SteinPoissonRegressor as SteinPoissonRegressor
    from steinflow.estimators import SteinRegressor as SteinRegressor
    from steinflow.methods.annealed import Annealed
    from steinflow.methods.dsvi import DSVI
    from steinflow.methods.map import MAP
    from steinflow.methods.monte_carlo import MonteCarlo
    from steinflow.methods.npv import NPV
    from steinflow.methods.nuts import NUTS
    from steinflow.methods.pbp import PBP
    from steinflow.methods.pmd import PMD
    from steinflow.methods.sgld import SGLD, ParallelSGLD
    from steinflow.models.formulas import formula
    from steinflow.models.networks import from_network
    from steinflow.results import plots
    from steinflow.results.comparison import compare
    from steinflow.results.margins import contrasts, marginal_means
    from steinflow.targets.numpyro import from_numpyro
    from steinflow.targets.pymc import from_pymc
    from steinflow.targets.score import from_score
    from steinflow.targets.stan import from_stan

__version__ = "0.1.0"

# What a run of the default does without is imported when it is used first: each part takes a moment, some need extras.
# The estimators are not in __all__, so that import * works without scikit-learn.
_LATER = {
    "Annealed": "steinflow.methods.annealed",
    "DSVI": "steinflow.methods.dsvi",
    "MAP": "steinflow.methods.map",
    "MonteCarlo": "steinflow.methods.monte_carlo",
    "NPV": "steinflow.methods.npv",
    "NUTS": "steinflow.methods.nuts",
    "PBP": "steinflow.methods.pbp",
    "PMD": "steinflow.methods.pmd",
    "ParallelSGLD": "steinflow.methods.sgld",
    "SGLD": "steinflow.methods.sgld",
    "SteinClassifier": "steinflow.estimators",
    "SteinPoissonRegressor": "steinflow.estimators",
    "SteinRegressor": "steinflow.estimators",
    "compare": "steinflow.results.comparison",
    "constraints": "numpyro.distributions.constraints",
    "contrasts": "steinflow.results.margins",
    "formula": "steinflow.models.formulas",
    "from_network": "steinflow.models.networks",
    "from_numpyro": "steinflow.targets.numpyro",
    "from_pymc": "steinflow.targets.pymc",
    "from_score": "steinflow.targets.score",
    "from_stan": "steinflow.targets.stan",
    "marginal_means": "steinflow.results.margins",
    "models": "steinflow.models",
    "plots": "steinflow.results.plots",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'steinflow' has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


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
    "Ensemble",
    "Many",
    "Method",
    "MonteCarlo",
    "Outcome",
    "ParallelSGLD",
    "Posterior",
    "Result",
    "Target",
    "Time",
    "calibrate",
    "compare",
    "constraints",
    "contrasts",
    "cross_validate",
    "data",
    "dispersion",
    "fit",
    "fit_groups",
    "fit_many",
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
    "marginal_means",
    "mesh",
    "models",
    "plots",
    "stein_direction",
    "svgd",
]
