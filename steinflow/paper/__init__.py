"""The paper from one command: every figure and table, on the real data, beside the paper's own numbers."""

import importlib
from collections.abc import Iterable
from pathlib import Path

from steinflow.devices.caches import keep_compiled
from steinflow.paper.parts import Experiment, environment, run
from steinflow.paper.workers import available_cores
from steinflow.results.files import write_whole

NAMES = {
    "toy": "Figure 1: particles cross to the far mode of a mixture; with an animation",
    "expectations": "Figure 2: errors of expectations against the number of particles, beside exact Monte Carlo",
    "covertype": "Figure 3: logistic regression on 581,012 rows, by epochs, by time and by particles",
    "logistic": "Appendix: SVGD, NPV and NUTS on eight small data sets",
    "uncertainty": "Appendix: maps of the predictive probability on two features",
    "networks": "The table: Bayesian neural networks, SVGD and PBP on ten regression sets",
}
"""The experiments, with one line about each."""

__all__ = ["NAMES", "reproduce"]

_MAX_WORKERS = 8  # each has its own copy of the data


def reproduce(names: Iterable[str], *, output: Path, quick: bool, compute: bool = True) -> Path:
    """Compute experiments, or go on with them, and return the page with their results.

    Args:
        names: of `NAMES`; all if there are none.
        output: the folder for numbers (`<name>.json`), pages (`<name>.md`), figures (`images/results`) and finished
            parts (`parts`); the page with all experiments so far is `results.md`.
        quick: a smaller version, in minutes.
        compute: without, pages and figures are written from the parts that are finished.
    """
    names = list(names) or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"There is no experiment {unknown[0]!r}; there are {', '.join(NAMES)}.")
    keep_compiled(output / "compiled")
    try:
        for name in names:
            run(name, _experiment(name), output, quick=quick, compute=compute, cores=available_cores()[:_MAX_WORKERS])
    finally:
        page = _write_page(output, quick=quick)
    return page


def _experiment(name: str) -> Experiment:
    return importlib.import_module(f"steinflow.paper.{name}").EXPERIMENT


def _write_page(output: Path, *, quick: bool) -> Path:
    """Put the pages that there are on one."""
    machine = environment()
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    command = "steinflow reproduce" + (" --quick" if quick else "")
    sections = [path.read_text("utf-8") for name in NAMES if (path := output / f"{name}.md").exists()]
    missing = [name for name in NAMES if not (output / f"{name}.md").exists()]
    not_run = f"\n\nNot run yet: {', '.join(missing)}." if missing else ""
    text = f"""# The paper, reproduced

Written by `{command}` on {machine["cores"]} cores ({versions}, Python {machine["python"]}). The paper is Liu & Wang,
*Stein Variational Gradient Descent: A General Purpose Bayesian Inference Algorithm*, NIPS 2016; its numbers were typed
in from its source. **SVGD, as in the paper** is its kernel with its settings, where it states them; **steinflow
default** is what a user gets without tuning, `sf.SVGD()`, for networks `sf.SVGD.for_networks()`.{
        " This is the quick version: fewer trials." if quick else ""
    }
Parts are computed side by side, one per core; seconds are of wall clock on one core, and stretch when other programs
run.{not_run}

"""
    return write_whole(output / "results.md", text + "\n".join(sections))
