"""`steinflow report` and `steinflow compare`: look at saved runs."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from steinflow.cli.console import (
    Debug,
    Json,
    clear_errors,
    figure,
    figure_name,
    light_text,
    out,
    print_json,
    remark,
    table,
)
from steinflow.cli.fit import summary_of
from steinflow.cli.options import RunFolder
from steinflow.tables.report import report_html
from steinflow.tables.runs import load_run, write_whole

_HIGHER_IS_BETTER = {"accuracy": True, "log_likelihood": True, "r2": True, "rmse": False, "calibration_error": False}


@clear_errors
def report(
    run: RunFolder,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write; RUN/report.html if not given.", show_default=False),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write one HTML file about a run that opens anywhere, offline.

    A verdict with its reasons, the posterior, the particles in motion, how the run went, predictions against the rows
    held out, and how to repeat it.
    """
    path = write_whole(output or run / "report.html", report_html(load_run(run)))
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        out.print(Text(f"The report is in {path} ({path.stat().st_size / 1e3:,.0f} kB)."), soft_wrap=True)
    if open_it:
        webbrowser.open(path.resolve().as_uri())


@clear_errors
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of two or more runs.", show_default=False)],
    *,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Put runs side by side: verdict, figures on held-out rows, and what they cost.

    Figures can be compared where the runs held out the same rows of the same file; a remark says where they did not.
    """
    if len(runs) < 2:
        raise ValueError("Comparing takes at least two runs; `steinflow report RUN` is about one.")
    loaded = [load_run(folder) for folder in runs]
    summaries = [summary_of(run, folder) for run, folder in zip(loaded, runs, strict=True)]
    comparable = len({(run.data.get("sha256"), run.data.get("split"), run.data.get("target")) for run in loaded}) == 1
    if as_json:
        print_json({"comparable": comparable, "runs": summaries})
        return
    names = _distinct(runs)
    rows = [["verdict", *(light_text(summary["verdict"]["light"]) for summary in summaries)]]
    for what in ("model", "method", "num_particles", "batch_size"):
        rows.append([what.replace("num_", "").replace("_", " "), *(_plain(s["settings"][what]) for s in summaries)])
    rows.append(["steps", *(f"{run.result.info['num_steps']:,}" for run in loaded)])
    rows.append(["seconds", *(f"{summary['seconds']:.1f}" for summary in summaries)])
    rows.append(["KSD", *(f"{summary['ksd']:.3g}" for summary in summaries)])
    rows.append(["dispersion (1 is right)", *(f"{summary['dispersion']:.2f}" for summary in summaries)])
    rows += _figures(summaries, mark_best=comparable)
    out.print(table("", ["", *names], rows))
    if not comparable:
        remark("These runs did not hold out the same rows of the same file, so their figures are not comparable.")


def _figures(summaries, *, mark_best):
    metrics = [(summary["held_out"] or {"metrics": {}})["metrics"] for summary in summaries]
    rows = []
    for name in dict.fromkeys(name for one in metrics for name in one):
        values = [one.get(name) for one in metrics]
        known = [value for value in values if value is not None]
        best = max(known) if _HIGHER_IS_BETTER.get(name) else min(known)
        ranked = mark_best and name in _HIGHER_IS_BETTER and len(set(known)) > 1
        cells = [Text(figure(name, v), style="bold green" if ranked and v == best else "") for v in values]
        rows.append([figure_name(name), *cells])
    return rows


def _distinct(folders):
    """Return the last parts of the paths if they differ, the whole paths otherwise."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _plain(value):
    return "all rows" if value is None else str(value)
