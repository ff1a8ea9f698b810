"""What fits leave: a folder, and what `steinflow fit` prints of parameters, metrics, verdict and checks."""

import contextlib
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from steinflow.cli import console
from steinflow.models.columns import shown
from steinflow.results.summary import number
from steinflow.tables.advice import advice
from steinflow.tables.effects import about_effects, about_others
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.parameters import Parameters
from steinflow.tables.report.formulas import effects_of, margins_of
from steinflow.tables.runs import Run
from steinflow.tables.shapes import prior_shape

_SHOWN_PARAMETERS = 15
_QUANTILES = (0.05, 0.5, 0.95)


def keep(save: Callable[[Path], Any], folder: Path) -> Any:
    """Save a fit to its folder; where that cannot be written, elsewhere, and end by saying where."""
    try:
        return save(folder)
    except OSError as error:
        if kept := _kept_elsewhere(save, folder.name):
            where = f"it is in {kept}; use it there, or free some space and move it"
            console.fail(f"{console.reason(error)}. The fit is not lost: {where}.")
        raise


def _kept_elsewhere(save, name):
    for place in (tempfile.gettempdir, Path.home):
        with contextlib.suppress(OSError, RuntimeError):  # the latter of a user without a home
            kept = Path(tempfile.mkdtemp(prefix="steinflow-", dir=place())) / name  # for this user's eyes only
            save(kept)
            return kept
    return None


def print_run(run: Run, folder: Path) -> None:
    """Print parameters, metrics on held-out rows, verdict and checks, and what to do next."""
    console.out.print()
    console.out.print(_parameters(run))
    console.print_metrics("On {} held-out rows", run.evaluation)
    console.out.print()
    console.print_verdict(run)
    console.print_checks(run)
    info, command = run.result.info, f"steinflow {{}} {shlex.quote(str(folder))}"
    lines = [
        f"\n{run.size}, {info['num_steps']:,} steps of {run.settings['method']} in "
        f"{info['seconds']:.1f} s. The run is in {folder}\n",
        Text.assemble("See it:      ", (command.format("report"), "bold")),
        Text.assemble("Predict:     ", (command.format("predict") + " NEW.csv", "bold")),
    ]
    for line in lines:
        console.out.print(Text(line) if isinstance(line, str) else line, soft_wrap=True)


def summary_of(run: Run, folder: Path) -> dict[str, Any]:
    """Return a run as plain values for scripts."""
    verdict = run.result.verdict
    return {
        "run": str(folder),
        "model": run.problem.model,
        "verdict": {
            "light": run.light,
            "level": verdict.level,
            "reasons": verdict.reasons,
            "remedies": advice(run),
        },
        "model_checks": {"light": run.model_light, "checks": run.checks},
        "outcome": run.result.outcome.value,
        "ending": run.result.ending.message,
        # A network is judged by its predictions, not by where its weights are.
        "ksd": None if run.problem.hidden else run.result.ksd,
        "dispersion": None if run.problem.hidden else float(np.median(run.result.dispersion)),
        "seconds": run.result.info["seconds"],
        "settings": run.settings,
        "data": run.data,
        "held_out": run.evaluation,
        "effects_on": about_effects(run),
        "parameters": _numbers(run.parameters()),
        **(_of_formula(run.estimator) if isinstance(run.estimator, FormulaFit) else {}),
        "notes": run.notes,
    }


def effects_of_run(run: Run) -> dict[str, Any]:
    """Return effects, marginal means and contrasts of a formula, and its prior check, as plain values."""
    fitted = run.estimator
    if not isinstance(fitted, FormulaFit):
        return {}
    return {"conditional_effects": effects_of(fitted), **margins_of(fitted), "prior_predictive": prior_shape(fitted)}


def _of_formula(fitted):
    problem = fitted.problem
    return {
        "formula": list(problem.formulas),
        "family": problem.family,
        "link": fitted.target.regression.link,
        "priors": fitted.prior_texts(),
        "group_effects": _numbers(fitted.effects()),
    }


def _numbers(parameters: Parameters):
    quantiles = dict(zip(("5%", "50%", "95%"), parameters.quantiles(_QUANTILES), strict=True))
    columns = {"mean": parameters.mean, "sd": parameters.sd, **quantiles}
    columns["mean_per_unit"] = parameters.mean * parameters.per_unit
    rows = zip(*columns.values(), strict=True)
    found = (dict(zip(columns, map(float, row), strict=True)) for row in rows)
    return dict(zip(parameters.names, found, strict=True))


def _parameters(run):
    if isinstance(run.estimator, FormulaFit):
        return _with_priors(run.estimator, about_effects(run), about_others(run))
    parameters = run.parameters().clearest_first()
    rows = _rows(parameters.coefficients(_SHOWN_PARAMETERS)) + _rows(parameters.others())
    more = parameters.num_coefficients - _SHOWN_PARAMETERS
    title = f"Effects on {shown(about_effects(run))}, clearest first"
    title += f" ({more} more in the report)" if more > 0 else ""
    per = "" if run.problem.hidden else "per sd or category"
    units = [
        number(mean * factor) if 0 < k < parameters.num_coefficients or (k == 0 and parameters.num_coefficients) else ""
        for k, (mean, factor) in enumerate(zip(parameters.mean, parameters.per_unit, strict=True))
    ]
    del units[_SHOWN_PARAMETERS : parameters.num_coefficients]
    rows = [[*row, unit] for row, unit in zip(rows, units, strict=True)]
    return console.table(title, [per, "mean", "sd", "5%", "95%", "mean per unit"], rows)


def _with_priors(fitted, what, others):
    """Return the parameters of a formula in the units of the table, each beside its prior."""
    parameters, texts = fitted.parameters(), fitted.prior_texts()
    rows = [[name, *cells, texts[name]] for name, *cells in _rows(parameters)]
    more = len(fitted.effects().names)
    title = f"Effects on {shown(what)}, per unit of the table{others}" + (
        f" (see --json or the report for {more} effects of groups)" if more else ""
    )
    return console.table(title, ["", "mean", "sd", "5%", "95%", "prior"], rows)


def _rows(parameters):
    columns = zip(parameters.mean, parameters.sd, *parameters.quantiles((0.05, 0.95)), strict=True)
    return [[name, *map(number, row)] for name, row in zip(parameters.names, columns, strict=True)]
