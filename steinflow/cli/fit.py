"""`steinflow fit`: from a table to a saved posterior."""

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from steinflow.cli.console import (
    DISTRUSTED,
    INTERRUPTED,
    Debug,
    Json,
    Quiet,
    clear_errors,
    figure,
    figure_name,
    out,
    print_json,
    print_verdict,
    remark,
    show_progress,
    table,
)
from steinflow.cli.options import Data, Decimal, Encoding, Markers, Separator, read
from steinflow.tables.advice import advice
from steinflow.tables.features import Missing
from steinflow.tables.fitting import MethodName, Prepared, prepare, run_fit
from steinflow.tables.responses import ModelName
from steinflow.tables.runs import Run, check_free, free_folder
from steinflow.tables.tables import counted, shown

_SHOWN_PARAMETERS = 15


@clear_errors
def fit(
    data: Data,
    *,
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.", show_default=False)
    ],
    model: Annotated[
        ModelName | None,
        typer.Option(
            "--model", "-m", help="Chosen from the target if not given, with a word about why.", show_default=False
        ),
    ] = None,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers of a network, as 50 or 50,20.")] = "50",
    method: Annotated[
        MethodName | None,
        typer.Option(help="Inference method: svgd, or svgd-network for a network, if not given.", show_default=False),
    ] = None,
    particles: Annotated[
        int, typer.Option("--particles", "-n", min=1, help="Points that stand for the posterior.")
    ] = 100,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="At most; a run stops when its particles have settled. 1,000, or ten passes, if not given; "
            "2,000, or 50 passes, for a network.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same run.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the run; runs/NAME if not given.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in that folder.")] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column to leave out, such as a name or a number of a row; may be repeated.",
            show_default=False,
            rich_help_panel="Data",
        ),
    ] = None,
    missing: Annotated[
        Missing,
        typer.Option(
            help="What to do about missing values: stop, drop these rows, or fill in the column's mean.",
            rich_help_panel="Data",
        ),
    ] = "error",
    test_fraction: Annotated[
        float, typer.Option(help="Part of the rows to hold out and predict; 0 for none.", rich_help_panel="Data")
    ] = 0.2,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows per step; all of them up to 10,000, and 1,000 above, if not given; 100 to 1,000 for a network.",
            show_default=False,
            rich_help_panel="Data",
        ),
    ] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    decimal: Decimal = ".",
    missing_marker: Markers = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End with exit code 3 if the verdict is red.", rich_help_panel="Output"),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a Bayesian regression to a table and save the run.

    Columns of text with few different values become categories; numbers are standardised. A part of the rows is held
    out, and the posterior is judged by how well it predicts them.

    [bold]Examples[/bold]

      steinflow fit houses.csv --target price
      steinflow fit patients.csv --target ill --drop name --missing mean
      steinflow fit visits.parquet -t count --model poisson --method nuts --output runs/visits
    """
    folder = output or free_folder(f"{data.name.split('.')[0]}-{target}")
    check_free(folder, overwrite=overwrite)  # before the work, not after it
    frame = read(data, encoding, separator, decimal, missing_marker)
    remark(f"{shown(data.name)}: {counted(len(frame), 'row')}, {counted(frame.shape[1], 'column')}.", quiet=quiet)
    prepared = prepare(
        frame,
        target,
        where=data.name,
        model=model,
        hidden=_layers(hidden),
        missing=missing,
        drop=drop or [],
        test_fraction=test_fraction,
        seed=seed,
    )
    _say_what_comes(prepared, quiet=quiet)
    run = run_fit(
        prepared,
        method=method,
        num_particles=particles,
        num_steps=steps,
        batch_size=batch_size,
        seed=seed,
        progress=show_progress(quiet=quiet),
        data={
            "file": data.name,
            "sha256": _checksum(data),
            "split": f"{test_fraction:g} held out with seed {seed}",
            "target": target,
        },
        command=shlex.join(["steinflow", *sys.argv[1:]]),
    )
    for note in run.notes[len(prepared.notes) :]:
        remark(note, quiet=quiet)
    run.save(folder, overwrite=overwrite)
    interrupted = run.result.outcome.status == "interrupted"
    if as_json:
        print_json(summary_of(run, folder))
    else:
        print_run(run, folder)
    if interrupted:
        done, wanted = run.result.info["num_steps"], run.settings["num_steps"]
        remark(f"Interrupted at step {done} of {wanted}; the particles so far are in {folder}.")
        raise typer.Exit(INTERRUPTED)
    if strict and run.light == "red":
        raise typer.Exit(DISTRUSTED)


def print_run(run: Run, folder: Path) -> None:
    """Print parameters, figures on held-out rows, the verdict, and what to do next."""
    out.print()
    out.print(_parameters(run))
    if run.evaluation is not None:
        rows = [[figure_name(name), figure(name, value)] for name, value in run.evaluation["metrics"].items()]
        out.print()
        out.print(table(f"On {run.evaluation['num_rows']:,} rows held out", ["", ""], rows))
    out.print()
    print_verdict(run.light, run.result.verdict, advice(run))
    info = run.result.info
    out.print(
        Text(
            f"\n{len(run.result):,} particles, {info['num_steps']:,} steps of {run.settings['method']} in "
            f"{info['seconds']:.1f} s. The run is in {folder}\n"
        ),
        soft_wrap=True,
    )
    out.print(Text.assemble("See it:      ", (f"steinflow report {shlex.quote(str(folder))}", "bold")), soft_wrap=True)
    out.print(
        Text.assemble("Predict:     ", (f"steinflow predict {shlex.quote(str(folder))} NEW.csv", "bold")),
        soft_wrap=True,
    )


def summary_of(run: Run, folder: Path) -> dict[str, Any]:
    """Return a run as plain values for scripts."""
    verdict = run.result.verdict
    parameters = run.parameters()
    return {
        "run": str(folder),
        "model": run.problem.model,
        "verdict": {
            "light": run.light,
            "level": verdict.level,
            "reasons": verdict.reasons,
            "remedies": advice(run),
        },
        "outcome": {"status": run.result.outcome.status, "message": run.result.outcome.message},
        "ksd": run.result.ksd,
        "dispersion": float(np.median(run.result.dispersion)),
        "seconds": run.result.info["seconds"],
        "settings": run.settings,
        "data": run.data,
        "held_out": run.evaluation,
        "parameters": {
            name: {"mean": float(mean), "sd": float(sd)}
            for name, mean, sd in zip(parameters.names, parameters.mean, parameters.sd, strict=True)
        },
        "notes": run.notes,
    }


def _parameters(run):
    parameters = run.parameters().clearest_first()
    rows = _rows(parameters.coefficients(_SHOWN_PARAMETERS)) + _rows(parameters.others())
    more = parameters.num_coefficients - _SHOWN_PARAMETERS
    title = "Posterior, the clearest first" + (f" ({more} more in the report)" if more > 0 else "")
    return table(title, ["per sd of a feature", "mean", "sd", "5%", "95%"], rows)


def _rows(parameters):
    figures = zip(parameters.mean, parameters.sd, *parameters.quantiles((0.05, 0.95)), strict=True)
    return [[name, *(f"{v:.3g}" for v in row)] for name, row in zip(parameters.names, figures, strict=True)]


def _say_what_comes(prepared: Prepared, *, quiet: bool) -> None:
    problem = prepared.problem
    labels = problem.features.labels
    remark(
        f"{problem.title.capitalize()}: {prepared.reason}. {len(labels)} features, {len(prepared.y):,} rows to fit, "
        f"{len(prepared.held_out[1]):,} held out.",
        quiet=quiet,
    )
    if problem.hidden:
        remark("Runs on parts of the rows choose the width of the prior first.", quiet=quiet)
    for note in prepared.notes:
        remark(note, quiet=quiet)


def _layers(text):
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        layers = ()
    if not layers or min(layers) < 1:
        raise ValueError(f"--hidden lists the units of every hidden layer, as 50 or 50,20; got '{shown(text)}'.")
    return layers


def _checksum(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
