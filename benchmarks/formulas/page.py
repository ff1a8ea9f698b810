"""The tables of docs/formulas-measured.md."""

import json

from benchmarks.formulas.tables import CASES
from benchmarks.pages import put

PAGE = "docs/formulas-measured.md"


def page(results):
    """Put what is measured so far into the page."""
    found = {name: _read(results / f"{name}.json") for name in CASES}
    bambi = {name: _read(results / f"{name}, bambi.json") for name in CASES}
    ours = {name: figures for name, figures in found.items() if figures}
    put(PAGE, "formulas", _table(OURS, [_ours(name, figures) for name, figures in ours.items()]))
    both = [_beside(name, bambi[name], figures["runs"]) for name, figures in ours.items() if bambi[name]]
    if both:
        put(PAGE, "bambi", _table(BESIDE, both))


OURS = ("table", "formula", "family", "numbers", "worst mean, in sds", "sds over NUTS's", "right", "verdict", "noise")
BESIDE = (
    "table",
    "seconds",
    "again",
    "bambi's seconds",
    "times as long",
    "again",
    "worst mean, in sds",
    "noise",
    "sds",
)


def _ours(name, figures):
    case, runs = CASES[name], figures["runs"]
    formulas = [case.formula] if isinstance(case.formula, str) else case.formula
    worst = max(runs, key=lambda run: run["error"])
    levels = [run["verdict"] for run in runs]
    return (
        name,
        ", ".join(f"`{formula}`".replace("|", "\\|") for formula in formulas),
        case.family,
        str(figures["numbers"]),
        f"{worst['error']:.3f} ({worst['worst']})".replace("|", "\\|"),
        _range(min(run["ratio"][0] for run in runs), max(run["ratio"][1] for run in runs)),
        f"{sum(run['right'] for run in runs)} of {len(runs)}",
        ", ".join(f"{levels.count(level)} {level}" for level in dict.fromkeys(levels)),
        f"{figures['noise']:.3f}",
    )


def _beside(name, bambi, runs):
    first, again = runs[0]["seconds"], min(run["seconds"] for run in runs[1:])
    if "reason" in bambi:
        return (name, f"{first:.1f}", f"{again:.1f}", bambi["reason"], "", "", "", "", "")
    times = (f"{bambi['seconds'] / seconds:.1f}" for seconds in (first, again))
    cells = f"{bambi['error']:.3f}", f"{bambi['noise']:.3f}", _range(*bambi["ratio"])
    return (name, f"{first:.1f}", f"{again:.1f}", f"{bambi['seconds']:.1f}", *times, *cells)


def _range(low, high):
    return f"{low:.2f} .. {high:.2f}"


def _table(names, rows):
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _read(path):
    return json.loads(path.read_text()) if path.exists() else None
