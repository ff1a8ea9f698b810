"""From a table to a run: clean the rows, hold some out, choose the model, fit, and see how well it predicts."""

import dataclasses
import datetime
import platform
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from steinflow.inference.loop import fit
from steinflow.inference.stopping import Converged
from steinflow.methods.base import Method
from steinflow.methods.dsvi import DSVI
from steinflow.methods.map import MAP
from steinflow.methods.npv import NPV
from steinflow.methods.nuts import NUTS
from steinflow.methods.sgld import SGLD, ParallelSGLD
from steinflow.methods.svgd.method import SVGD
from steinflow.models.neural_network import LONG_REACH, NeuralNetwork
from steinflow.models.prior_scales import best_prior_scale
from steinflow.models.supervised import usual_batch_size, usual_num_steps
from steinflow.tables.features import Features, Missing, check_kinds, describe_missing, missing_rows
from steinflow.tables.predictions import evaluate, predict
from steinflow.tables.problems import MethodName, Problem, start
from steinflow.tables.responses import ModelName, Response, choose_kind
from steinflow.tables.runs import Run
from steinflow.tables.tables import Frame, TableError, check_column, counted, listed, shown

# By the name on the command line. Langevin steps are in units of the posterior's variance, about 1 / rows.
METHODS: dict[MethodName, Callable[[int], Method]] = {
    "svgd": lambda num_rows: SVGD(),
    "svgd-paper": lambda num_rows: SVGD.paper(),
    "svgd-network": lambda num_rows: SVGD.for_networks(LONG_REACH),
    "nuts": lambda num_rows: NUTS(),
    "sgld": lambda num_rows: SGLD(step_size=1 / num_rows, decay=0.0),
    "parallel-sgld": lambda num_rows: ParallelSGLD(step_size=100 / num_rows, decay=0.0),
    "dsvi": lambda num_rows: DSVI(),
    "npv": lambda num_rows: NPV(),
    "map": lambda num_rows: MAP(),
}
_MIN_ROWS = 5
_RECORDS = 200  # for smooth motion in the report
_RECORDS_PER_LOOK = 4  # so that the rule that stops sees about 50, as it is made for
_KEPT_PREDICTIONS = 5_000


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Rows that are ready to be fitted.

    Attributes:
        problem: what is predicted from what, by which model.
        X, y: encoded rows to fit.
        held_out: encoded rows to test on, X, y and their numbers in the table.
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
    """
    for name in (target, *drop):
        check_column(frame, name, where)
    if target in drop:
        raise TableError(f"'{shown(target)}' is the --target, so it cannot be left out with --drop.")
    frame, notes = _usable(frame.drop(columns=list(drop)), target, where, missing)
    kind, reason = choose_kind(frame[target], model)
    response = Response.learn(frame[target], kind)  # its errors speak about all rows
    learn, test = _split(frame[target], kind, test_fraction, seed)
    response = (
        Response.learn(frame[target], kind) if kind == "classes" else Response.learn(frame[target].iloc[learn], kind)
    )
    columns = frame.drop(columns=target)
    check_kinds(columns)
    features = Features.learn(columns.iloc[learn])
    X, _ = features.matrix(columns, where)
    X = np.where(np.isfinite(X), X, 0.0)  # the mean, or the most frequent category
    y = response.encode(frame[target])
    problem = Problem(features, response, hidden if model == "network" else ())
    numbers = frame.index.to_numpy()[test] + 1
    notes += features.notes
    return Prepared(problem, X[learn], y[learn], (X[test], y[test], numbers), reason, notes)


def run_fit(
    prepared: Prepared,
    *,
    method: MethodName | None = None,
    num_particles: int = 100,
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
        method: a name in `METHODS`; None is "svgd", and "svgd-network" for a network.
        num_particles: how many particles stand for the posterior.
        num_steps: at most, by default 1,000, or ten passes over the rows if that is more; the run stops before when the
            particles have settled. Networks take 2,000, or 50 passes, 20,000 at most.
        batch_size: rows per step; by default all of them up to 10,000, and 1,000 above, for networks 100 to 1,000.
        seed: of the particles and the minibatches.
        progress: show a bar.
        data: about the file, plain values.
        command: to repeat the run.
    """
    problem, num_rows = prepared.problem, len(prepared.y)
    is_network = bool(problem.hidden)
    method = method or problem.default_method
    if method not in METHODS:
        raise ValueError(f"There is no method '{shown(method)}'; choose one of {', '.join(METHODS)}.")
    if batch_size is None and method != "nuts":
        batch_size = usual_batch_size(num_rows, is_network=is_network)
    if batch_size is not None:
        batch_size = min(batch_size, num_rows)
    num_steps = num_steps or usual_num_steps(num_rows, batch_size, is_network=is_network)
    target, notes = problem.posterior(prepared.X, prepared.y, batch_size), list(prepared.notes)
    if isinstance(target, NeuralNetwork):
        problem = dataclasses.replace(problem, prior_scale=best_prior_scale(target, num_steps=num_steps, key=seed))
        target = target.with_prior_scale(problem.prior_scale)
        notes.append(
            f"Width of the prior of the weights, by cross-validation: {problem.prior_scale:g} (of 1, 3 and 9)."
        )
    particles = start(target, num_particles, seed)
    result = fit(
        target,
        METHODS[method](num_rows),
        particles=particles,
        num_steps=num_steps,
        key=seed,
        progress=progress,
        record={"parameters": problem.followed},
        record_every=max(1, num_steps // _RECORDS),
        stop=_settled,
    )
    evaluation, held_out = _on_held_out(problem, prepared.held_out, result)
    return Run(
        problem=problem,
        result=result,
        start=np.asarray(problem.followed(particles)),
        settings={
            "model": problem.model,
            "method": method,
            "num_particles": len(result),
            "num_steps": num_steps,
            "batch_size": batch_size,
            "seed": seed,
        },
        data={**(data or {}), "num_rows": num_rows, "num_held_out": len(prepared.held_out[1])},
        evaluation=evaluation,
        held_out=held_out,
        notes=notes,
        command=command,
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def versions() -> dict[str, str]:
    """Return the versions of what a run depends on."""
    packages = ("steinflow", "jax", "jaxlib", "equinox", "optax", "numpy", "pandas")
    found = {name: metadata.version(name) for name in packages if _installed(name)}
    return {"python": platform.python_version(), **found}


def _installed(name):
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:  # a checkout on the path
        return False
    return True


def _settled(history):
    """Apply the rule of `Converged` to every fourth record."""
    num_records = len(history["step"])
    if num_records % _RECORDS_PER_LOOK:
        return False
    looks = slice(_RECORDS_PER_LOOK - 1, None, _RECORDS_PER_LOOK)
    return Converged()({name: values[looks] for name, values in history.items()})


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
        notes.append(f"Left out, because empty: {listed(empty)}.")
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
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(target))
    num_test = min(max(1, round(test_fraction * len(order))), len(order) - 2) if test_fraction > 0 else 0
    if kind == "classes":
        # Classes one after the other, and every so-manyth row: each class gets its share.
        codes = target.astype(str).to_numpy()
        order = order[np.argsort(codes[order], kind="stable")]
        places = np.floor((np.arange(num_test) + generator.random()) * len(order) / max(num_test, 1)).astype(int)
    else:
        places = np.arange(num_test)
    test = np.sort(order[places])
    learn = np.setdiff1d(np.arange(len(order)), test)
    return learn, test


def _on_held_out(problem, rows, result):
    X, y, numbers = rows
    if not len(y):
        return None, None
    response = problem.response
    evaluation = evaluate(problem, result.particles, X, y, weights=result.weights)
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:_KEPT_PREDICTIONS])
    table = predict(problem, result.particles, X[some], weights=result.weights).frame()
    is_class = response.kind == "classes"
    truth = [response.labels[int(c)] for c in y[some]] if is_class else y[some] * response.scale + response.shift
    table.insert(0, "truth", truth)
    table.insert(0, "row", numbers[some])
    return evaluation, table
