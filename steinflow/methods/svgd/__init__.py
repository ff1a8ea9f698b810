"""Stein variational gradient descent, of visible parts: kernel, metric, step rule, exploration, approximation."""

from steinflow.methods.svgd.exploration import Exploration, Microcanonical
from steinflow.methods.svgd.method import SVGD
from steinflow.methods.svgd.metrics import Cloud, Euclidean, Metric
from steinflow.methods.svgd.steps import Adaptive, DecayingAdam, StepRule, adagrad
from steinflow.stein.approximations import RandomFeatures, Subsample

__all__ = [
    "SVGD",
    "Adaptive",
    "Cloud",
    "DecayingAdam",
    "Euclidean",
    "Exploration",
    "Metric",
    "Microcanonical",
    "RandomFeatures",
    "StepRule",
    "Subsample",
    "adagrad",
]
