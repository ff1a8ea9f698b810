"""`steinflow predict`: what a saved posterior says about new rows."""

import warnings
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.text import Text

from steinflow.cli import console, options
from steinflow.models.cells import describe_missing, missing_rows
from steinflow.models.columns import TableError, shown
from steinflow.models.formulas.response import response_columns
from steinflow.results.files import write_whole
from steinflow.results.summary import number
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.formulas import evaluate_formula, prediction_table
from steinflow.tables.predictions import about_far_rows, evaluate, prediction_frame
from steinflow.tables.runs import free_file, load_run
from steinflow.tables.tables import csv_text

_SHOWN_ROWS, _SHOWN_COLUMNS = 8, 5


@console.clear_errors
def predict_rows(
    run: options.RunFolder,
    data: options.Data,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV file to write. Default: DATA-predictions.csv.", show_default=False),
    ] = None,
    overwrite: options.Overwrite = False,
    missing: Annotated[
        Literal["error", "drop", "mean"],
        typer.Option(help="What to do about missing values: stop, leave the prediction empty, or use the mean."),
    ] = "error",
    encoding: options.Encoding = "utf-8",
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    thousands: options.Thousands = None,
    missing_marker: options.Markers = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Predict the rows of a table with a saved run.

    The table needs the columns that the model was fitted to. If it also has the target, the predictions are compared
    with it. The CSV file has one row for every row of the table, in the same order, with the row number.

    [bold]Example[/bold]

      steinflow predict runs/houses-price new-houses.csv
    """
    options.check_new_file(output, overwrite=overwrite)
    if output is not None and output.exists() and data.exists() and output.samefile(data):
        raise typer.BadParameter(
            "the predictions would replace the table itself; name another file.", param_hint="--output"
        )
    saved = load_run(run)
    frame = options.read(data, encoding, separator, decimal, thousands, missing_marker, quiet=quiet)
    if isinstance(saved.estimator, FormulaFit):
        predictions, evaluation, notes = _by_formula(saved.estimator, frame, data.name, missing)
    else:
        predictions, evaluation, notes = _by_features(saved, frame, data.name, missing)
    notes += about_far_rows(frame, saved.limits)
    predictions.insert(0, "row", np.arange(1, len(predictions) + 1))
    path = write_whole(output or free_file(f"{data.name.split('.')[0]}-predictions", ".csv"), csv_text(predictions))
    if as_json:
        console.print_json({"predictions": str(path), "num_rows": len(frame), "compared": evaluation, "notes": notes})
        return
    for note in notes:
        console.remark(note, quiet=quiet)
    first = _shown(predictions.iloc[:_SHOWN_ROWS])
    rows = [list(map(_cell, row)) for row in first.itertuples(index=False)]
    title = f"{shown(saved.data['target'])}, the first rows"
    console.out.print(console.table(title, first.columns, rows))
    console.print_metrics("On {} rows with known answers", evaluation)
    console.out.print(Text(f"\n{len(frame):,} predictions are in {path}"), soft_wrap=True)


def _by_features(saved, frame, where, missing):
    """Return predictions, how good they are, and notes."""
    X, notes = saved.problem.features.matrix(frame, where)
    known = np.isfinite(X).all(axis=1)
    if not known.all() and missing == "error":
        raise _incomplete(frame[[column.name for column in saved.problem.features.columns]], where)
    filled = saved.problem.features.filled(X)
    predictions = prediction_frame(saved.problem.response, saved.estimator, filled)
    if missing == "drop":
        predictions = predictions[known].reindex(predictions.index)
    evaluation = _compared(saved, frame, filled, known if missing == "drop" else np.ones(len(frame), bool))
    return predictions, evaluation, notes


def _by_formula(fitted, frame, where, missing):
    """The same for a formula; rows with known answers are compared where the table has all of the response."""
    columns = frame[[name for name in fitted.must_be_known if name in frame.columns]]
    usable = ~missing_rows(columns)
    if not usable.all() and missing == "error":
        raise _incomplete(columns, where)
    if missing == "mean":
        frame, usable = fitted.filled(frame), np.ones(len(frame), bool)
    if not usable.any():
        raise TableError(f"No row of {shown(where)} is complete: {describe_missing(columns)}. Add --missing mean.")
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as said:
        predictions = prediction_table(fitted, frame[usable]).set_index(np.flatnonzero(usable))
    response = sorted(response_columns(fitted.target.about.response_term))
    known = usable & ~missing_rows(frame[response]) if {*response} <= {*frame.columns} else np.zeros(len(frame), bool)
    evaluation = evaluate_formula(fitted, frame[known].reset_index(drop=True)) if known.any() else None
    return predictions.reindex(range(len(frame))), evaluation, list(dict.fromkeys(str(each.message) for each in said))


def _incomplete(columns, where):
    return TableError(
        f"In {shown(where)}, {describe_missing(columns)}. Add --missing mean to use the mean of each column, "
        "or --missing drop to leave these predictions empty."
    )


def _compared(saved, frame, X, usable):
    """Evaluate the rows whose target is in the table and known."""
    response = saved.problem.response
    if response.name not in frame.columns:
        return None
    y = response.encode(frame[response.name])
    usable = usable & np.isfinite(y)
    return evaluate(saved.estimator, X[usable], y[usable]) if usable.any() else None


def _shown(first):
    """Return what fits on a screen: of many classes the probability of the one that is predicted."""
    if len(first.columns) <= _SHOWN_COLUMNS:
        return first
    return first[["row", "prediction"]].assign(probability=first.iloc[:, 2:].max(axis=1))


def _cell(value):
    if isinstance(value, float):
        return "–" if np.isnan(value) else number(value)
    return str(value)
