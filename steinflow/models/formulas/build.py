"""From a formula and a table to a posterior."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import jax.numpy as jnp
import numpy as np

from steinflow.models.columns import counted
from steinflow.models.families.names import family_named, link_of
from steinflow.models.formulas.cells import check_predictors
from steinflow.models.formulas.design import Design, collinear, far, names_of_columns, warn
from steinflow.models.formulas.elsewhere import check_foreign
from steinflow.models.formulas.labels import labels_of
from steinflow.models.formulas.predictions import predictor_rows, response_rows
from steinflow.models.formulas.predictors import Predictor
from steinflow.models.formulas.priors import Prior, replaced
from steinflow.models.formulas.regression import LogLikelihood, LogPrior, Regression
from steinflow.models.formulas.response import (
    censored,
    evaluate,
    for_family,
    remarks,
    response_columns,
    successes,
    survived,
    trial_columns,
)
from steinflow.models.formulas.separation import separated
from steinflow.models.formulas.syntax import Formula, FormulaError, as_formula_error, columns_of, parse
from steinflow.models.formulas.tables import (
    as_frame,
    as_known,
    as_levels,
    check_columns,
    complete_rows,
    text_with_gaps,
    with_missing_level,
)
from steinflow.models.formulas.target import About, FormulaTarget
from steinflow.models.formulas.usual import usual_priors
from steinflow.models.supervised import shift_and_scale
from steinflow.targets.posterior import Posterior

_FUNCTIONS = {
    "np": np,
    **{name: getattr(np, name) for name in ("log", "log2", "log10", "log1p", "exp", "sqrt", "abs", "sin", "cos")},
    "censored": censored,
    "Surv": survived,
    **dict.fromkeys(("p", "prop", "proportion"), successes),
}


def formula(
    formula: str | Sequence[str],
    data: Any,
    *,
    family: str = "gaussian",
    link: str | None = None,
    priors: Mapping[str, Prior | str] | None = None,
    weights: str | None = None,
    missing: Literal["drop", "level"] = "drop",
    functions: Mapping[str, Callable] | None = None,
    batch_size: SupportsIndex | None = None,
) -> FormulaTarget:
    """Return the posterior of a regression that is written as a formula.

    Formulas are written as in lme4, brms and bambi: `y ~ x * z + bs(t, df=5) + (1 + x | g)`. Group effects inside one
    pair of brackets are correlated; with `||` they are independent. `offset(log(exposure))` is a term with slope 1. The
    response may be `y`, `y[level]`, `p(successes, trials)`, `censored(time, status)` or `Surv(time, event)`.

    Particles are dictionaries by term, in the units of the table: `Intercept`, `x`, `z` with a number per level, `1|g`
    with the effect of every group, `1|g_sigma` with their sd, and parameters of the family such as `sigma`.

    Args:
        formula: one or several: the first for the mean, the others for auxiliary parameters, such as `sigma ~ x`.
        data: a table of pandas, Polars or Arrow, or a dict of columns.
        family: gaussian, t, bernoulli, binomial, categorical, cumulative, poisson, negbinomial, zero_inflated_poisson,
            zero_inflated_negbinomial, hurdle_poisson, hurdle_negbinomial, gamma, lognormal, weibull, exponential or
            beta.
        link: of the mean; by default the usual one of the family.
        priors: NumPyro distributions, or texts that describe them, by parameter name: `{"x": "Normal(0, 1)"}`, or by
            that of a level, `"z[b]"`. All other priors are weakly informative and scaled to the data;
            `print(target.priors)` shows all priors.
        weights: the column that says how many times each row counts; rows of weight 0 are left out.
        missing: "drop" leaves out rows with missing values; "level" makes those of text a level of their own, the last
            one, called "missing", and leaves out the other rows.
        functions: further functions that the formula may call, by name.
        batch_size: rows per step; all of them if not given.

    Raises:
        FormulaError: a ValueError, if the formula, the table and the family do not match.

    Example:
        ```python
        import numpy as np, steinflow as sf

        rng = np.random.default_rng(0)
        table = {"x": rng.normal(size=90), "g": rng.integers(0, 9, 90).astype(str)}
        table["y"] = 1 + 2 * table["x"] + rng.normal(size=9)[table["g"].astype(int)] + rng.normal(size=90)
        target = sf.formula("y ~ x + (1 | g)", table, priors={"x": "Normal(0, 5)"})
        result = sf.fit(target, key=0, progress=False)
        new = result.predictive({"x": [0.5], "g": ["3"]})["y"]
        ```
    """
    with as_formula_error():
        kind = family_named(family)
    parsed = _parsed(formula, kind, functions or {})
    frame, environment = as_frame(data), _environment(functions or {})
    names = {name for each in parsed.values() for name in columns_of(each.model)}
    predictor_columns = tuple(sorted(names & set(map(str, frame.columns))))
    response_term = parsed["mu"].response
    names |= response_columns(response_term) | ({weights} if weights else set())
    check_columns(frame, names, known=functions or {})
    table_length = len(frame)
    filled = text_with_gaps(frame[list(predictor_columns)]) if missing == "level" else ()
    frame = frame.assign(**{name: with_missing_level(frame[name]) for name in filled})
    frame, row_numbers, notes = complete_rows(frame, names)
    if filled:
        notes += (as_levels(filled),)
    if weights and (counts := (frame[weights] != 0).to_numpy(bool)).any() and not counts.all():
        frame, row_numbers = frame[counts].reset_index(drop=True), row_numbers[counts]
        notes += (f"Left out {counted(int(np.sum(~counts)), 'row')} of weight 0.",)
    if leaked := sorted((response_columns(response_term) - trial_columns(response_term)) & set(predictor_columns)):
        notes += (f"The response is predicted from its own column {leaked[0]!r}; leave that out of the predictors.",)
    frame = frame.apply(as_known)
    notes += check_predictors(parsed.values(), frame, functions=functions or {})
    own, response = for_family(evaluate(response_term, frame, environment), kind)
    with as_formula_error():
        link = link_of(link, own)
    designs = {name: Design.of(each, frame, environment) for name, each in parsed.items()}
    arrays = {name: design.fitted(len(frame)) for name, design in designs.items()}
    shift, unit = _standardization(own, link, response.y, designs["mu"])
    predictors = {
        name: _predictor(name, design, arrays[name], own, shift=shift, unit=unit) for name, design in designs.items()
    }
    _check_names(own, predictors)
    for name, predictor in predictors.items():
        centered = predictor.has_intercept or predictor.has_thresholds
        names_of_X = names_of_columns(predictor.terms)
        empty = designs[name].empty(frame)
        full = [each not in empty for each in names_of_X]
        names_of_full = [each for each in names_of_X if each not in empty]
        notes += (*empty.values(), *collinear(arrays[name].X[:, full], names_of_full, centered=centered))
        notes += far(arrays[name].X, names_of_X)
    if own.of_classes:
        notes += separated(
            arrays["mu"].X,
            response.y,
            names_of_columns(predictors["mu"].terms),
            trials=response.trials,
            ordered=own.ordered,
            centered=predictors["mu"].has_intercept,
        )
    notes += remarks(response, own)
    warn(notes, 3)
    labels = labels_of(predictors, designs, response.levels)
    chosen = replaced(usual_priors(own, link, response, predictors, arrays), priors, labels)
    predictors = {name: dataclasses.replace(each, plain=_plain(each, chosen)) for name, each in predictors.items()}
    regression = Regression(own, link, predictors, _floats(shift), _floats(unit))
    rows = {
        "predictors": {name: predictor_rows(each, arrays[name]) for name, each in predictors.items()},
        **response_rows(regression, response),
        **_weights(frame, weights),
    }
    if response.is_bound is not None:
        notes += (f"{int(response.is_bound.sum()):,} of {len(frame):,} values are right-censored.",)
    about = About(
        formulas=tuple(each.text for each in parsed.values()),
        family=family,
        response_term=response_term,
        response=response,
        designs=designs,
        environment=environment,
        predictor_columns=predictor_columns,
        filled=filled,
        frame=frame,
        row_numbers=row_numbers,
        table_length=table_length,
        notes=notes,
    )
    posterior = Posterior(
        LogPrior(regression, chosen),
        LogLikelihood(regression),
        rows,
        batch_size,
        constraints=_constraints(regression, chosen),
    )
    return FormulaTarget(regression, chosen, posterior, about)


def _predictor(name, design, arrays, family, *, shift, unit) -> Predictor:
    """Return a linear predictor; that of an auxiliary parameter has a prefix, and one output."""
    is_mean = name == "mu"
    has_thresholds = is_mean and family.ordered
    means, sds = shift_and_scale(arrays.X)
    return Predictor(
        prefix="" if is_mean else f"{name}_",
        terms=design.terms(),
        blocks=design.blocks(),
        means=_floats(means if design.has_intercept or has_thresholds else np.zeros(len(means))),
        sds=_floats(sds),
        shift=_floats(shift if is_mean else 0.0),
        unit=_floats(unit if is_mean else 1.0),
        has_intercept=design.has_intercept and not has_thresholds,
        has_thresholds=has_thresholds,
        plain=frozenset(),
        num_outputs=max(1, family.num_outputs - 1) if is_mean else 1,  # of classes against the first one
    )


def _check_names(family, predictors):
    """Refuse columns with the name of another parameter, in whose place they would be."""
    found = {"Intercept", "threshold", *family.auxiliary}
    for predictor in predictors.values():
        for term in predictor.terms:
            name = predictor.named(term.name)
            if name in found:
                raise FormulaError(
                    f"Two parameters would have the name {name!r}; give the column {term.name!r} another."
                )
            found.add(name)


def _parsed(texts, kind, functions) -> dict[str, Formula]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    for text in texts:
        check_foreign(str(text), functions)
    first, *others = [parse(text) for text in texts]
    parsed = {"mu": first}
    for each in others:
        name = each.response.term.name
        if name not in kind.auxiliary or name in parsed:
            raise FormulaError(
                f"{each.text!r}: {name!r} is no further parameter of the family {kind.name!r}, which has "
                f"{', '.join(kind.auxiliary) or 'none'}."
            )
        parsed[name] = each
    return parsed


def _environment(functions):
    from formulae.categorical import ENCODINGS
    from formulae.environment import Environment
    from formulae.transforms import TRANSFORMS

    return Environment([{**TRANSFORMS, **ENCODINGS, **_FUNCTIONS, **functions}])


def _standardization(family, link, y, design):
    """Return shift and unit of the response; without an intercept it is only scaled."""
    if not (family.real_valued and link == "identity"):
        return 0.0, 1.0
    shift, unit = shift_and_scale(y)
    return float(shift) if design.has_intercept else 0.0, float(unit)


def _plain(predictor, chosen) -> frozenset[str]:
    names = [predictor.named(name) for name in ("Intercept", *(term.name for term in predictor.terms))]
    return frozenset(name for name in names if name in chosen and _support(chosen[name]) is not None)


def _constraints(regression, chosen):
    from numpyro.distributions import constraints

    found = {name: _support(prior) for name, prior in chosen.items()}
    if "threshold" in found:
        found["threshold"] = constraints.ordered_vector
    return found | dict.fromkeys(regression.group_names())


def _support(prior):
    """Return where a parameter lives by its prior; None for the real line."""
    from numpyro.distributions import biject_to
    from numpyro.distributions.transforms import IdentityTransform

    bijection = biject_to(prior.support)
    bijection = getattr(bijection, "base_transform", bijection)
    return None if isinstance(bijection, IdentityTransform) else prior.support


def _weights(frame, name):
    if name is None:
        return {}
    if frame[name].dtype.kind not in "biuf":
        raise FormulaError(f"Weights are numbers; column {name!r} has others, such as {str(frame[name].iloc[0])!r}.")
    values = frame[name].to_numpy(float)
    if np.any(values <= 0):
        raise FormulaError(
            f"Weights must be positive; column {name!r} has {np.sum(values <= 0):,} that are not, such as "
            f"{values[values <= 0][0]:g}."
        )
    return {"weight": _floats(values)}


def _floats(values):
    return jnp.asarray(np.asarray(values), float)
