r"""Priors where nothing was said: weakly informative and scaled to the data.

With s the sd of the response where mu is on its scale (Gaussian and t, the logarithm for the log-normal), otherwise 1:

| parameter | prior |
|---|---|
| intercept, at the means of the predictors | Normal(link of the mean response, 2.5 s) |
| slope of x | Normal(0, 2.5 s / sd(x)) |
| sd of a group's intercepts, and of its slopes of x | HalfNormal(2.5 s), HalfNormal(2.5 s / sd(x)) |
| correlations of a group's effects | LKJ(1), which is uniform |
| sigma | Exponential(1 / s) |
| alpha, kappa | HalfCauchy(1) |
| nu | Gamma(2, 0.1) |
| zi, hu | Beta(1, 1) |
| thresholds of ordered classes | Normal(log-odds of the shares below, 2.5) |
| an auxiliary parameter that has a formula | on its link: Normal(its usual value, 1), slopes Normal(0, 1 / sd(x)) |

These are the scales of rstanarm and bambi; the centre of an intercept is that of brms.
"""

import numpy as np

from steinflow.models.families import Family, links
from steinflow.models.families.auxiliary import USUAL
from steinflow.models.formulas.design import Arrays
from steinflow.models.formulas.predictors import Predictor
from steinflow.models.formulas.priors import Prior, lkj
from steinflow.models.formulas.response import Response
from steinflow.models.supervised import shift_and_scale

_LOOSE = 2.5  # sds of the response, for one sd of the predictor


def usual_priors(
    family: Family,
    link: str,
    response: Response,
    predictors: dict[str, Predictor],
    arrays: dict[str, Arrays],
) -> dict[str, Prior]:
    """Return the usual prior of every parameter."""
    scale, found = family.scale_of(response.y), {}
    for name, predictor in predictors.items():
        if name == "mu":
            center = _center_of(family, link, response, arrays[name].offset)
            found |= _predictor_priors(predictor, arrays[name], center, _LOOSE * scale)
        else:
            found |= _predictor_priors(predictor, arrays[name], _auxiliary_center(family, name, scale), 1.0)
    found |= {name: _auxiliary_prior(name, scale) for name in family.auxiliary if name not in predictors}
    return found | ({"threshold": _threshold_prior(response.y, family.num_classes)} if family.ordered else {})


def _auxiliary_prior(name, scale):
    """Return the usual prior of an auxiliary parameter without a formula."""
    from numpyro import distributions as dist

    match name:
        case "sigma":
            return dist.Exponential(1 / scale)
        case "nu":
            return dist.Gamma(2.0, 0.1)
        case "zi" | "hu":
            return dist.Beta(1.0, 1.0)
    return dist.HalfCauchy(1.0)


def _center_of(family, link, response, offset):
    """Return the linear predictor at the mean of the response, without its usual offset."""
    rows = {} if response.trials is None else {"trials": response.trials}
    if family.num_outputs > 1:  # log-odds against the first class, which may be any
        return float(-np.mean(offset))
    return float(family.usual_predictor(link, response.y, rows) - np.mean(offset))


def _auxiliary_center(family, name, scale):
    """Return the usual value of an auxiliary parameter, on its link."""
    value = USUAL[name] * (scale if name == "sigma" else 1.0)
    return float(links.forward(family.auxiliary[name], value))


def _predictor_priors(predictor, arrays, center, loose):
    """Return the usual priors of a linear predictor."""
    from numpyro import distributions as dist

    _, sds = shift_and_scale(arrays.X)
    found, outputs = {}, predictor.outputs
    if predictor.has_intercept:
        found[predictor.named("Intercept")] = dist.Normal(np.full(outputs, center), np.full(outputs, loose))
    start = 0
    for term in predictor.terms:
        scale = _per_output(loose / sds[start : start + term.num_columns], term, outputs)
        found[predictor.named(term.name)] = dist.Normal(np.zeros(scale.shape), scale)
        start += term.num_columns
    for block, (_, Z) in zip(predictor.blocks, arrays.groups, strict=True):
        _, spread = shift_and_scale(Z)
        start = 0
        for term in block.terms:
            scale = _per_output(loose / spread[start : start + term.num_columns], term, outputs)
            found[predictor.named(f"{term.name}_sigma")] = dist.HalfNormal(scale)
            start += term.num_columns
        if block.correlated:
            found[predictor.named(block.correlations)] = lkj(block.width, np.ones(outputs))
    return found


def _per_output(scales, term, outputs):
    return np.broadcast_to(scales.reshape(term.shape + (1,) * len(outputs)), term.shape + outputs)


def _threshold_prior(y, num_classes):
    """Return the usual prior of the thresholds between ordered classes."""
    from numpyro import distributions as dist

    below = np.cumsum(np.bincount(y.astype(int), minlength=num_classes) + 0.5)[:-1] / (len(y) + 0.5 * num_classes)
    return dist.Normal(links.forward("logit", below), np.full(num_classes - 1, _LOOSE))
