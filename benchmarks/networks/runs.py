"""Finished runs are kept, one small JSON file each, so that a long benchmark goes on where it was interrupted."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "networks"

Metrics = Mapping[str, float]


def run(part: str, name: str, method: str, seed: int, measure: Callable[[], Metrics]) -> dict:
    """Return the metrics of a run, its core-seconds and the commit it was made with: from disk, if it is there."""
    path = RESULTS / f"{part}, {name}, {method}, {seed}.json".replace("/", "-")
    if path.exists():
        return json.loads(path.read_text())
    started = time.process_time()
    found = {key: float(value) for key, value in measure().items()}
    found = {**found, "core_seconds": time.process_time() - started, "commit": _commit()}
    jax.clear_caches()  # a process that keeps the compiled code of all runs runs out of memory maps
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    shown = ", ".join(f"{key} {value:.4g}" for key, value in found.items() if key != "commit")
    print(f"{path.stem}: {shown}", flush=True)
    return found


def cell(runs: Sequence[Mapping], metric: str, form: str) -> str:
    """Return the mean of a metric over runs, with the sd where there are several."""
    values = [found[metric] for found in runs]
    spread = f" ± {np.std(values, ddof=1):{form}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{spread}"


def commits(runs: Sequence[Mapping]) -> str:
    """Return a line that says with which commits so many runs were made."""
    numbers = {commit: sum(found["commit"] == commit for found in runs) for commit in {r["commit"] for r in runs}}
    return "Runs by commit: " + ", ".join(f"{commit} {number}" for commit, number in sorted(numbers.items())) + ".\n"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
