"""A formula and a table as a run: rows held out, fit, metrics and predictions."""

import datetime
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics import r2_score, root_mean_squared_error

from steinflow.inference.loop import fit
from steinflow.models.formulas import FormulaError
from steinflow.models.supervised import usual_batch_size
from steinflow.results.result import versions
from steinflow.tables.fitting import METHODS
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem
from steinflow.tables.predictions import about_classes
from steinflow.tables.problems import MethodName
from steinflow.tables.runs import Run
from steinflow.tables.tables import Frame

_DRAWS = 2000  # of the response of a row, for its interval
_INTERVAL = (0.05, 0.95)
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def fit_formula(
    frame: Frame,
    problem: FormulaProblem,
    *,
    test_fraction: float = 0.2,
    method: MethodName | None = None,
    num_particles: int = 100,
    num_steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool = True,
    data: dict[str, Any] | None = None,
    command: str = "",
) -> Run:
    """Fit a formula to some of the rows of a table, and evaluate it on the others.

    Args:
        frame: the table.
        problem: formulas, family and priors.
        test_fraction: of the rows, to be held out.
        method, num_particles, num_steps, batch_size, seed, progress, data, command: as for `run_fit`.

    Raises:
        FormulaError: if the formula, the table and the family do not go together.
    """
    if not 0 <= test_fraction <= 0.9:
        raise ValueError(f"--test-fraction is a part between 0 and 0.9 of the rows; got {test_fraction:g}.")
    whole = problem.target(frame)  # errors in the formula, and rows with missing values, before any split
    usable, notes = whole.about.frame, [note for note in whole.notes if "right-censored" not in note]
    test = _held_out(usable, test_fraction, seed)
    learn = usable.drop(index=usable.index[test]).reset_index(drop=True)
    method = method or problem.default_method
    if method != "nuts":  # which needs all rows
        batch_size = batch_size or usual_batch_size(len(learn))
    target = problem.target(learn, batch_size)
    result = fit(
        target,
        METHODS[method](len(learn)),
        num_particles=num_particles,
        num_steps=num_steps or 1000,
        key=seed,
        progress=progress,
    )
    fitted = FormulaFit(problem, target, result)
    held_out = usable.iloc[test].reset_index(drop=True)
    evaluation = evaluate_formula(fitted, held_out) if len(test) else None
    table = None
    if len(test):
        table = prediction_table(fitted, held_out)
        table.insert(0, "row", whole.about.row_numbers[test] + 1)
    return Run(
        problem=problem,
        estimator=fitted,
        start=np.zeros((0, 0)),
        settings={
            "model": problem.model,
            "method": method,
            "num_particles": len(result),
            "num_steps": result.info["num_steps"],
            "batch_size": batch_size,
            "seed": seed,
        },
        data={**(data or {}), "num_rows": len(learn), "num_held_out": len(test)},
        evaluation=evaluation,
        held_out=table,
        notes=[*notes, *(note for note in target.notes if "right-censored" in note)],
        command=command,
        versions=versions("pandas", "formulae"),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def prediction_table(fitted: FormulaFit, frame: Frame) -> Frame:
    """Return a table with a row for every row: the mean and a 90% interval, or classes and their probabilities."""
    import pandas

    target, result = fitted.target, fitted.result_
    mean = np.asarray(target.predict(result.particles, frame, weights=result.weights), float)
    levels = target.about.response.levels
    if levels is None:
        low, high = np.quantile(_drawn(fitted, frame), _INTERVAL, axis=0)
        return pandas.DataFrame({"prediction": mean, "5%": low, "95%": high})
    probabilities = mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)
    columns = {f"P({level})": probabilities[:, code] for code, level in enumerate(levels)}
    return pandas.DataFrame({"prediction": np.array(levels)[probabilities.argmax(axis=1)], **columns})


def evaluate_formula(fitted: FormulaFit, frame: Frame) -> dict[str, Any]:
    """Return metrics and calibration on rows with known answers, as plain values; of censored ones the likelihood."""
    target, result = fitted.target, fitted.result_
    rows = target.rows(frame, with_response=True)
    logs = np.asarray(target.log_likelihoods(result.particles, rows), float)
    log_likelihood = float(np.mean(_log_mean(logs, result.probabilities)))
    response = target.response(frame)
    mean = np.asarray(target.predict(result.particles, frame, weights=result.weights), float)
    if response.levels is not None or target.regression.family.name == "bernoulli":
        probabilities = mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)
        metrics, details = about_classes(probabilities, response.y.astype(int))
    elif response.is_bound is not None:
        metrics, details = {}, {}
    else:
        drawn = _drawn(fitted, frame)
        below = np.mean(drawn < response.y, axis=0) + 0.5 * np.mean(drawn == response.y, axis=0)
        centre = 2 * np.abs(below - 0.5)
        metrics = {
            "rmse": float(root_mean_squared_error(response.y, mean)),
            "r2": float(r2_score(response.y, mean)) if np.ptp(response.y) > 0 else None,
            "coverage_90": float(np.mean(centre <= 0.9)),
        }
        details = {"calibration": [[level, float(np.mean(centre <= level)), len(frame)] for level in _LEVELS]}
    return {"num_rows": len(frame), "metrics": {**metrics, "log_likelihood": log_likelihood}, **details}


def _drawn(fitted, frame):
    """Return draws of the response of every row, several for each particle."""
    result = fitted.result_
    counts = np.round(_DRAWS * result.probabilities).astype(int)
    particles = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), counts, axis=0), result.particles)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the means have said it
        drawn = fitted.target.observations.predictive(particles, frame, key=jax.random.key(0))
    return np.asarray(next(iter(drawn.values())), float)


def _log_mean(logs, weights):
    top = np.max(logs, axis=0)
    return top + np.log(weights @ np.exp(logs - top))


def _held_out(frame, fraction, seed) -> np.ndarray:
    """Return the rows to hold out, none of which is the only one with its text in a column."""
    order = np.random.default_rng(seed).permutation(len(frame))
    test = order[: round(fraction * len(frame))]
    learn = order[len(test) :]
    for name in frame.columns:
        if frame[name].dtype.kind not in "iufb":
            values = frame[name].to_numpy()
            test = test[np.isin(values[test].astype(str), values[learn].astype(str))]
    return np.sort(test)


def priors_from(texts: Sequence[str]) -> dict[str, str]:
    """Return priors by name, given texts such as "Intercept=Normal(0, 5)"."""
    found = {}
    for text in texts:
        name, equals, prior = text.partition("=")
        if not equals:
            raise FormulaError(f"A prior is NAME=DISTRIBUTION, such as 'Intercept=Normal(0, 5)'; got {text!r}.")
        found[name.strip()] = prior.strip()
    return found
