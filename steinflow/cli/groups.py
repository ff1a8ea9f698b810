"""`steinflow fit-groups`: a model for every group of a table."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from steinflow.cli import console, options
from steinflow.cli.formulas import check_choice, problem_name, problem_of
from steinflow.cli.outputs import keep
from steinflow.models.columns import counted, listed, shown
from steinflow.results.outcome import Outcome
from steinflow.results.summary import number
from steinflow.tables.groups import GroupRun, fit_each_group
from steinflow.tables.runs import checksum

_SHOWN_GROUPS = 20
_WIDTH = 20  # of a parameter: mean ± sd, and the space around
_LIGHTS = {"good": "green", "doubtful": "yellow", "bad": "red"}


@console.clear_errors
def fit_groups(
    data: options.Data,
    *,
    by: Annotated[
        list[str],
        typer.Option(
            "--by",
            "-b",
            metavar="COLUMN",
            help="The column that holds the group of each row. May be repeated: then each combination is a group.",
            show_default=False,
        ),
    ],
    target: options.Target = None,
    formula: options.Formulas = None,
    family: options.Family = None,
    link: options.Link = None,
    prior: options.Priors = None,
    weights: options.Weights = None,
    model: options.Model = None,
    min_rows: Annotated[int, typer.Option(min=1, help="Leave out groups with fewer complete rows.")] = 1,
    particles: Annotated[
        int | None,
        typer.Option(
            "--particles",
            "-n",
            min=1,
            help="Number of points that represent each posterior. Default: 100; 25 are several times faster.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of steps. Default: 1,000.", show_default=False),
    ] = None,
    seed: options.Seed = 0,
    output: options.NewRun = None,
    overwrite: options.ReplaceRun = False,
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    missing: options.MissingCells = None,
    encoding: options.Encoding = "utf-8",
    separator: options.Separator = None,
    decimal: options.Decimal = ".",
    thousands: options.Thousands = None,
    missing_marker: options.Markers = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 3 if the verdict on any group is red.", rich_help_panel="Output"),
    ] = False,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Fit the same model to every group of a table, all at once, and save one table and one figure.

    Standardisation, categories and default priors come from the whole table, so parameters can be compared between
    groups. No rows are held out. Groups learn nothing from each other: for models in which they do, use `steinflow fit`
    with a formula that contains (x | group).

    [bold]Examples[/bold]

      steinflow fit-groups sales.csv --by shop --target sold
      steinflow fit-groups bikes.csv --by weekday --by hour --formula "log(count) ~ temperature + wind"
    """
    problem = problem_of(formula, family, link, prior, weights, categorical, missing)
    check_choice(target, problem, model=model, drop=drop)
    if model == "network":
        raise typer.BadParameter(
            "fit-groups fits linear models only; to fit networks, run `steinflow fit` for each group.",
            param_hint="--model",
        )
    if target in by:
        raise typer.BadParameter("the --target column cannot also define the groups.", param_hint="--by")
    name = target or problem_name(problem)
    folder = options.new_folder(output, f"{data.name.split('.')[0]}-{name}-by-{'-'.join(by)}", overwrite=overwrite)
    frame = options.read(data, encoding, separator, decimal, thousands, missing_marker, quiet=quiet)
    console.remark(
        f"{shown(data.name)}: {counted(len(frame), 'row')}, {counted(frame.shape[1], 'column')}.", quiet=quiet
    )
    run = fit_each_group(
        frame,
        by,
        problem or name,
        where=data.name,
        model=model,
        missing=missing or "error",
        drop=drop or [],
        categorical=categorical or [],
        min_rows=min_rows,
        num_particles=particles,
        num_steps=steps,
        seed=seed,
        progress=console.show_progress(quiet=quiet),
    )
    for note in run.notes:
        console.remark(note, quiet=quiet)
    about = {"file": data.name, "sha256": checksum(data), "by": by, "target": name, "model": run.title, "seed": seed}
    command = shlex.join(["steinflow", *sys.argv[1:]])
    files = keep(partial(run.save, details={"data": about, "command": command}, overwrite=overwrite), folder)
    if as_json:
        found = {"run": str(folder), "model": run.title, "groups": run.to_json()}
        console.print_json({**found, "left_out": run.left_out, "notes": run.notes})
    else:
        _print(run, folder, files)
    if Outcome.INTERRUPTED in run.many.outcomes:
        console.remark(f"Interrupted; the particles so far are in {folder}.")
        raise typer.Exit(console.INTERRUPTED)
    if strict and "bad" in run.summary.levels:
        raise typer.Exit(console.DISTRUSTED)


def _print(run: GroupRun, folder: Path, files: list[str]) -> None:
    """Print mean and sd of the first parameters of the first groups, and how many posteriors to believe."""
    summary = run.summary
    space = console.out.width - max(map(len, summary.names[:_SHOWN_GROUPS])) - 24  # of rows and verdict
    chosen = range(min(len(summary.parameters), max(1, space // _WIDTH)))
    mean, sd = summary.columns["mean"], summary.columns["sd"]
    rows = [
        [
            name,
            f"{run.many[k].info['num_rows']:,}",
            *(f"{number(mean[k, p])} ± {number(sd[k, p])}" for p in chosen),
            console.light_text(_LIGHTS[str(summary.levels[k])]),
        ]
        for k, name in enumerate(summary.names[:_SHOWN_GROUPS])
    ]
    more = len(summary.names) - _SHOWN_GROUPS
    title = f"Mean ± sd by group: {run.title}"
    hidden = len(summary.parameters) - len(chosen)
    rest = [counted(count, what) for count, what in ((more, "group"), (hidden, "parameter")) if count > 0]
    title += f" ({' and '.join(rest)} more in groups.csv)" if rest else ""
    columns = ["", "rows", *(summary.parameters[p] for p in chosen), "inference"]
    console.out.print()
    console.out.print(console.table(title, columns, rows))
    console.out.print()
    for level, light in _LIGHTS.items():
        names = [name for name, own in zip(summary.names, summary.levels, strict=True) if own == level]
        if names:
            which = "" if level == "good" else f": {listed(names)}"
            line = Text.assemble(("●", light), f" {counted(len(names), 'posterior')} {level}{which}")
            console.out.print(line, soft_wrap=True)
    if "groups.png" not in files:
        console.remark("To get a figure of all groups: pip install 'steinflow[plot]'.")
    console.out.print(Text(f"\nThe run is in {folder}: {', '.join(files)}."), soft_wrap=True)
