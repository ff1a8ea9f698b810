"""`steinflow predict`: what a saved posterior says about new rows."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from steinflow.cli.console import (
    Debug,
    Json,
    Quiet,
    clear_errors,
    figure,
    figure_name,
    out,
    print_json,
    remark,
    table,
)
from steinflow.cli.options import Data, Decimal, Encoding, Markers, RunFolder, Separator, read
from steinflow.tables.features import Missing, describe_missing
from steinflow.tables.predictions import evaluate, predict
from steinflow.tables.runs import load_run, write_whole
from steinflow.tables.tables import TableError, shown

_SHOWN_ROWS, _SHOWN_COLUMNS = 8, 4


@clear_errors
def predict_rows(
    run: RunFolder,
    data: Data,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="CSV file to write; DATA-predictions.csv if not given.", show_default=False
        ),
    ] = None,
    missing: Annotated[
        Missing,
        typer.Option(help="What to do about missing values: stop, leave the prediction empty, or take the mean."),
    ] = "error",
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    decimal: Decimal = ".",
    missing_marker: Markers = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table with a saved run.

    The table needs the columns that the model was fitted to. Where it has the target too, the predictions are compared
    with it. The CSV file holds a row for every row of the table, in its order.

    [bold]Example[/bold]

      steinflow predict runs/houses-price new-houses.csv
    """
    saved = load_run(run)
    frame = read(data, encoding, separator, decimal, missing_marker)
    X, notes = saved.problem.features.matrix(frame, data.name)
    known = np.isfinite(X).all(axis=1)
    if not known.all() and missing == "error":
        columns = frame[[column.name for column in saved.problem.features.columns]]
        raise TableError(
            f"In {shown(data.name)}, {describe_missing(columns)}. Add --missing mean to take the mean of each column, "
            "or --missing drop to leave these predictions empty."
        )
    result, filled = saved.result, np.where(np.isfinite(X), X, 0.0)
    table_of_predictions = predict(saved.problem, result.particles, filled, weights=result.weights).frame()
    if missing == "drop":
        table_of_predictions = table_of_predictions[known].reindex(table_of_predictions.index)
    evaluation = _compared(saved, frame, filled, known if missing == "drop" else np.ones(len(frame), bool))
    path = write_whole(
        output or Path(f"{data.name.split('.')[0]}-predictions.csv"), table_of_predictions.to_csv(index=False)
    )
    if as_json:
        print_json({"predictions": str(path), "num_rows": len(frame), "compared": evaluation, "notes": notes})
        return
    for note in notes:
        remark(note, quiet=quiet)
    first = _shown(table_of_predictions.iloc[:_SHOWN_ROWS])
    rows = [[str(k + 1), *map(_cell, row)] for k, row in enumerate(first.itertuples(index=False))]
    out.print(table(f"{shown(saved.problem.response.name)}, the first rows", ["row", *first.columns], rows))
    if evaluation is not None:
        figures = [[figure_name(name), figure(name, value)] for name, value in evaluation["metrics"].items()]
        out.print()
        out.print(table(f"Against the target in {evaluation['num_rows']:,} rows", ["", ""], figures))
    out.print(Text(f"\n{len(frame):,} predictions are in {path}"), soft_wrap=True)


def _compared(saved, frame, X, usable):
    """Evaluate where the table has the target and it is known."""
    response = saved.problem.response
    if response.name not in frame.columns:
        return None
    y = response.encode(frame[response.name])
    usable = usable & np.isfinite(y)
    if not usable.any():
        return None
    return evaluate(saved.problem, saved.result.particles, X[usable], y[usable], weights=saved.result.weights)


def _shown(first):
    """Return what fits on a screen: of many classes the probability of the one that is predicted."""
    if len(first.columns) <= _SHOWN_COLUMNS:
        return first
    return first[["prediction"]].assign(probability=first.iloc[:, 1:].max(axis=1))


def _cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)
