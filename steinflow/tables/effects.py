"""What the coefficients of a run are effects on, in words."""

from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.runs import Run

_SCALES = {"log": "the logarithm of", "logit": "the log-odds of", "probit": "the probit of"}


def about_effects(run: Run) -> str:
    """Return what the coefficients change: 'price', or the log-odds of one class."""
    if isinstance(run.estimator, FormulaFit):
        return _of_formula(run.estimator)
    response = run.regression[0].response
    name = f"'{response.name}'"
    match response.kind:
        case "numbers":
            return name
        case "counts":
            return f"the logarithm of the mean of {name}"
        case "classes" if len(response.labels) == 2:
            return f"the log-odds of {name} being '{response.labels[1]}'"
    return f"the score of each class of {name}"


def about_others(run: Run) -> str:
    """Return what the coefficients of further parameters change, as the end of a heading."""
    if not isinstance(run.estimator, FormulaFit):
        return ""
    regression = run.estimator.target.regression
    others = {name: regression.family.auxiliary[name] for name in regression.predictors if name != "mu"}
    return "".join(f"; {name}_... on {_SCALES.get(form, '')} {name}" for name, form in others.items())


def _of_formula(fitted: FormulaFit) -> str:
    target = fitted.target
    response, family, link = target.about.response, target.regression.family, target.regression.link
    name = f"'{response.name}'"
    if family.ordered:
        return f"the log-odds of a higher class of {name}"
    if family.num_classes is not None:
        return f"the score of each class of {name}, against the first one"
    if family.name == "bernoulli":
        what = name if response.levels is None else f"{name} being '{response.levels[1]}'"
    elif family.name == "binomial":
        what = f"success in {name}"
    elif family.name == "lognormal":
        return f"the logarithm of {name}"
    elif family.name.startswith(("zero_inflated", "hurdle")):
        what = f"the mean of the count part of {name}"
    else:
        what = name if link == "identity" else f"the mean of {name}"
    return what if link == "identity" else f"{_SCALES.get(link, f'the {link} of')} {what}"
