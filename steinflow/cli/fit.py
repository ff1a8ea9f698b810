"""`steinflow fit`: from a table to a saved posterior."""

import shlex
import sys
from functools import partial
from typing import Annotated, Any

import typer

from steinflow.cli import console, options
from steinflow.cli.formulas import check_choice, problem_name, problem_of
from steinflow.cli.outputs import effects_of_run, keep, print_run, summary_of
from steinflow.models.columns import counted, shown
from steinflow.results.outcome import Outcome
from steinflow.tables.fitting import MethodName, Prepared, prepare, run_fit
from steinflow.tables.formulas import fit_formula
from steinflow.tables.runs import checksum

_HIDDEN = (50,)


@console.clear_errors
def fit(
    data: options.Data,
    *,
    target: options.Target = None,
    formula: options.Formulas = None,
    family: options.Family = None,
    link: options.Link = None,
    prior: options.Priors = None,
    weights: options.Weights = None,
    model: options.Model = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="UNITS",
            help="Units in each hidden layer of a network, for example 50 or 50,20. Default: 50.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        MethodName | None,
        typer.Option(help="Inference method. Default: svgd, or ensemble for a network.", show_default=False),
    ] = None,
    particles: Annotated[
        int | None,
        typer.Option(
            "--particles",
            "-n",
            min=1,
            help="Number of points that represent the posterior. Default: 100, or 10 exploring ones for a network.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of steps; a run stops earlier when its particles have settled. Default: 1,000, or "
            "10,000 per hidden layer for a network.",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    output: options.NewRun = None,
    overwrite: options.ReplaceRun = False,
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    missing: options.MissingCells = None,
    test_fraction: Annotated[
        float, typer.Option(help="Fraction of the rows to hold out for testing; 0 for none.", rich_help_panel="Data")
    ] = 0.2,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows per step. Default: all rows if there are at most 10,000, otherwise 1,000; for a network 100 to "
            "1,000.",
            show_default=False,
            rich_help_panel="Data",
        ),
    ] = None,
    encoding: options.Encoding = "utf-8",
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    thousands: options.Thousands = None,
    missing_marker: options.Markers = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with code 3 if the verdict on the inference is red, or 4 if a check of the model is red.",
            rich_help_panel="Output",
        ),
    ] = False,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Fit a Bayesian regression to a table and save the run.

    Text columns with few different values become categories. Numbers are standardised. Some rows are held out, to see
    how well the posterior predicts them.

    [bold]Examples[/bold]

      steinflow fit houses.csv --target price
      steinflow fit patients.csv --target ill --drop name --missing mean
      steinflow fit visits.parquet -t count --model poisson --method nuts --output runs/visits
      steinflow fit scores.csv --formula "score ~ age + (1 | school)" --prior "age=Normal(0, 5)"
    """
    layers = _layers(hidden, model)
    problem = problem_of(formula, family, link, prior, weights, categorical, missing)
    check_choice(target, problem, model=model, drop=drop)
    name = target or problem_name(problem)
    folder = options.new_folder(output, f"{data.name.split('.')[0]}-{name}", overwrite=overwrite)
    frame = options.read(data, encoding, separator, decimal, thousands, missing_marker, quiet=quiet)
    console.remark(
        f"{shown(data.name)}: {counted(len(frame), 'row')}, {counted(frame.shape[1], 'column')}.", quiet=quiet
    )
    about = {
        "file": data.name,
        "sha256": checksum(data),
        "split": f"{test_fraction:g} held out with seed {seed}",
        "target": name,
    }
    settings: Any = {
        "method": method,
        "num_particles": particles,
        "num_steps": steps,
        "batch_size": batch_size,
        "seed": seed,
        "progress": console.show_progress(quiet=quiet),
        "data": about,
        "command": shlex.join(["steinflow", *sys.argv[1:]]),
    }
    if problem is None:
        prepared = prepare(
            frame,
            name,
            where=data.name,
            model=model,
            hidden=layers,
            missing=missing or "error",
            drop=drop or [],
            categorical=categorical or [],
            test_fraction=test_fraction,
            seed=seed,
        )
        _say_what_comes(prepared, quiet=quiet)
        run, said = run_fit(prepared, **settings), len(prepared.notes)
    else:
        console.remark(f"{problem.title}.", quiet=quiet)
        run, said = fit_formula(frame, problem, test_fraction=test_fraction, **settings), 0
    for note in run.notes[said:]:
        console.remark(note, quiet=quiet)
    keep(partial(run.save, overwrite=overwrite), folder)
    if as_json:
        console.print_json(summary_of(run, folder) | effects_of_run(run))
    else:
        print_run(run, folder)
    if run.result.outcome is Outcome.INTERRUPTED:
        done, wanted = run.result.info["num_steps"], run.settings["num_steps"]
        console.remark(f"Interrupted at step {done} of {wanted}; the particles so far are in {folder}.")
        raise typer.Exit(console.INTERRUPTED)
    if strict and "red" in (run.light, run.model_light):
        raise typer.Exit(console.DISTRUSTED if run.light == "red" else console.MISFIT)


def _say_what_comes(prepared: Prepared, *, quiet: bool) -> None:
    problem = prepared.problem
    lines = [
        f"{problem.title[:1].upper()}{problem.title[1:]}: {prepared.reason}. "
        f"{counted(len(problem.features.labels), 'feature')}, {len(prepared.y):,} rows to fit, "
        f"{len(prepared.held_out[1]):,} held out.",
        *prepared.notes,
    ]
    for line in lines:
        console.remark(line, quiet=quiet)


def _layers(hidden, model):
    if hidden is None:
        return _HIDDEN
    if model != "network":
        raise typer.BadParameter("this option is only for networks; add --model network.", param_hint="--hidden")
    layers = [int(part) if part.strip().isdecimal() else 0 for part in hidden.split(",")]
    if min(layers) < 1:
        raise typer.BadParameter(
            f"give the number of units in each hidden layer, such as 50 or 50,20; got '{shown(hidden)}'.",
            param_hint="--hidden",
        )
    return tuple(layers)
