"""From answers to figures, and what is measured is kept: one small JSON file per posterior and contender."""

import json
from pathlib import Path

import jax
import numpy as np

from benchmarks.posteriordb.contenders import CONTENDERS, NUM_KEYS, Answer
from benchmarks.posteriordb.models import Problem
from benchmarks.posteriordb.reference import Reference

RESULTS = Path(__file__).parents[1] / "results" / "posteriordb"
ERROR, RATIO = 0.1, 0.1  # a right answer has the mean within so many sds (rms), and every sd within such a part


def measure(problem: Problem, who: str, num_keys: int, **options) -> dict:
    """Run a contender with several keys; return the figures of every run, and those of all of them."""
    answers = [CONTENDERS[who](problem, key, **options) for key in range(num_keys)]
    runs = [figures(answer, problem.reference) for answer in answers]
    lows, highs = zip(*(run["ratio"] for run in runs), strict=True)
    return {
        "language": language(problem),
        "dim": problem.unconstrained_dim,
        "error": float(np.sqrt(np.mean([run["error"] ** 2 for run in runs]))),
        "worst": max(run["worst"] for run in runs),
        "ratio": [min(lows), max(highs)],
        "right": sum(run["right"] for run in runs),
        **seconds(answers),
        "runs": runs,
    }


def figures(answer: Answer, reference: Reference) -> dict:
    """Error of the mean in reference sds, rms and worst; smallest and largest ratio of sds; whether that is right."""
    scalars, weights = answer.scalars, answer.weights
    found = {"gradients": answer.gradients, **answer.remarks}
    if not np.all(np.isfinite(scalars)):
        return {"error": np.inf, "worst": np.inf, "ratio": [0.0, np.inf], "right": False, **found}
    mean = weights @ scalars
    errors = (mean - reference.means) / reference.sds
    ratios = np.sqrt(weights @ (scalars - mean) ** 2) / reference.sds
    error = float(np.sqrt(np.mean(errors**2)))
    right = error <= ERROR and ratios.min() >= 1 - RATIO and ratios.max() <= 1 + RATIO
    return {
        "error": error,
        "worst": float(np.max(np.abs(errors))),
        "ratio": [float(ratios.min()), float(ratios.max())],
        "right": bool(right),
        **found,
    }


def seconds(answers: list[Answer]) -> dict[str, float | None]:
    """Return the seconds of a first run, which compiles, and of a run that finds all compiled; None: not measured."""
    first, *later = answers
    if first.compiling is not None:
        return {"seconds_first": first.compiling + first.seconds, "seconds": first.seconds}
    again = float(np.mean([answer.seconds for answer in later])) if later else None
    return {"seconds_first": first.seconds, "seconds": again}


def language(problem: Problem) -> str:
    return {"NumPyroTarget": "NumPyro", "PyMCTarget": "PyMC"}.get(type(problem.target).__name__, "JAX")


def row(make, name: str, who: str, num_keys: int | None, num_steps: int | None) -> dict:
    """Measure a contender; what is measured as the page says it is kept, experiments with options are not."""
    options = {} if num_steps is None or who != "steinflow" else {"num_steps": num_steps}
    found = measure(make(), who, num_keys or NUM_KEYS[who], **options)
    jax.clear_caches()  # a process that keeps the compiled code of all posteriors runs out of memory maps
    if num_keys in (None, NUM_KEYS[who]) and not options:
        RESULTS.mkdir(parents=True, exist_ok=True)
        _path(name, who).write_text(json.dumps(found, indent=1) + "\n")
    return found


def measured(name: str, who: str) -> dict | None:
    """Return what was measured, if it was."""
    path = _path(name, who)
    return json.loads(path.read_text()) if path.exists() else None


def _path(name, who):
    return RESULTS / f"{name}, {who}.json"
