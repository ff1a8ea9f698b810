"""The words and tables of a report. Every piece of text from outside passes through `_text`."""

import html
from typing import Any

from steinflow.estimators.features import Number
from steinflow.results.summary import number
from steinflow.tables.advice import MODEL_WORDS, WORDS, advice, sentence
from steinflow.tables.effects import about_effects, about_others
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem
from steinflow.tables.predictions import METRICS
from steinflow.tables.report.content import kind_and_labels, response_name
from steinflow.tables.report.words import model_in_words
from steinflow.tables.runs import Run


def body_of(run: Run, charts: dict[str, Any]) -> tuple[str, str]:
    """Return the title of a report and its body, as HTML; the charts are those of `charts_of`."""
    title = f"{_text(response_name(run))} · steinflow"
    sections = [
        _header(run),
        _verdict(run),
        _checks(run),
        _cards(run),
        _notes(run),
        _model(run),
        _effects(run, charts),
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
        _way(run),
        _held_out(run),
        _repeat(run),
    ]
    foot = "<footer>Made by <b>steinflow</b>. This file is self-contained: it loads nothing from the network.</footer>"
    return title, f'<main>{"".join(sections)}</main>{foot}<div id="tip" role="tooltip" hidden></div>'


def _header(run):
    data, info, by_formula = run.data, run.result.info, isinstance(run.problem, FormulaProblem)
    facts = [
        f"{data['num_rows']:,} rows fitted",
        f"{data['num_held_out']:,} held out",
        *([] if by_formula else [f"{len(run.problem.features.labels):,} features"]),
        run.size,
        f"{info['num_steps']:,} steps of {run.settings['method']}",
        f"{info['seconds']:.1f} s",
    ]
    kicker = f"regression by formula, family {run.problem.family}" if by_formula else run.problem.title
    facts_html = "".join(f"<li>{_text(fact)}</li>" for fact in facts)
    return (
        f'<header><p class="kicker">{_text(kicker)}</p>'
        f"<h1>What predicts <em>{_text(response_name(run))}</em>?</h1>"
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
        f'{lights}</div><div><p class="kicker">The inference</p><h2>{WORDS[chosen]}</h2><ul>{reasons}</ul>{what_to_do}'
        f'<p class="hint">How it ended: {_text(run.result.ending)}</p></div></section>'
    )


def _checks(run):
    """Say whether the model fits, which is a different question from whether its posterior is right."""
    if run.model_light is None:
        return ""
    items = "".join(
        f'<li class="{check["level"]}"><span class="lamp" role="img" aria-label="{check["level"]}"></span><div>'
        f"<p>{_text(sentence(check['text']))}</p>"
        + "".join(f'<p class="try">Try {_text(remedy.removesuffix("."))}.</p>' for remedy in check["try"])
        + "</div></li>"
        for check in run.checks
    )
    chart = ""
    if run.predictive is not None:
        hint = "Grey: the rows of the table. Blue: what the model expects, with 90% of the data sets drawn from it."
        if run.predictive["kind"] == "times":
            hint += " Where it is not known when a row has its event, its share is estimated (Kaplan and Meier)."
        chart = _chart("predictive", "The table, and data drawn from the model", hint, classes="chart")
        if run.predictive.get("groups"):
            hint = "The same about means. Grey: of the rows of the table. Blue: what the model expects."
            chart += _chart("grouped", "Means by group", hint, classes="columns")
    heading = MODEL_WORDS[run.model_light].removeprefix("model: ")
    heading = sentence(heading).removesuffix(".")
    return (
        f'<section id="checks" class="card"><p class="kicker">The model</p><h2>{heading}</h2>'
        f'<ul class="checks">{items}</ul>{chart}</section>'
    )


def _model(run):
    lines = "".join(f"<li>{_text(line)}</li>" for line in model_in_words(run))
    formulas = (
        f"<pre>{_text(chr(10).join(run.problem.formulas))}</pre>" if isinstance(run.problem, FormulaProblem) else ""
    )
    return _section("words", "The model in words", f"{formulas}<ul>{lines}</ul>", _prior(run))


def _prior(run):
    if not isinstance(run.estimator, FormulaFit):
        return ""
    hint = (
        "Before any row was seen. Grey: the rows of the table. Blue: the median and the central 90% of data sets drawn "
        "from the priors alone. Look at where values lie, not at how many: priors do no harm if they allow those of "
        "the table, and much else."
    )
    return _chart("prior", "The table, and what the priors expect", hint, classes="chart")


def _effects(run, charts):
    fitted = run.estimator
    if not isinstance(fitted, FormulaFit):
        return ""
    sections = ""
    if fitted.target.effects():
        hint = (
            "The mean along each predictor, with its central 90%. Other numbers are held at their mean, text at its "
            "most frequent value, and groups are left out."
        )
        sections += _section(
            "effects-section",
            "Effects of predictors",
            f'<p class="hint">{hint}</p><div id="effects" class="columns"></div>',
        )
    if charts["margins"]:
        hint = (
            "The mean if all rows had this value and all else stayed as it is, averaged over the rows. Dot: mean; "
            "line: central 90%."
        )
        sections += _section(
            "margins-section",
            "Means and differences",
            f'<p class="hint">{hint}</p><div id="margins" class="columns"></div>',
        )
    if fitted.target.regression.group_names():
        hint = (
            "How far each level is from the overall mean. Dot: mean; thick line: central 50%; thin line: central 90%."
        )
        sections += _section(
            "groups-section", "Effects of groups", f'<p class="hint">{hint}</p><div id="groups" class="columns"></div>'
        )
    return sections


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
        what = "Single weights of a network mean little. Look at the predictions instead."
    elif isinstance(run.problem, FormulaProblem):
        what = f"Effects on {_text(about_effects(run))}, per unit of the table{_text(about_others(run))}."
    else:
        what = (
            f"How much {_text(about_effects(run))} changes when a number grows by a standard deviation, or from 0 to 1."
        )
        if not all(isinstance(column, Number) for column in run.problem.features.columns):
            what += " A category is compared with the most frequent category in its column."
        what += " The intercept is for the average row. The table below also shows effects per unit."
    return f'<p class="hint">{what} Dot: mean; thick line: central 50%; thin line: central 90%.</p>'


def _table_of_parameters(run):
    parameters = run.parameters().clearest_first()
    columns = [parameters.mean, parameters.sd, *parameters.quantiles((0.05, 0.5, 0.95))]
    names = ["", "mean", "sd", "5%", "50%", "95%"]
    cells = [[number(value) for value in row] for row in zip(*columns, strict=True)]
    if isinstance(run.estimator, FormulaFit):
        names.append("prior")
        texts = run.estimator.prior_texts()
        cells = [[*row, texts[name]] for name, row in zip(parameters.names, cells, strict=True)]
    elif not run.problem.hidden:
        names.append("mean per unit")
        per_unit = parameters.mean * parameters.per_unit
        cells = [[*row, number(value)] for row, value in zip(cells, per_unit, strict=True)]
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th>' + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>"
        for name, row in zip(parameters.names, cells, strict=True)
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
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
        "the posterior is high and pushed apart from each other, so that together they show its spread.</p>",
        f'<div id="motion" class="chart"></div>{controls}',
    )


def _way(run):
    if run.problem.hidden:  # it is judged by its predictions, not by where its weights are
        return ""
    return _section(
        "run",
        "How the run went",
        '<p class="hint">KSD, the kernelized Stein discrepancy, falls while the particles approach the posterior, '
        "and levels off at the best value that this number of particles can reach. The dispersion should end at 1: "
        "below 1 the particles are too close together, above 1 they are too far apart.</p>",
        '<div class="columns"><div id="ksd" class="chart"></div><div id="dispersion" class="chart"></div></div>',
    )


def _held_out(run):
    if run.evaluation is None or "calibration" not in run.evaluation:  # of censored times there is none
        return ""
    kind, labels = kind_and_labels(run)
    if kind == "classes":
        first = '<div id="probabilities" class="chart"></div>' if len(labels) == 2 else ""
        charts = f'{first}<div id="calibration" class="chart"></div><div id="confusion"></div>'
        hint = "Predicted probabilities and true classes, for rows that the fit has not seen."
    else:
        charts = '<div id="scatter" class="chart"></div><div id="calibration" class="chart"></div>'
        hint = "Predictions with their 90% intervals and true values, for rows that the fit has not seen."
    return _section(
        "predictions",
        f"Predictions for {run.evaluation['num_rows']:,} held-out rows",
        f'<p class="hint">{hint}</p><div class="columns">{charts}</div>',
    )


def _repeat(run):
    settings = {**run.settings, **run.data}
    words = {"num_rows": "rows fitted", "num_held_out": "rows held out", "num_steps": "maximum steps"}
    rows: list[tuple[str, Any]] = [*settings.items(), ("made", run.created), *run.versions.items()]
    cells = "".join(
        f'<tr><th scope="row">{_text(words.get(name, name.replace("num_", "").replace("_", " ")))}</th>'
        f"<td>{_text('all rows' if value is None else value)}</td></tr>"
        for name, value in rows
    )
    return _section(
        "repeat",
        "How to repeat it",
        f'<pre id="command">{_text(run.command)}</pre>',
        f'<details open><summary>Settings, data and versions</summary><div class="scroll"><table>{cells}</table></div>'
        "</details>",
        _columns(run),
    )


def _columns(run):
    if isinstance(run.problem, FormulaProblem):
        return ""
    features = run.problem.features
    sds = iter(run.estimator.scale_[features.are_numbers])
    columns = "".join(f"<tr>{_column(column, sds)}</tr>" for column in features.columns)
    return (
        '<details><summary>How each column was used</summary><div class="scroll"><table><thead><tr>'
        '<th scope="col">column</th><th scope="col">used as</th></tr></thead><tbody>'
        f"{columns}</tbody></table></div></details>"
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
