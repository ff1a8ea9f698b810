"""`steinflow report` and `steinflow compare`: look at saved runs."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from steinflow.cli import console, options
from steinflow.cli.outputs import summary_of
from steinflow.models.columns import counted, shown
from steinflow.results.files import write_whole
from steinflow.results.summary import number
from steinflow.tables.comparison import are_comparable, behind_the_best, by_leave_one_out, log_evidence, rows_in_common
from steinflow.tables.effects import about_effects
from steinflow.tables.predictions import METRICS
from steinflow.tables.report import report_html
from steinflow.tables.runs import load_run

_SHOWN_PARAMETERS = 20


@console.clear_errors
def report(
    run: options.RunFolder,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write. Default: RUN/report.html.", show_default=False),
    ] = None,
    overwrite: options.Overwrite = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: console.Json = False,
    debug: console.Debug = False,
) -> None:
    """Write a report about a run: one HTML file that opens anywhere, offline.

    The report shows the verdict on the inference, the checks of the model, the posterior, the particles in motion, how
    the run went, predictions for held-out rows, and how to repeat the run. For formulas it also shows the effects of
    predictors and groups.
    """
    options.check_new_file(output, overwrite=overwrite)
    path = write_whole(output or run / "report.html", report_html(load_run(run)))
    if as_json:
        console.print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        console.out.print(Text(f"The report is in {path} ({path.stat().st_size / 1e3:,.0f} kB)."), soft_wrap=True)
    if open_it:
        webbrowser.open(path.resolve().as_uri())


@console.clear_errors
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of two or more runs.", show_default=False)],
    *,
    loo: Annotated[
        bool,
        typer.Option("--loo", help="Also compare by leave-one-out: how well each fitted row follows from the others."),
    ] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also show the log evidence, for formulas where it can be computed.")
    ] = False,
    as_json: console.Json = False,
    debug: console.Debug = False,
) -> None:
    """Show runs side by side: verdict, checks of the model, metrics on held-out rows, and coefficients.

    Metrics can be compared only if the runs held out the same rows of the same file; a remark says if they did not.
    The difference in log-likelihood from the best run comes with its standard error: a difference of less than two
    standard errors means nothing.
    """
    if len(runs) < 2:
        raise ValueError("A comparison needs at least two runs; for one run, use `steinflow report RUN`.")
    loaded = [load_run(folder) for folder in runs]
    summaries = [summary_of(run, folder) for run, folder in zip(loaded, runs, strict=True)]
    comparable, common, differences = are_comparable(loaded), len(rows_in_common(loaded)), behind_the_best(loaded)
    evidences = [log_evidence(run) for run in loaded] if evidence else None
    left_out = by_leave_one_out(loaded) if loo else None
    if as_json:
        found = {"comparable": comparable, "rows_in_common": common, "runs": summaries, "differences": differences}
        more = {"loo": left_out, "evidence": evidences}
        console.print_json(found | {name: values for name, values in more.items() if values is not None})
        return
    names = _distinct(runs)
    rows = [
        ["inference", *(console.light_text(run.light) for run in loaded)],
        ["model", *(console.light_text(run.model_light) if run.model_light else "–" for run in loaded)],
    ]
    rows.append(["family", *(summary["model"] for summary in summaries)])
    rows.append(["method", *(run.settings["method"] for run in loaded)])
    rows.append(["size", *(run.size for run in loaded)])
    rows.append(["batch size", *(_plain(run.settings["batch_size"]) for run in loaded)])
    rows.append(["steps", *(f"{run.result.info['num_steps']:,}" for run in loaded)])
    rows.append(["seconds", *(f"{summary['seconds']:.1f}" for summary in summaries)])
    if any(not run.problem.hidden for run in loaded):
        rows.append(["KSD", *(_number(summary["ksd"]) for summary in summaries)])
        rows.append(["dispersion (1 is right)", *(_number(summary["dispersion"], ".2f") for summary in summaries)])
    rows += _metrics(summaries, mark_best=comparable)
    if differences is not None:
        rows.append(["log-likelihood, behind the best", *map(_difference, differences)])
    if left_out is not None:
        size = max(each["num_rows"] or 0 for each in left_out)
        rows.append(
            [
                f"elpd by leave-one-out, {counted(size, 'row')}",
                *(_with_error(each, "elpd", "standard_error") for each in left_out),
            ]
        )
        rows.append(
            ["elpd, behind the best", *(_with_error(each, "difference", "difference_error") for each in left_out)]
        )
        rows.append(["largest Pareto k", *("?" if e["pareto_k"] is None else f"{e['pareto_k']:.2f}" for e in left_out)])
    if evidences is not None:
        rows.append(["log evidence", *map(_evidence, evidences)])
    console.out.print(console.table("", ["", *names], rows))
    console.out.print()
    console.out.print(_coefficients(loaded, names))
    for name, each in zip(names, evidences or [], strict=False):
        if each["reason"]:
            console.remark(f"{name}: the log evidence is unknown: {each['reason']}.")
    for name, each in zip(names, left_out or [], strict=False):
        if each["reason"]:
            console.remark(f"{name}, leave-one-out: {each['reason']}.")
    if not comparable:
        remark = "These runs did not hold out the same rows of the same file, so their metrics are not comparable."
        if differences is not None:
            remark += (
                f" The difference in log-likelihood is about the {counted(common, 'row')} that all of them held out."
            )
        console.remark(remark)


def _metrics(summaries, *, mark_best):
    evaluations = [summary["held_out"]["metrics"] if summary["held_out"] else {} for summary in summaries]
    rows = []
    for name in dict.fromkeys(name for metrics in evaluations for name in metrics):
        metric, values = METRICS[name], [metrics.get(name) for metrics in evaluations]
        known = {value for value in values if value is not None}
        best = metric.best(known) if mark_best and metric.best is not None and len(known) > 1 else None
        cells = [Text(metric.text(v), style="bold green" if v is not None and v == best else "") for v in values]
        rows.append([metric.name, *cells])
    return rows


def _difference(difference):
    return _with_error(difference, "mean", "standard_error")


def _with_error(values, name, error):
    value = values[name]
    if value is None:
        return "?"
    return "best" if value == 0 else f"{number(value)} ± {number(values[error])}"


def _evidence(evidence):
    return "?" if evidence["reason"] else f"{evidence['value']:.2f} ± {number(evidence['standard_error'])}"


def _coefficients(runs, names):
    """Return means and sds of coefficients side by side; the clearest coefficients of the first run come first."""
    columns = [run.parameters().clearest_first() for run in runs]
    found = [dict(zip(p.names, zip(p.mean, p.sd, strict=True), strict=True)) for p in columns]
    every = list(dict.fromkeys(name for parameters in columns for name in parameters.names))
    cells = [[name, *(_mean_and_sd(of.get(name)) for of in found)] for name in every[:_SHOWN_PARAMETERS]]
    on = dict.fromkeys(f"on {shown(about_effects(run))}" for run in runs)
    more = f" ({len(every) - _SHOWN_PARAMETERS} more with --json)" if len(every) > _SHOWN_PARAMETERS else ""
    return console.table(f"Mean ± sd of effects {', '.join(on)}{more}", ["", *names], cells)


def _mean_and_sd(pair):
    return "" if pair is None else f"{number(pair[0])} ± {number(pair[1])}"


def _distinct(folders):
    """Return the last parts of the paths if they differ, the whole paths otherwise."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _number(value, digits=None):
    return "–" if value is None else number(value) if digits is None else f"{value:{digits}}"


def _plain(value):
    return "all rows" if value is None else str(value)
