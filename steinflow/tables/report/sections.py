"""The words and tables of a report. Every piece of text from outside passes through `_text`."""

import html
from typing import Any

from steinflow.results.summary import number
from steinflow.tables.advice import WORDS, advice, sentence
from steinflow.tables.features import Number
from steinflow.tables.predictions import METRICS
from steinflow.tables.runs import Run


def body_of(run: Run) -> tuple[str, str]:
    """Return the title of a report and its body, as HTML."""
    response = run.regression[0].response
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
            _chart("marginals", "Each parameter", "The density of each; the central 90% is shaded.", classes="grid"),
            _chart(
                "pairs",
                "Two at a time",
                "Point at a particle to find it in every plot. The numbers are correlations.",
                classes="matrix",
            ),
            _table_of_parameters(run),
        ),
        _motion(run),
        _section(
            "run",
            "How the run went",
            '<p class="hint">KSD, the kernelized Stein discrepancy, falls while the particles approach the posterior, '
            "and levels off at the best that so many particles can do. The dispersion should end at 1: below that the "
            "particles are too close together, above it they are too far apart.</p>",
            '<div class="columns"><div id="ksd" class="chart"></div><div id="dispersion" class="chart"></div></div>',
        ),
        _held_out(run),
        _repeat(run),
    ]
    foot = "<footer>Made by <b>steinflow</b>. This file is self-contained: it loads nothing from the network.</footer>"
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
    reasons = "".join(f"<li>{_text(sentence(reason))}</li>" for reason in verdict.reasons)
    remedies = "".join(f"<li>{_text(sentence(remedy))}</li>" for remedy in advice(run))
    what_to_do = f'<p class="todo">What to do</p><ul>{remedies}</ul>' if remedies else ""
    return (
        f'<section id="verdict" class="card {chosen}"><div class="lights" role="img" aria-label="{chosen}">'
        f"{lights}</div><div><h2>{WORDS[chosen]}</h2><ul>{reasons}</ul>{what_to_do}"
        f'<p class="hint">How it ended: {_text(run.result.ending)}</p></div></section>'
    )


def _cards(run):
    if run.evaluation is None:
        return ""
    cards = "".join(
        f'<div class="card metric"><p class="name">{_text(METRICS[name].heading)}</p>'
        f'<p class="value">{METRICS[name].text(value)}</p><p class="hint">{_text(METRICS[name].hint)}</p></div>'
        for name, value in run.evaluation["metrics"].items()
    )
    return f'<section class="cards">{cards}</section>'


def _notes(run):
    if not run.notes:
        return ""
    notes = "".join(f"<li>{_text(note)}</li>" for note in run.notes)
    return f'<section class="card notes"><h2>About the data</h2><ul>{notes}</ul></section>'


def _about_units(run):
    if run.problem.hidden:
        what = "Single weights of a network mean little; look at the predictions."
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
        what += (
            " A category is compared with the most frequent one in its column. The intercept is for the average row."
        )
    return f'<p class="hint">{what} Dot: mean; thick line: central 50%; thin line: central 90%.</p>'


def _table_of_parameters(run):
    parameters = run.parameters().clearest_first()
    low, middle, high = parameters.quantiles((0.05, 0.5, 0.95))
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th>' + "".join(f"<td>{number(value)}</td>" for value in values) + "</tr>"
        for name, *values in zip(parameters.names, parameters.mean, parameters.sd, low, middle, high, strict=True)
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "mean", "sd", "5%", "50%", "95%"))
    return (
        f'<details><summary>All {len(parameters.names):,} parameters as a table</summary><div class="scroll"><table>'
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
        '<p class="hint">Each point is a particle: a value for every parameter. The particles are drawn to where '
        "the posterior is high, and pushed apart, so that together they show its spread.</p>",
        f'<div id="motion" class="chart"></div>{controls}',
    )


def _held_out(run):
    if run.evaluation is None:
        return ""
    if run.problem.response.kind == "classes":
        first = '<div id="probabilities" class="chart"></div>' if len(run.problem.response.labels) == 2 else ""
        charts = f'{first}<div id="calibration" class="chart"></div><div id="confusion"></div>'
        hint = "Predicted probabilities and what came true, for rows that the fit has not seen."
    else:
        charts = '<div id="scatter" class="chart"></div><div id="calibration" class="chart"></div>'
        hint = "Predictions with their 90% intervals and what came true, for rows that the fit has not seen."
    return _section(
        "predictions",
        f"Predictions for {run.evaluation['num_rows']:,} held-out rows",
        f'<p class="hint">{hint}</p><div class="columns">{charts}</div>',
    )


def _repeat(run):
    settings = {**run.settings, **run.data}
    words = {"num_rows": "rows fitted", "num_held_out": "rows held out", "num_steps": "most steps"}
    rows: list[tuple[str, Any]] = [*settings.items(), ("made", run.created), *run.versions.items()]
    cells = "".join(
        f'<tr><th scope="row">{_text(words.get(name, name.replace("num_", "").replace("_", " ")))}</th>'
        f"<td>{_text('all rows' if value is None else value)}</td></tr>"
        for name, value in rows
    )
    features = run.problem.features
    sds = iter(run.estimator.scale_[features.are_numbers])
    columns = "".join(f"<tr>{_column(column, sds)}</tr>" for column in features.columns)
    return _section(
        "repeat",
        "How to repeat it",
        f'<pre id="command">{_text(run.command)}</pre>',
        f'<details open><summary>Settings, data and versions</summary><div class="scroll"><table>{cells}</table></div>'
        "</details>",
        '<details><summary>How each column was used</summary><div class="scroll"><table><thead><tr>'
        '<th scope="col">column</th><th scope="col">used as</th></tr></thead><tbody>'
        f"{columns}</tbody></table></div></details>",
    )


def _column(column, sds):
    if isinstance(column, Number):
        what = f"a number, mean {number(column.mean)}, sd {number(next(sds))}"
    else:
        what = f"categories {', '.join(column.values)}, compared with {column.reference}"
    return f'<th scope="row">{_text(column.name)}</th><td>{_text(what)}</td>'


def _chart(name, heading, hint, *, classes):
    return f'<h3>{heading}</h3><p class="hint">{hint}</p><div id="{name}" class="{classes}"></div>'


def _section(name, heading, *parts):
    return f'<section id="{name}" class="card"><h2>{heading}</h2>{"".join(parts)}</section>'


def _text(value) -> str:
    """Return text from outside as HTML that shows it and nothing else."""
    return html.escape(str(value), quote=True)
