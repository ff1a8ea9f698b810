"""A model in words: what the response is distributed as, what its mean is made of, and the priors."""

import inspect

from steinflow.estimators.base import INTERCEPT_SD
from steinflow.estimators.features import Category
from steinflow.models.columns import counted
from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.models.neural_network import USUAL_SCALE
from steinflow.tables.effects import about_effects
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.report import formulas
from steinflow.tables.runs import Run

_DEFAULTS = {name: each.default for name, each in inspect.signature(GeneralizedLinear).parameters.items()}
_SCALED = "Priors, where features (and numbers to predict) are divided by their sds"


def model_in_words(run: Run) -> list[str]:
    """Return the model of a run as sentences."""
    if isinstance(run.estimator, FormulaFit):
        return formulas.in_words(run.estimator)
    return _of_network(run) if run.problem.hidden else _of_linear(run)


def _of_linear(run):
    response, features = run.regression[0].response, run.regression[0].features
    name = f"'{response.name}'"
    total = f"the sum of an intercept and of effects of {counted(len(features.labels), 'feature')}"
    lines = {
        "numbers": f"{name} is normal around its mean, with the same sd in all rows. The mean is {total}.",
        "counts": f"{name} follows a Poisson distribution. The logarithm of its mean is {total}.",
        "classes": f"{about_effects(run)} {'are' if len(response.labels) == 2 else 'is'} {total}.",
    }
    center = {"numbers": "0", "counts": "the logarithm of the mean", "classes": "what the shares of the classes say"}
    priors = (
        f"{_SCALED}: effects are Normal(0, s), with one s for all of them that is learned, "
        f"1/s² ~ Gamma({_DEFAULTS['shape']:g}, {_DEFAULTS['rate']:g}); "
        f"the intercept is Normal({center[response.kind]}, {INTERCEPT_SD:g})"
    )
    if response.kind == "numbers":
        priors += f"; the noise has 1/sd² ~ Gamma({_DEFAULTS['noise_shape']:g}, {_DEFAULTS['noise_rate']:g})"
    return [_capital(lines[response.kind]), *_about_features(features), f"{priors}."]


def _of_network(run):
    problem, method = run.regression[0], run.settings["method"]
    response, layers = problem.response, " and ".join(counted(units, "unit") for units in problem.hidden)
    what = f"the mean of '{response.name}' and the logarithm of the sd of its normal noise"
    what = what if response.kind == "numbers" else about_effects(run)
    where = "a hidden layer" if len(problem.hidden) == 1 else "hidden layers"
    scale = f"weights are Normal(0, {USUAL_SCALE:g} / √inputs of the unit), and biases Normal(0, {USUAL_SCALE:g})"
    if method == "ensemble":
        scale += ", or a quarter of that for some members"
    return [
        f"A neural network with {where} of {layers} (tanh) gives {what}.",
        *_about_features(problem.features),
        f"{_SCALED}: {scale}.",
    ]


def _about_features(features):
    if any(isinstance(column, Category) for column in features.columns):
        return ["Text is compared with the most frequent value of its column."]
    return []


def _capital(text):
    return text[:1].upper() + text[1:]
