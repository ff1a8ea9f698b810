"""From a table to a run: check the rows, hold some out, choose the model, fit, and see how well it predicts."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.model_selection import train_test_split

from steinflow.estimators import Watch
from steinflow.methods.base import Method
from steinflow.methods.dsvi import DSVI
from steinflow.methods.map import MAP
from steinflow.methods.npv import NPV
from steinflow.methods.nuts import NUTS
from steinflow.methods.sgld import SGLD, ParallelSGLD
from steinflow.methods.svgd.ensemble import Ensemble
from steinflow.methods.svgd.method import SVGD
from steinflow.results.result import versions
from steinflow.tables.features import Features, Missing, check_kinds, describe_missing, missing_rows
from steinflow.tables.parameters import Recorder
from steinflow.tables.predictions import evaluate, prediction_frame
from steinflow.tables.problems import MethodName, Problem
from steinflow.tables.responses import ModelName, Response, choose_kind
from steinflow.tables.runs import Run
from steinflow.tables.tables import Frame, TableError, check_column, counted, listed, shown

# By the name on the command line. Langevin steps are in units of the posterior's variance, about 1 / rows.
METHODS: dict[MethodName, Callable[[int], Method]] = {
    "svgd": lambda num_rows: SVGD(),
    "svgd-paper": lambda num_rows: SVGD.paper(),
    "ensemble": lambda num_rows: Ensemble(),
    "nuts": lambda num_rows: NUTS(),
    "sgld": lambda num_rows: SGLD(step_size=1 / num_rows, decay=0.0),
    "parallel-sgld": lambda num_rows: ParallelSGLD(step_size=100 / num_rows, decay=0.0),
    "dsvi": lambda num_rows: DSVI(),
    "npv": lambda num_rows: NPV(),
    "map": lambda num_rows: MAP(),
}
_MIN_ROWS = 5
_RECORDS = 200  # for smooth motion in the report
_KEPT_PREDICTIONS = 5_000


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Rows that are ready to be fitted.

    Attributes:
        problem: what is predicted from what, by which model.
        X, y: encoded rows to fit.
        held_out: encoded rows to predict: X, y and their numbers in the table.
        reason: why this model.
        notes: what the user should know about the data.
    """

    problem: Problem
    X: np.ndarray
    y: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray]
    reason: str
    notes: list[str]


def prepare(
    frame: Frame,
    target: str,
    *,
    where: str = "the table",
    model: ModelName | None = None,
    hidden: tuple[int, ...] = (50,),
    missing: Missing = "error",
    drop: Sequence[str] = (),
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Prepared:
    """Check a table, hold rows out, and encode it.

    Args:
        frame: the table.
        target: the column to predict.
        where: the name of the table in errors.
        model: None chooses one from the target.
        hidden: units of the hidden layers, for the model "network".
        missing: "error", "drop" the rows, or "mean" to fill in the mean of a column.
        drop: columns to leave out.
        test_fraction: of the rows, to be held out.
        seed: of the choice of these rows.

    Raises:
        TableError: if the table, or one of its columns, cannot be used; the message says what to do.
    """
    for name in (target, *drop):
        check_column(frame, name, where)
    if target in drop:
        raise TableError(f"'{shown(target)}' is the --target, so it cannot be left out with --drop.")
    frame, notes = _usable(frame.drop(columns=list(drop)), target, where, missing)
    kind, reason = choose_kind(frame[target], model)
    response = Response.learn(frame[target], kind)
    learn, test = _split(frame[target], kind, test_fraction, seed)
    columns = frame.drop(columns=target)
    check_kinds(columns)
    features = Features.learn(columns.iloc[learn])
    X = features.filled(features.matrix(columns, where)[0])
    y = response.encode(frame[target])
    problem = Problem(features, response, hidden if model == "network" else ())
    numbers = frame.index.to_numpy()[test] + 1
    notes += features.notes
    return Prepared(problem, X[learn], y[learn], (X[test], y[test], numbers), reason, notes)


def run_fit(
    prepared: Prepared,
    *,
    method: MethodName | None = None,
    num_particles: int | None = None,
    num_steps: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool = True,
    data: dict[str, Any] | None = None,
    command: str = "",
) -> Run:
    """Fit, and evaluate on the rows held out.

    Args:
        prepared: what `prepare` returned.
        method: a name in `METHODS`; None is "svgd", and "ensemble" for a network.
        num_particles, num_steps, batch_size: as for the estimators.
        seed: of the particles and the minibatches.
        progress: show a bar.
        data: about the file, plain values.
        command: to repeat the run.

    Raises:
        ValueError: if there is no such method, or the estimator refuses the rows.
    """
    problem, num_rows = prepared.problem, len(prepared.y)
    method = method or problem.default_method
    if method not in METHODS:
        raise ValueError(f"There is no method '{shown(method)}'; choose one of {', '.join(METHODS)}.")
    if method == "nuts" and batch_size is None:
        batch_size = num_rows  # it needs all of them
    recorder = Recorder(is_network=bool(problem.hidden))
    estimator = problem.estimator().set_params(
        num_particles=num_particles,
        num_steps=num_steps,
        batch_size=batch_size,
        method=METHODS[method](num_rows),
        random_state=seed,
    )
    estimator.fit(prepared.X, prepared.y, watch=Watch(progress, {"parameters": recorder}, _RECORDS))
    evaluation, held_out = _on_held_out(problem.response, estimator, prepared.held_out)
    return Run(
        problem=problem,
        estimator=estimator,
        start=np.asarray(recorder(estimator.start_)),
        settings={
            "model": problem.model,
            "method": method,
            "num_particles": len(jax.tree.leaves(estimator.start_)[0]),
            "num_steps": estimator.num_steps_,
            "batch_size": estimator.batch_size_,
            "seed": seed,
        },
        data={**(data or {}), "num_rows": num_rows, "num_held_out": len(prepared.held_out[1])},
        evaluation=evaluation,
        held_out=held_out,
        notes=prepared.notes,
        command=command,
        versions=versions("pandas", "scikit-learn"),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _usable(frame, target, where, missing):
    """Return the rows that can be used, and notes about the others."""
    notes = []
    if len(frame) < _MIN_ROWS:
        raise TableError(
            f"{shown(where)} has {counted(len(frame), 'row')}; a fit needs at least {_MIN_ROWS}, some of them to be "
            "held out."
        )
    empty = [name for name in frame.columns if name != target and not frame[name].notna().any()]
    if empty:
        frame = frame.drop(columns=empty)
        notes.append(f"Left out because empty: {listed(empty)}.")
    lost = missing_rows(frame[[target]]) if missing == "mean" else missing_rows(frame)
    num_missing = int(missing_rows(frame).sum())
    if num_missing and missing == "error":
        raise TableError(
            f"In {shown(where)}, {describe_missing(frame)}. Add --missing drop to leave these rows out, --missing mean "
            "to fill in the mean of each column, or --drop COLUMN to leave a column out."
        )
    if len(frame) - lost.sum() < _MIN_ROWS:
        raise TableError(
            f"Without the rows that have missing values, {shown(where)} has "
            f"{counted(len(frame) - int(lost.sum()), 'row')} left ({describe_missing(frame)}); add --missing mean, "
            "or --drop COLUMN."
        )
    if lost.any():
        notes.append(f"Left out {counted(int(lost.sum()), 'row')} with missing values.")
    if missing == "mean" and num_missing > lost.sum():
        notes.append(f"Filled in the mean, or the most frequent category: {describe_missing(frame[~lost])}.")
    return frame[~lost], notes


def _split(target, kind, test_fraction, seed):
    """Return which rows to fit and which to hold out; of every class its share, where there are enough."""
    if not 0 <= test_fraction <= 0.9:
        raise ValueError(f"--test-fraction is a part between 0 and 0.9 of the rows; got {test_fraction:g}.")
    rows, labels = np.arange(len(target)), np.zeros(len(target), int)
    if kind == "classes":
        labels, _ = target.factorize()
    # One row of every class is fitted in any case, so that the model knows the class.
    free = np.setdiff1d(rows, np.unique(labels, return_index=True)[1])
    num_test = min(max(1, round(test_fraction * len(rows))), len(free) - 1) if test_fraction > 0 else 0
    if num_test < 1:
        return rows, rows[:0]
    counts = np.unique_counts(labels[free]).counts
    enough = min(counts) > 1 and len(counts) <= min(num_test, len(free) - num_test)
    _, test = train_test_split(free, test_size=num_test, random_state=seed, stratify=labels[free] if enough else None)
    return np.setdiff1d(rows, test), np.sort(test)


def _on_held_out(response, estimator, held_out):
    X, y, numbers = held_out
    if not len(y):
        return None, None
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:_KEPT_PREDICTIONS])
    table = prediction_frame(response, estimator, X[some])
    table.insert(0, "truth", response.decode(y[some]))
    table.insert(0, "row", numbers[some])
    return evaluate(estimator, X, y), table
