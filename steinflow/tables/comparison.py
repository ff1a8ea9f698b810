"""Which of several runs predicts held-out rows best, and whether the difference is more than chance."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.runs import Run


def rows_in_common(runs: Sequence[Run]) -> np.ndarray:
    """Return the numbers of the rows that all runs held out; none if they are not about one column of one file."""
    if len({(run.data.get("sha256"), run.data.get("target")) for run in runs}) > 1:
        return np.zeros(0, int)
    return functools.reduce(np.intersect1d, map(_rows, runs))


def are_comparable(runs: Sequence[Run]) -> bool:
    """Whether the metrics of all runs are about the same rows."""
    common = len(rows_in_common(runs))
    sizes = {run.data["num_held_out"] for run in runs}  # of many rows only some predictions are kept
    return common > 0 and len(sizes) == 1 and all(len(_rows(run)) == common for run in runs)


def behind_the_best(runs: Sequence[Run]) -> list[dict[str, float]] | None:
    """Return how far each run is behind the best one in log-likelihood per held-out row, with the standard error.

    Rows that all runs held out are compared in pairs, so that rows which are hard for all models cancel out. None if
    there are fewer than two of them.
    """
    common = rows_in_common(runs)
    if len(common) < 2:
        return None
    logs = np.stack([_logs(run)[np.isin(_rows(run), common)] for run in runs])
    behind = logs - logs[np.argmax(logs.mean(axis=1))]
    errors = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    return [
        {"mean": float(mean), "standard_error": float(error)}
        for mean, error in zip(behind.mean(axis=1), errors, strict=True)
    ]


def _rows(run):
    """Return the held-out rows whose likelihood is known, in order."""
    table = run.held_out
    known = table is not None and "log_likelihood" in table
    return np.asarray(table["row"]).astype(int) if known else np.zeros(0, int)


def _logs(run):
    return np.asarray(run.held_out["log_likelihood"]).astype(float)


def log_evidence(run: Run) -> dict[str, Any]:
    """Return the log evidence of the rows that were fitted, with its standard error; or the reason why not."""
    if not isinstance(run.estimator, FormulaFit):
        reason = "it needs a model by formula, because only its density is normalised"
        return {"value": None, "standard_error": None, "pareto_k": None, "reason": reason}
    found = run.result.evidence()
    return {
        "value": found.log_evidence,
        "standard_error": found.error,
        "pareto_k": found.pareto_k,
        "reason": found.reason,
    }
