"""What the charts of a report show, as plain values that are few enough for a page."""

from typing import Any

import numpy as np

from steinflow.results.summary import columns_of
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.parameters import FOLLOWED, Parameters, in_units, parameter_names
from steinflow.tables.report.formulas import effects_of, groups_of, margin_charts
from steinflow.tables.report.numbers import plain_numbers
from steinflow.tables.runs import Run
from steinflow.tables.shapes import prior_shape

_FOREST = 40  # parameters in the forest
_MOVING = 8  # parameters to choose from in the motion
_FRAMES = 60
_MOVING_PARTICLES = 150
_PARTICLES = 400  # in all other charts
_PREDICTIONS = 400


def charts_of(run: Run) -> dict[str, Any]:
    """Return the data of all charts of a report."""
    parameters = run.parameters().clearest_first()
    return {
        "parameters": _posterior(parameters.coefficients(_FOREST)),
        "others": _posterior(parameters.others()),
        "motion": _motion(run, parameters.names),
        "trace": _trace(run),
        "heldOut": _held_out(run),
        "target": response_name(run),
        "predictive": run.predictive,
        **_of_formula(run),
    }


def response_name(run: Run) -> str:
    """Return what is predicted."""
    fitted = run.estimator
    return fitted.target.about.response.name if isinstance(fitted, FormulaFit) else run.regression[0].response.name


def _of_formula(run):
    fitted = run.estimator
    if not isinstance(fitted, FormulaFit):
        return {}
    return {
        "effects": effects_of(fitted),
        "margins": margin_charts(fitted),
        "groups": groups_of(fitted),
        "prior": prior_shape(fitted),
    }


def _followed(run, recorded):
    """Return the names of what was recorded, and its values in the units of the table."""
    if isinstance(run.estimator, FormulaFit):
        particles = {name: run.result.particles[name] for name in sorted(run.estimator.target.priors)}
        return columns_of(particles, run.estimator.target.observations.labels())[0][:FOLLOWED], recorded
    problem, estimator = run.regression
    values = in_units(problem, estimator, recorded)
    return parameter_names(problem)[: values.shape[2]], values


def _posterior(parameters: Parameters):
    some = _evenly(len(parameters.values), _PARTICLES)
    levels = parameters.quantiles((0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "names": parameters.names,
        "mean": plain_numbers(parameters.mean),
        "sd": plain_numbers(parameters.sd),
        "quantiles": [plain_numbers(column) for column in levels.T],
        "values": [plain_numbers(column) for column in parameters.values[some].T],
        "weights": plain_numbers(parameters.weights[some] / parameters.weights[some].max()),
    }


def _motion(run: Run, clearest_first: list[str]):
    recorded = run.result.history.get("parameters")
    if recorded is None or not len(recorded):
        return None
    recorded, steps = np.asarray(recorded), np.asarray(run.result.history["step"])
    if recorded.shape[1:] == run.start.shape:
        recorded, steps = np.concatenate([run.start[None], recorded]), np.concatenate([[0], steps])
    names, values = _followed(run, recorded)
    chosen = [names.index(name) for name in clearest_first if name in names]
    chosen = chosen[: _MOVING - 2] + chosen[_MOVING - 2 :][-2:]  # the last ones are about the model as a whole
    # More frames at the beginning, where most of the way is made.
    frames = np.unique(np.round(np.linspace(0, 1, _FRAMES) ** 1.7 * (len(values) - 1)).astype(int))
    some = _evenly(values.shape[1], _MOVING_PARTICLES)
    return {
        "names": [names[k] for k in chosen],
        "steps": [int(steps[f]) for f in frames],
        "frames": [[plain_numbers(values[f, some, k], 4) for k in chosen] for f in frames],
    }


def _trace(run: Run):
    history = run.result.history
    if "step" not in history:
        return None
    return {
        "steps": [int(step) for step in history["step"]],
        "ksd": plain_numbers(history["ksd"]),
        "dispersion": plain_numbers(history["dispersion"]),
    }


def _held_out(run: Run):
    if run.evaluation is None or run.held_out is None:
        return None
    table, (kind, labels) = run.held_out, kind_and_labels(run)
    some = table.iloc[_evenly(len(table), _PREDICTIONS)]
    values: dict[str, Any] = {
        "kind": kind,
        "target": response_name(run),
        "labels": labels,
        "calibration": run.evaluation.get("calibration"),
        "confusion": run.evaluation.get("confusion"),
        "rows": [int(row) for row in some["row"]],
        "truth": [str(truth) for truth in some["truth"]],
    }
    if kind == "classes":
        if len(labels) == 2:
            values["probability"] = plain_numbers(some[f"P({labels[1]})"].astype(float))
        return values
    columns = {"truth": "truth", "mean": "prediction", "low": "5%", "high": "95%"}
    return {**values, **{key: plain_numbers(some[name].astype(float)) for key, name in columns.items()}}


def kind_and_labels(run: Run) -> tuple[str, list[str]]:
    """Return whether numbers, counts or classes are predicted, and the labels of the latter."""
    if not isinstance(run.estimator, FormulaFit):
        response = run.regression[0].response
        return response.kind, list(response.labels)
    classes = run.estimator.classes
    return ("numbers", []) if classes is None else ("classes", list(classes))


def _evenly(length, most):
    return np.arange(length) if length <= most else np.linspace(0, length - 1, most).astype(int)
