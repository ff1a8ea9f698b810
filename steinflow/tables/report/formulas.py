"""What a report says about a formula: its model in words, the effects of its predictors, and of its groups."""

from typing import Any

import numpy as np

from steinflow.results.curves import effect_of
from steinflow.results.margins import contrasts, has_levels, marginal_means
from steinflow.results.summary import weighted_quantiles
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.report.numbers import plain_numbers

_MOST_EFFECTS = 12
_MOST_LEVELS = 40
_MOST_VALUES = 12  # levels of a predictor
_MOST_ROWS = 20_000  # that means are averaged over


def effects_of(fitted: FormulaFit) -> list[dict[str, Any]]:
    """Return the effects of the predictors, one for every plot."""
    found = []
    for names in fitted.target.effects()[:_MOST_EFFECTS]:
        effect = effect_of(fitted.result_, names)
        curves = [
            {
                "label": curve.label,
                "x": plain_numbers(curve.x),
                "low": plain_numbers(curve.low),
                "middle": plain_numbers(curve.middle),
                "high": plain_numbers(curve.high),
            }
            for curve in effect.curves
        ]
        first, *others = effect.names
        second = others[0] if others and not effect.of_classes else None
        levels = None if effect.levels is None else list(effect.levels)
        classes = fitted.classes or ()
        is_share = len(classes) == 2 and not effect.of_classes
        found.append(
            {
                "first": first,
                "second": second,
                "levels": levels,
                "response": f"P({effect.response} = {classes[1]})" if is_share else effect.response,
                "curves": curves,
            }
        )
    return found


def margins_of(fitted: FormulaFit) -> dict[str, dict[str, Any]]:
    """Return `marginal_means` and `contrasts`: by predictor, the mean response for its values and how it differs.

    They are averages over the rows. Predictors with many levels are left out, and so are all of them where there are
    very many rows; other numbers have contrasts only, for one unit more.
    """
    frame, result = fitted.target.about.frame, fitted.result_
    names = sorted({name for names in fitted.target.effects() for name in names})
    names = names if len(frame) <= _MOST_ROWS else []
    amounts = [name for name in names if not has_levels(fitted.target, name)]
    levels = [name for name in names if name not in amounts and 1 < frame[name].nunique() <= _MOST_VALUES]
    return {
        "marginal_means": {name: marginal_means(result, name).to_dict("index") for name in levels},
        "contrasts": {name: contrasts(result, name).to_dict("index") for name in sorted(amounts + levels)},
    }


def margin_charts(fitted: FormulaFit) -> list[dict[str, Any]]:
    """Return a chart of the means for the levels of each predictor, and one of their differences."""
    found, name = margins_of(fitted), _mean_of(fitted)
    return [
        _intervals(title, found[kind][predictor], from_zero=kind == "contrasts")
        for predictor in found["marginal_means"]
        for kind, title in (("marginal_means", f"{name} by {predictor}"), ("contrasts", f"Differences by {predictor}"))
    ]


def _intervals(title, rows, *, from_zero) -> dict[str, Any]:
    values = list(rows.values())
    quantiles = [[each["5%"], None, each["50%"], None, each["95%"]] for each in values]
    return {
        "title": title,
        "names": list(rows),
        "mean": plain_numbers(np.array([each["mean"] for each in values])),
        "sd": plain_numbers(np.array([each["sd"] for each in values])),
        "quantiles": quantiles,
        "fromZero": from_zero,
    }


def _mean_of(fitted) -> str:
    """Return what the mean of the response is called."""
    name, classes = fitted.target.about.response.name, fitted.classes
    if classes is None:
        return f"Mean of {name}"
    return f"P({name} = {classes[1]})" if len(classes) == 2 else f"P({name})"


def groups_of(fitted: FormulaFit) -> list[dict[str, Any]]:
    """Return the effects of groups, sorted, one entry per plot; if there are many, the smallest and the largest."""
    result, labels, found = fitted.result_, fitted.target.observations.labels(), []
    for term in fitted.target.regression.group_names():
        values = np.asarray(result.particles[term], float)
        if values.ndim != 2:
            continue
        mean = result.probabilities @ values
        order, title = np.argsort(-mean), term
        if len(order) > _MOST_LEVELS:
            half = _MOST_LEVELS // 2
            title = f"{term}: the {half} largest and {half} smallest of {len(order):,}"
            order = np.concatenate([order[:half], order[-half:]])
        names = [str(name) for name in labels.coords[str(labels.dims[term][0])]]
        quantiles = weighted_quantiles(values, result.probabilities, (0.05, 0.25, 0.5, 0.75, 0.95))
        sd = np.sqrt(result.probabilities @ (values - mean) ** 2)
        found.append(
            {
                "title": title,
                "names": [names[k] for k in order],
                "mean": plain_numbers(mean[order]),
                "sd": plain_numbers(sd[order]),
                "quantiles": [plain_numbers(column) for column in quantiles.T[order]],
            }
        )
    return found


def in_words(fitted: FormulaFit) -> list[str]:
    """Return the model as sentences."""
    target = fitted.target
    regression, design = target.regression, target.about.designs["mu"]
    family, link = regression.family, regression.link
    what = "its mean is" if link == "identity" else f"its mean, on the scale of the link {link}, is"
    if family.ordered:
        what = "the log-odds of a higher class are"
    elif family.num_classes is not None:
        what = "the score of each class but the first, whose softmax gives the probabilities, is"
    elif family.name.startswith(("zero_inflated", "hurdle")):
        what = what.replace("its mean", "the mean of its count part")
    lines = [
        f"{target.about.response.name} follows a distribution of the family {family.name}; {what} a sum of effects."
    ]
    terms = [term.name for term in design.common]
    if terms:
        lines.append(f"Effects that are the same in all rows: {', '.join(terms)}.")
    for block, levels in zip(regression.predictors["mu"].blocks, design.levels, strict=True):
        names = ", ".join(term.name.split("|")[0] for term in block.terms).replace("1", "intercept", 1)
        how = "correlated normal" if block.correlated else "normal"
        lines.append(
            f"Each of {len(levels):,} levels of {block.factor} has its own {names}, drawn from a {how} distribution."
        )
    if design.offsets:
        lines.append(f"Terms with a fixed slope of 1: {', '.join(term.name for term in design.offsets)}.")
    for name in regression.predictors:
        if name != "mu":
            lines.append(f"The parameter {name} has its own predictors.")
    own = set(fitted.problem.priors)
    lines.append(
        "Priors are in the table of parameters; "
        + (f"those of {', '.join(sorted(own))} were given, the others are" if own else "they are")
        + " weakly informative and scaled to the data. The prior of the intercept applies where all "
        "predictors are at their means."
    )
    return lines
