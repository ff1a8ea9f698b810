"""From a table to a run: check the rows, hold some out, choose the model, fit, and see how well it predicts."""

import dataclasses
import datetime
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from steinflow.estimators import Watch
from steinflow.estimators.features import Features, Missing, Number
from steinflow.methods.base import Method
from steinflow.methods.dsvi import DSVI
from steinflow.methods.map import MAP
from steinflow.methods.npv import NPV
from steinflow.methods.nuts import NUTS
from steinflow.methods.sgld import SGLD, ParallelSGLD
from steinflow.methods.svgd.ensemble import Ensemble
from steinflow.methods.svgd.method import SVGD
from steinflow.models.cells import check_cells, check_kinds, describe_missing, missing_rows
from steinflow.models.columns import Frame, TableError, as_text, check_column, counted, in_formula, listed, shown
from steinflow.models.formulas.separation import separated
from steinflow.models.formulas.tables import as_levels, text_with_gaps, with_missing_level
from steinflow.results.comparison import NUM_DRAWS
from steinflow.results.result import versions
from steinflow.stein.geometry import even_sample
from steinflow.tables.alternatives import Model
from steinflow.tables.checks import model_checks
from steinflow.tables.parameters import Recorder
from steinflow.tables.predictions import evaluate, prediction_frame
from steinflow.tables.problems import MethodName, Problem
from steinflow.tables.remarks import about_codes, about_collinear, about_dates, refuse_dates
from steinflow.tables.remedies import OPTIONS
from steinflow.tables.residuals import MOST_DRAWS, Drawn, chosen_rows
from steinflow.tables.responses import FEW_NUMBERS, ModelName, Response, choose_kind
from steinflow.tables.runs import Run
from steinflow.tables.shapes import predictive_shape
from steinflow.tables.splits import split

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
_MOST_NUMBERS = 2**22  # of an array in a run: 32 MB
RECORDS = 200  # for smooth motion in the report


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Rows that are ready to be fitted.

    Attributes:
        problem: what is predicted from what, by which model.
        X, y: encoded rows to fit.
        held_out: encoded rows to predict: X, y and their numbers in the file, from 1.
        kept: the numbers of those whose predictions are kept.
        rows: the numbers of the rows to fit.
        columns: all columns of the rows to fit except the target, including columns that were left out of the model.
        reason: why this model was chosen.
        notes: what the user should know about the data.
    """

    problem: Problem
    X: np.ndarray
    y: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray]
    kept: np.ndarray
    rows: np.ndarray
    columns: Frame
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
    categorical: Sequence[str] = (),
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
        missing: "error", "drop" the rows, "mean" to fill in the mean of a column, or "level": missing values of text
            are a level of their own, as in formulas, and the other rows are dropped.
        drop: columns to leave out.
        categorical: columns of numbers that are codes: each value becomes a category.
        test_fraction: of the rows, to be held out.
        seed: of the choice of these rows.

    Raises:
        TableError: if the table, or one of its columns, cannot be used; the message says what to do.
    """
    for name in (target, *drop, *categorical):
        check_column(frame, name, where)
    if target in drop:
        raise TableError(f"'{shown(target)}' is the --target, so --drop cannot leave it out.")
    if both := sorted({*drop} & {*categorical}):
        raise TableError(f"--drop leaves out {listed(both)}, so --categorical cannot use it; keep one of the two.")
    whole = as_text(frame.reset_index(drop=True), categorical)
    frame, notes = _usable(whole.drop(columns=list(drop)), target, where, missing)
    if frame[target].nunique() > FEW_NUMBERS:  # fewer may be classes, however they are written
        check_cells(target, frame[target], OPTIONS, "name another --target")
        refuse_dates(target, frame[target], "name another --target")
    kind, reason = choose_kind(frame[target], model)
    response = Response.learn(frame[target], kind)
    rows = split(len(whole), frame.index.to_numpy(), test_fraction, seed, whole[target])
    learn, test, _ = (frame.index.get_indexer(part) for part in rows)
    columns = frame.drop(columns=target)
    check_kinds(columns, OPTIONS, free=frozenset(categorical))
    features = Features.learn(columns.iloc[learn])
    X = features.filled(features.matrix(columns, where)[0])
    y = response.encode(frame[target])
    problem = Problem(features, response, hidden if model == "network" else ())
    is_network = bool(problem.hidden)
    notes += [
        *features.notes,
        *about_dates(columns),
        *about_codes(columns.iloc[learn], frame[target].iloc[learn], in_formula(target), is_network=is_network),
    ]
    notes += [] if problem.hidden else about_collinear(X[learn], features.labels)
    if kind == "classes" and not problem.hidden:
        notes += separated(X[learn], y[learn], features.labels)
    others = whole.drop(columns=target).loc[frame.index[learn]]
    fitted, held_out, kept = (part + 1 for part in rows)
    return Prepared(problem, X[learn], y[learn], (X[test], y[test], held_out), kept, fitted, others, reason, notes)


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
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the notes say it
        estimator.fit(prepared.X, prepared.y, watch=Watch(progress, {"parameters": recorder}, RECORDS))
    evaluation, held_out = _on_held_out(problem.response, estimator, prepared)
    return finished(
        problem,
        estimator,
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
        fitted={"row": prepared.rows, "X": prepared.X, "y": prepared.y},
        drawn=_drawn(prepared, estimator),
        notes=prepared.notes,
        command=command,
    )


def finished(
    problem: Any,
    estimator: Any,
    *,
    start: np.ndarray,
    settings: dict[str, Any],
    data: dict[str, Any],
    evaluation: dict[str, Any] | None,
    held_out: Frame | None,
    fitted: dict[str, np.ndarray],
    drawn: Drawn | None,
    notes: list[str],
    command: str,
) -> Run:
    """Return a run that has just been made, with its checks; the other arguments are attributes of `Run`."""
    return Run(
        problem=problem,
        estimator=estimator,
        start=start,
        settings=settings,
        data=data,
        evaluation=evaluation,
        held_out=held_out,
        fitted=_to_compare(fitted, estimator.result_.states),
        checks=[check.to_json() for check in model_checks(drawn, evaluation)],
        predictive=predictive_shape(drawn),
        notes=notes,
        command=command,
        versions=versions("pandas", "scikit-learn", "formulae"),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _to_compare(fitted, states):
    """Return what leave-one-out needs: about as many states as it takes, and no array of very many numbers."""
    if states is not None:
        every = max(1, len(states) * states.shape[1] // NUM_DRAWS)
        fitted = {**fitted, "states": np.asarray(states[::every], np.float32)}
    return {name: values for name, values in fitted.items() if values.size <= _MOST_NUMBERS}


def _drawn(prepared, estimator) -> Drawn:
    """Return some fitted rows beside rows drawn anew."""
    problem, rows = prepared.problem, chosen_rows(len(prepared.y))
    X, y = prepared.X[rows], prepared.y[rows]
    used = frozenset(column.name for column in problem.features.columns)
    frame = prepared.columns.iloc[rows]
    if problem.response.kind == "classes":
        return drawn_classes(estimator.predict_proba(X), y.astype(int), frame, used, _model(prepared))
    chosen = even_sample(len(estimator.result_), MOST_DRAWS, estimator.result_.weights)
    times = -(-MOST_DRAWS // len(chosen))
    draws = np.concatenate([estimator.sample_y(X, seed)[chosen] for seed in range(times)])
    mean, sd = estimator.predict(X, return_std=True)
    return Drawn(problem.response.kind, y, mean, sd, draws, frame, used, _model(prepared))


def _model(prepared) -> Model:
    """Return what advice about a model of a target column depends on, with the formula that says the same."""
    problem, y = prepared.problem, np.concatenate([prepared.y, prepared.held_out[1]])
    columns = problem.features.columns
    codes = [in_formula(column.name) for column in columns]
    families = {"numbers": "gaussian", "counts": "poisson"}
    several = len(problem.response.labels) > 2
    return Model(
        form="network" if problem.hidden else "target",
        family=families.get(problem.response.kind, "categorical" if several else "bernoulli"),
        formulas=(f"{in_formula(problem.response.name)} ~ {' + '.join(codes)}",),
        lowest=float(np.min(y)),
        are_whole=bool(np.all(y == np.round(y))),
        amounts=frozenset(column.name for column in columns if isinstance(column, Number)),
        hidden=problem.hidden,
    )


def drawn_classes(
    probabilities: np.ndarray, codes: np.ndarray, frame: Frame, used: frozenset[str], model: Model
) -> Drawn:
    """Return what classes are checked by: how often the second of two, or the first guess of more, came true."""
    expected = np.ones(len(codes), int) if probabilities.shape[1] == 2 else np.argmax(probabilities, axis=1)
    mean = np.clip(probabilities[np.arange(len(codes)), expected], 0.0, 1.0)
    happened = (codes == expected).astype(float)
    return Drawn("classes", happened, mean, np.sqrt(mean * (1 - mean)), None, frame, used, model)


def _usable(frame, target, where, missing):
    """Return the rows that can be used, and notes about the others."""
    notes = []
    if len(frame) < _MIN_ROWS:
        raise TableError(
            f"{shown(where)} has {counted(len(frame), 'row')}; a fit needs at least {_MIN_ROWS}, because "
            "some of them are held out."
        )
    empty = [name for name, no in zip(frame.columns, frame.isna().all(), strict=True) if no and name != target]
    if empty:
        if len(empty) == frame.shape[1] - 1:
            raise TableError(f"There is no feature to learn from: nothing is known of {listed(empty)}.")
        frame = frame.drop(columns=empty)
        notes.append(f"Left out because empty: {listed(empty)}.")
    filled = text_with_gaps(frame.drop(columns=target)) if missing == "level" else ()
    if filled:
        frame = frame.assign(**{name: with_missing_level(frame[name]).astype(object) for name in filled})
        notes.append(as_levels(filled))
    lost = missing_rows(frame[[target]]) if missing == "mean" else missing_rows(frame)
    num_missing = int(missing_rows(frame).sum())
    if num_missing and missing == "error":
        raise TableError(
            f"In {shown(where)}, {describe_missing(frame)}. Add --missing drop to leave these rows out, --missing mean "
            "to fill in the mean of each column, --missing level to make those of text a level of their own, or --drop "
            "COLUMN to leave a column out."
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


def _on_held_out(response, estimator, prepared):
    X, y, numbers = prepared.held_out
    if not len(y):
        return None, None
    some = np.isin(numbers, prepared.kept)
    table = prediction_frame(response, estimator, X[some])
    table["log_likelihood"] = estimator.log_predictive(X[some], y[some])
    table.insert(0, "truth", response.decode(y[some]))
    table.insert(0, "row", numbers[some])
    return evaluate(estimator, X, y), table
