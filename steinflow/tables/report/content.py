"""What the charts of a report show, as plain values that are few enough for a page."""

from typing import Any

import numpy as np

from steinflow.tables.parameters import Parameters, in_units, parameter_names
from steinflow.tables.runs import Run

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
    }


def _posterior(parameters: Parameters):
    some = _evenly(len(parameters.values), _PARTICLES)
    levels = parameters.quantiles((0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "names": parameters.names,
        "mean": _numbers(parameters.mean),
        "sd": _numbers(parameters.sd),
        "quantiles": [_numbers(column) for column in levels.T],
        "values": [_numbers(column) for column in parameters.values[some].T],
        "weights": _numbers(parameters.weights[some] / parameters.weights[some].max()),
    }


def _motion(run: Run, clearest_first: list[str]):
    recorded = run.result.history.get("parameters")
    if recorded is None or not len(recorded):
        return None
    recorded, steps = np.asarray(recorded), np.asarray(run.result.history["step"])
    if recorded.shape[1:] == run.start.shape:
        recorded, steps = np.concatenate([run.start[None], recorded]), np.concatenate([[0], steps])
    problem, estimator = run.regression
    values = in_units(problem, estimator, recorded)
    names = parameter_names(problem)[: values.shape[2]]
    chosen = [names.index(name) for name in clearest_first if name in names]
    chosen = chosen[: _MOVING - 2] + chosen[_MOVING - 2 :][-2:]  # the last ones are about the model as a whole
    # More frames at the beginning, where most of the way is made.
    frames = np.unique(np.round(np.linspace(0, 1, _FRAMES) ** 1.7 * (len(values) - 1)).astype(int))
    some = _evenly(values.shape[1], _MOVING_PARTICLES)
    return {
        "names": [names[k] for k in chosen],
        "steps": [int(steps[f]) for f in frames],
        "frames": [[_numbers(values[f, some, k], 4) for k in chosen] for f in frames],
    }


def _trace(run: Run):
    history = run.result.history
    if "step" not in history:
        return None
    return {
        "steps": [int(step) for step in history["step"]],
        "ksd": _numbers(history["ksd"]),
        "dispersion": _numbers(history["dispersion"]),
    }


def _held_out(run: Run):
    if run.evaluation is None or run.held_out is None:
        return None
    table, response = run.held_out, run.regression[0].response
    some = table.iloc[_evenly(len(table), _PREDICTIONS)]
    values: dict[str, Any] = {
        "kind": response.kind,
        "target": response.name,
        "labels": list(response.labels),
        "calibration": run.evaluation["calibration"],
        "confusion": run.evaluation.get("confusion"),
        "rows": [int(row) for row in some["row"]],
        "truth": [str(truth) for truth in some["truth"]],
    }
    if response.kind == "classes":
        if len(response.labels) == 2:
            values["probability"] = _numbers(some[f"P({response.labels[1]})"].astype(float))
        return values
    columns = {"truth": "truth", "mean": "prediction", "low": "5%", "high": "95%"}
    return {**values, **{key: _numbers(some[name].astype(float)) for key, name in columns.items()}}


def _evenly(length, most):
    return np.arange(length) if length <= most else np.linspace(0, length - 1, most).astype(int)


def _numbers(values, digits: int = 5) -> list[float | None]:
    """Return plain numbers of few digits; what is not finite is null."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, float)]
