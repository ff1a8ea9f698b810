"""A formula and a table as a run: rows held out, fit, metrics and predictions."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.metrics import r2_score, root_mean_squared_error

from steinflow.estimators.mixtures import log_mean_exp
from steinflow.inference.loop import fit
from steinflow.models.cells import check_cells
from steinflow.models.columns import Frame
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.cells import check_predictors
from steinflow.models.formulas.elsewhere import check_foreign
from steinflow.models.formulas.response import response_columns
from steinflow.models.formulas.syntax import parse
from steinflow.models.supervised import usual_batch_size
from steinflow.stein.geometry import even_sample
from steinflow.tables.alternatives import Model
from steinflow.tables.fitting import METHODS, RECORDS, drawn_classes, finished
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem, FormulaRecorder, with_gaps
from steinflow.tables.predictions import about_classes, about_intervals
from steinflow.tables.problems import MethodName
from steinflow.tables.remarks import about_codes, about_dates, refuse_dates
from steinflow.tables.remedies import OPTIONS
from steinflow.tables.residuals import MOST_DRAWS, Drawn, Events, as_often, chosen_rows
from steinflow.tables.responses import FEW_NUMBERS
from steinflow.tables.runs import Run
from steinflow.tables.splits import check_test_fraction, split

_DRAWS = 2000  # of the response of a row, for its interval
_BLOCK = 10_000  # rows drawn at once
_INTERVAL = (0.05, 0.95)


def fit_formula(
    frame: Frame,
    problem: FormulaProblem,
    *,
    test_fraction: float = 0.2,
    method: MethodName | None = None,
    num_particles: int | None = None,
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
    check_test_fraction(test_fraction)
    _check_response(frame, problem)
    for text in problem.formulas:
        check_foreign(text)
    check_predictors(map(parse, problem.formulas), problem.read(frame), OPTIONS)
    whole = problem.target(frame)  # errors in the formula, and rows with missing values, before any split
    usable, notes = with_gaps(whole.about), [note for note in whole.notes if "right-censored" not in note]
    notes += _remarks(whole)
    counts = None if problem.weights is None else usable[problem.weights].to_numpy(float)
    if test_fraction > 0 and counts is not None and np.array_equal(counts, np.round(counts)) and np.any(counts > 1):
        test_fraction = 0.0
        notes.append("No rows are held out: each stands for several, all of which the fit would miss.")
    test, kept = _held_out(whole, frame, test_fraction, seed)
    learn = usable.drop(index=usable.index[test]).reset_index(drop=True)
    method = method or problem.default_method
    if method != "nuts":  # which needs all rows
        batch_size = batch_size or usual_batch_size(len(learn))
    target = problem.target(learn, batch_size)
    first_steps = num_steps or 1000
    result = fit(
        target,
        METHODS[method](len(learn)),
        num_particles=num_particles or 100,
        num_steps=num_steps,
        key=seed,
        progress=progress,
        record={"parameters": FormulaRecorder(tuple(target.priors))},
        record_every=max(1, first_steps // RECORDS),
    )
    fitted = FormulaFit(problem, target, result)
    held_out = usable.iloc[test].reset_index(drop=True)
    evaluation, table = None, None
    if len(test):
        evaluation, logs = _evaluated(fitted, held_out)
        some = held_out[kept].reset_index(drop=True)
        table = prediction_table(fitted, some)
        table["log_likelihood"] = logs[kept]
        table.insert(0, "truth", _truth(fitted, some))
        table.insert(0, "row", whole.about.row_numbers[test][kept] + 1)
    others = frame.iloc[np.delete(whole.about.row_numbers, test)]
    return finished(
        problem,
        fitted,
        start=np.zeros((0, 0)),
        settings={
            "model": problem.model,
            "method": method,
            "num_particles": num_particles or 100,
            "num_steps": max(first_steps, result.info["num_steps"]),
            "batch_size": batch_size,
            "seed": seed,
        },
        data={**(data or {}), "num_rows": len(learn), "num_held_out": len(test)},
        evaluation=evaluation,
        held_out=table,
        fitted={"row": np.delete(whole.about.row_numbers, test) + 1},
        drawn=_drawn_anew(fitted, others, _model(fitted, whole.about.response.y)),
        notes=[*notes, *(note for note in target.notes if "right-censored" in note)],
        command=command,
    )


def prediction_table(fitted: FormulaFit, frame: Frame) -> Frame:
    """Return a table with a row for every row: the mean and a 90% interval, or classes and their probabilities."""
    import pandas

    target, result, frame = fitted.target, fitted.result_, fitted.problem.read(frame)
    mean = np.asarray(target.predict(result.particles, frame, weights=result.weights), float)
    levels = fitted.classes
    if levels is None:
        low, high = _by_draws(fitted, frame, lambda drawn, rows: np.quantile(drawn, _INTERVAL, axis=0))
        return pandas.DataFrame({"prediction": mean, "5%": low, "95%": high})
    probabilities = _probabilities(mean)
    columns = {f"P({level})": probabilities[:, code] for code, level in enumerate(levels)}
    return pandas.DataFrame({"prediction": np.array(levels)[probabilities.argmax(axis=1)], **columns})


def evaluate_formula(fitted: FormulaFit, frame: Frame) -> dict[str, Any] | None:
    """Return metrics and calibration on rows with known answers, as plain values; of censored ones the likelihood.

    Rows of a class that the fit has not seen are left out; None where these are all.
    """
    frame = fitted.problem.read(frame)
    known = ~np.isnan(fitted.target.response(frame).y)
    return _evaluated(fitted, frame[known])[0] if known.any() else None


def _evaluated(fitted, frame):
    """Return what `evaluate_formula` does, and the log likelihood of every row."""
    target, result = fitted.target, fitted.result_
    rows = target.rows(frame, with_response=True)
    logs = log_mean_exp(np.asarray(target.log_likelihoods(result.particles, rows), float), result.probabilities)
    response = target.response(frame)
    mean = np.asarray(target.predict(result.particles, frame, weights=result.weights), float)
    again = _as_often(fitted, frame)
    y, mean = response.y[again], mean[again]
    if fitted.classes is not None:
        metrics, details = about_classes(_probabilities(mean), y.astype(int))
    elif response.is_bound is not None:
        metrics, details = {}, {}
    else:
        below, chance = _by_draws(
            fitted,
            frame,
            lambda drawn, rows: [np.mean(drawn < response.y[rows], axis=0), np.mean(drawn == response.y[rows], axis=0)],
        )[:, again]
        coverage, details = about_intervals(below + chance / 2, chance)
        metrics = {
            "rmse": float(root_mean_squared_error(y, mean)),
            "r2": float(r2_score(y, mean)) if np.ptp(y) > 0 else None,
            "coverage_90": coverage,
        }
    metrics["log_likelihood"] = float(np.mean(logs[again]))
    return {"num_rows": len(y), "metrics": metrics, **details}, logs


def _as_often(fitted, frame):
    """Return the rows of a table, each as often as it counts, where the table says that."""
    name = fitted.problem.weights
    if name not in frame.columns or frame[name].dtype.kind not in "iuf" or not (frame[name] > 0).all():
        return np.arange(len(frame))
    return as_often(frame[name].to_numpy(float))


def _check_response(frame, problem) -> None:
    """Refuse a response of dates, or of numbers that are written as text."""
    name = problem.formulas[0].split("~")[0].strip()
    if name in frame.columns and frame[name].nunique() > FEW_NUMBERS:
        check_cells(name, frame[name], OPTIONS, "predict another column")
        refuse_dates(name, frame[name].dropna(), "predict another column")


def _remarks(target):
    """Return remarks about columns that a formula takes as amounts."""
    frame, y = target.about.frame, target.about.response.y
    slopes = [term.name for term in target.about.designs["mu"].common if term.name in frame.columns]
    has_order = target.regression.family.num_classes is None or target.regression.family.ordered
    known = frame.assign(y=y)["y"] if has_order else None
    response = target.about.formulas[0].split("~")[0].strip()
    return [*about_dates(frame[slopes]), *about_codes(frame[slopes], known, response)]


def _truth(fitted, frame):
    """Return the response of every row, classes by their labels."""
    response, levels = fitted.target.response(frame), fitted.classes
    return response.y if levels is None else np.array(levels, dtype=object)[response.y.astype(int)]


def _drawn_anew(fitted, others, model) -> Drawn | None:
    """Return some fitted rows beside rows drawn anew."""
    target, result = fitted.target, fitted.result_
    about = target.about
    rows = chosen_rows(len(about.frame), fitted.weights)
    frame, y = about.frame.iloc[rows].reset_index(drop=True), about.response.y[rows]
    known = {*response_columns(about.response_term), fitted.problem.weights}
    shown = others.drop(columns=[name for name in others if name in known]).iloc[rows]
    used, pooled = frozenset(about.predictor_columns), bool(target.regression.group_names())
    if fitted.classes is not None:
        mean = np.asarray(target.predict(result.particles, frame, weights=result.weights), float)
        drawn = drawn_classes(_probabilities(mean), y.astype(int), shown, used, model)
        return dataclasses.replace(drawn, pooled=pooled)
    draws = _drawn(fitted, frame, MOST_DRAWS)
    events, kind = _events(fitted, frame), "counts" if fitted.is_count else "numbers"
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    return Drawn("times" if events else kind, y, mean, sd, draws, shown, used, model, pooled, events)


def _events(fitted, frame) -> Events | None:
    """Return which rows have had their event, and how many events the model expects; None of other responses."""
    target, result = fitted.target, fitted.result_
    rows = target.rows(frame, with_response=True)
    if "is_bound" not in rows:
        return None
    happened = ~np.asarray(rows["is_bound"])
    rows["is_bound"] = jnp.ones(len(happened), bool)  # the log likelihood is then that to have had none
    without = np.asarray(target.log_likelihoods(result.particles, rows), float)
    return Events(happened, -result.probabilities @ without)


def _model(fitted, y) -> Model:
    """Return what advice about a formula depends on, with all responses of the table."""
    problem, about = fitted.problem, fitted.target.about
    return Model(
        form="formula",
        family=problem.family,
        formulas=problem.formulas,
        lowest=float(np.min(y)),
        are_whole=bool(np.all(y == np.round(y))),
        amounts=frozenset(name for name in about.predictor_columns if fitted.is_amount(name)),
        link=problem.link,
        priors=frozenset(problem.priors),
    )


def _probabilities(mean):
    """Return the probability of every class, where those of two classes are given by that of the second one."""
    return mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)


def _by_draws(fitted, frame, function) -> np.ndarray:
    """Return what a function says about draws of the response and the rows that they are of: some numbers per row."""
    parts = [slice(start, start + _BLOCK) for start in range(0, len(frame), _BLOCK)]
    return np.concatenate([function(_drawn(fitted, frame.iloc[rows]), rows) for rows in parts], axis=1)


def _drawn(fitted, frame, num_draws=_DRAWS):
    """Return draws of the response of every row, several for each particle."""
    result = fitted.result_
    num_particles = min(len(result), num_draws)  # as many as the means are of, which then share compiled code
    chosen = even_sample(len(result), num_particles, result.probabilities)
    particles = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], result.particles)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the means have said it
        drawn = [
            fitted.target.observations.predictive(particles, frame, key=jax.random.key(time))
            for time in range(-(-num_draws // num_particles))
        ]
    return np.concatenate([np.asarray(next(iter(each.values())), float) for each in drawn])


def _held_out(whole, frame, fraction, seed) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the rows of a formula to hold out, and for which of these predictions are kept.

    No row is held out that is the only one with its text in a column.
    """
    usable, numbers = whole.about.frame, whole.about.row_numbers
    columns = response_columns(whole.about.response_term) & set(frame.columns)
    response = frame[min(columns)] if len(columns) == 1 else None
    learn, test, kept = (
        np.searchsorted(numbers, part) for part in split(len(frame), numbers, fraction, seed, response)
    )
    for name in usable.columns:
        if usable[name].dtype.kind not in "iufb":
            values = usable[name].to_numpy().astype(str)
            test = test[np.isin(values[test], values[learn])]
    return test, np.isin(test, kept)


def priors_from(texts: Sequence[str]) -> dict[str, str]:
    """Return priors by name, given texts such as "Intercept=Normal(0, 5)"."""
    found = {}
    for text in texts:
        name, equals, prior = text.partition("=")
        if not equals:
            raise FormulaError(
                f"A prior must have the form NAME=DISTRIBUTION, such as 'Intercept=Normal(0, 5)'; got {text!r}."
            )
        found[name.strip()] = prior.strip()
    return found
