"""The words and tables of a report. Every piece of text from outside passes through `_text`."""

import html
from typing import Any

from steinflow.tables.advice import advice
from steinflow.tables.features import Number
from steinflow.tables.runs import Run

_WORDS = {"green": "Trust it", "yellow": "Look closer", "red": "Do not trust it"}
_FIGURES = {
    "accuracy": ("Accuracy", "of the rows held out, predicted right"),
    "accuracy_of_guessing": ("Guessing", "accuracy of always saying the most frequent class"),
    "calibration_error": ("Calibration error", "0 is perfect: a probability of 70% comes true in 70% of the cases"),
    "rmse": ("Typical error", "root mean square, in units of the target"),
    "r2": ("R²", "variance explained; 1 is perfect, 0 is the mean"),
    "coverage_90": ("90% intervals", "of the rows held out lie in theirs; 90% is right"),
    "log_likelihood": ("Log-likelihood", "per row held out; higher is better"),
}


def body_of(run: Run) -> tuple[str, str]:
    """Return the title of a report and its body, as HTML."""
    response = run.problem.response
    title = f"{_text(response.name)} · steinflow"
    sections = [
        _header(run),
        _verdict(run),
        _cards(run),
        _notes(run),
        _section(
            "posterior",
            "The posterior",
            _about_units(run) + '<div id="forest" class="chart"></div>',
            _chart("marginals", "Each parameter", "Its density; the middle 90% is shaded.", classes="grid"),
            _chart(
                "pairs",
                "Two at a time",
                "Point at a particle to find it everywhere; numbers are correlations.",
                classes="matrix",
            ),
            _table_of_parameters(run),
        ),
        _motion(run),
        _section(
            "run",
            "How the run went",
            '<p class="hint">KSD, the Stein discrepancy, falls while the particles approach the posterior, and levels '
            "off at what so many particles can reach. The dispersion should end at 1: less is collapsed, more is too "
            "wide.</p>",
            '<div class="columns"><div id="ksd" class="chart"></div><div id="dispersion" class="chart"></div></div>',
        ),
        _held_out(run),
        _repeat(run),
    ]
    foot = "<footer>Made by <b>steinflow</b>. This file is complete: it loads nothing from anywhere.</footer>"
    return title, f'<main>{"".join(sections)}</main>{foot}<div id="tip" role="tooltip" hidden></div>'


def _header(run):
    data, info = run.data, run.result.info
    facts = [
        f"{data['num_rows']:,} rows fitted",
        f"{data['num_held_out']:,} held out",
        f"{len(run.problem.features.labels):,} features",
        f"{len(run.result):,} particles",
        f"{info['num_steps']:,} steps of {run.settings['method']}",
        f"{info['seconds']:.1f} s",
    ]
    facts_html = "".join(f"<li>{_text(fact)}</li>" for fact in facts)
    return (
        f'<header><p class="kicker">{_text(run.problem.title)}</p>'
        f"<h1>What predicts <em>{_text(run.problem.response.name)}</em>?</h1>"
        f'<p class="file">{_text(data.get("file", ""))}</p><ul class="facts">{facts_html}</ul></header>'
    )


def _verdict(run):
    verdict, chosen = run.result.verdict, run.light
    lights = "".join(
        f'<span class="light {level}{" on" if level == chosen else ""}"></span>' for level in ("red", "yellow", "green")
    )
    reasons = "".join(f"<li>{_text(_sentence(reason))}</li>" for reason in verdict.reasons)
    remedies = "".join(f"<li>{_text(_sentence(remedy))}</li>" for remedy in advice(run))
    what_to_do = f'<p class="todo">What to do</p><ul>{remedies}</ul>' if remedies else ""
    return (
        f'<section id="verdict" class="card {chosen}"><div class="lights" role="img" aria-label="{chosen}">'
        f"{lights}</div><div><h2>{_WORDS[chosen]}</h2><ul>{reasons}</ul>{what_to_do}"
        f'<p class="hint">How it ended: {_text(run.result.outcome)}</p></div></section>'
    )


def _cards(run):
    if run.evaluation is None:
        return ""
    cards = []
    for name, value in run.evaluation["metrics"].items():
        heading, hint = _FIGURES.get(name, (name, ""))
        cards.append(
            f'<div class="card figure"><p class="name">{_text(heading)}</p><p class="value">{_figure(name, value)}</p>'
            f'<p class="hint">{_text(hint)}</p></div>'
        )
    return f'<section class="cards">{"".join(cards)}</section>'


def _figure(name, value):
    if value is None:
        return "–"
    if name in ("accuracy", "accuracy_of_guessing", "coverage_90"):
        return f"{100 * value:.1f}%"
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.4g}"


def _notes(run):
    if not run.notes:
        return ""
    notes = "".join(f"<li>{_text(note)}</li>" for note in run.notes)
    return f'<section class="card notes"><h2>About the data</h2><ul>{notes}</ul></section>'


def _about_units(run):
    if run.problem.hidden:
        what = "Weights of a network mean little one by one; look at the predictions."
    elif run.problem.response.kind == "numbers":
        what = f"How much {_text(run.problem.response.name)} changes when a feature grows by one standard deviation."
    elif run.problem.response.kind == "counts":
        what = "How much the logarithm of the mean changes when a feature grows by one standard deviation."
    elif len(run.problem.response.labels) == 2:
        second = _text(run.problem.response.labels[1])
        what = f"How much the log-odds of “{second}” change when a feature grows by one standard deviation."
    else:
        what = "How much the score of a class changes when a feature grows by one standard deviation."
    categories = [column for column in run.problem.features.columns if not isinstance(column, Number)]
    if categories and not run.problem.hidden:
        what += " A category is compared with the most frequent one of its column."
    return f'<p class="hint">{what} Dot: mean; thick: middle half; thin: middle 90%.</p>'


def _table_of_parameters(run):
    parameters = run.parameters().clearest_first()
    low, middle, high = parameters.quantiles((0.05, 0.5, 0.95))
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th>' + "".join(f"<td>{value:.4g}</td>" for value in values) + "</tr>"
        for name, *values in zip(parameters.names, parameters.mean, parameters.sd, low, middle, high, strict=True)
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "mean", "sd", "5%", "50%", "95%"))
    return (
        f'<details><summary>All {len(parameters.names):,} parameters in numbers</summary><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _motion(run):
    if "parameters" not in run.result.history:
        return ""
    controls = (
        '<div class="controls"><button id="play" type="button" aria-label="Play">▶</button>'
        '<input id="slider" type="range" min="0" value="0" step="1" aria-label="Step">'
        '<output id="step" for="slider"></output></div>'
        '<div class="choices"><label>across <select id="across"></select></label>'
        '<label>up <select id="up"></select></label>'
        '<label><input id="zoom" type="checkbox"> zoom to the end</label></div>'
    )
    return _section(
        "motion-section",
        "The particles in motion",
        '<p class="hint">Each point is a particle, one complete guess of all parameters. They are drawn to where the '
        "posterior is high, and pushed apart so that together they show its spread.</p>",
        f'<div id="motion" class="chart"></div>{controls}',
    )


def _held_out(run):
    if run.evaluation is None:
        return ""
    if run.problem.response.kind == "classes":
        first = '<div id="probabilities" class="chart"></div>' if len(run.problem.response.labels) == 2 else ""
        charts = f'{first}<div id="calibration" class="chart"></div><div id="confusion"></div>'
        hint = "Predicted probabilities against what was true, on rows that the fit has not seen."
    else:
        charts = '<div id="scatter" class="chart"></div><div id="calibration" class="chart"></div>'
        hint = "Predictions with their 90% intervals against what was true, on rows that the fit has not seen."
    return _section(
        "predictions",
        f"Predictions for {run.evaluation['num_rows']:,} rows held out",
        f'<p class="hint">{hint}</p><div class="columns">{charts}</div>',
    )


def _repeat(run):
    settings = {**run.settings, **run.data}
    words = {"num_rows": "rows fitted", "num_held_out": "rows held out", "num_steps": "steps at most"}
    rows: list[tuple[str, Any]] = [*settings.items(), ("made", run.created), *run.versions.items()]
    cells = "".join(
        f'<tr><th scope="row">{_text(words.get(name, name.replace("num_", "").replace("_", " ")))}</th>'
        f"<td>{_text('all rows' if value is None else value)}</td></tr>"
        for name, value in rows
    )
    columns = "".join(f"<tr>{_column(column)}</tr>" for column in run.problem.features.columns)
    return _section(
        "repeat",
        "To repeat it",
        f'<pre id="command">{_text(run.command)}</pre>',
        f'<details open><summary>Settings, data and versions</summary><div class="scroll"><table>{cells}</table></div>'
        "</details>",
        '<details><summary>What was made of each column</summary><div class="scroll"><table><thead><tr>'
        '<th scope="col">column</th><th scope="col">taken as</th></tr></thead><tbody>'
        f"{columns}</tbody></table></div></details>",
    )


def _column(column):
    if isinstance(column, Number):
        what = f"a number, mean {column.shift:.4g}, sd {column.scale:.4g}"
    else:
        what = f"categories {', '.join(column.values)}, compared with {column.reference}"
    return f'<th scope="row">{_text(column.name)}</th><td>{_text(what)}</td>'


def _chart(name, heading, hint, *, classes):
    return f'<h3>{heading}</h3><p class="hint">{hint}</p><div id="{name}" class="{classes}"></div>'


def _section(name, heading, *parts):
    return f'<section id="{name}" class="card"><h2>{heading}</h2>{"".join(parts)}</section>'


def _sentence(text):
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _text(value) -> str:
    """Return text from outside as HTML that shows it and nothing else."""
    return html.escape(str(value), quote=True)
