"""Which of several runs predicts held-out rows best, and whether the difference is more than chance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.runs import Run


def behind_the_best(runs: Sequence[Run]) -> list[dict[str, float]] | None:
    """Return how far each run is behind the best one in log-likelihood per held-out row, with the standard error.

    Rows are compared in pairs, so that rows which are hard for all models cancel out. None if the runs did not keep
    the same rows.
    """
    tables = [run.held_out for run in runs]
    if any(table is None or "log_likelihood" not in table for table in tables):
        return None
    rows = [np.asarray(table["row"]).astype(int) for table in tables if table is not None]
    if any(not np.array_equal(rows[0], other) for other in rows) or len(rows[0]) < 2:
        return None
    logs = np.stack([np.asarray(table["log_likelihood"]).astype(float) for table in tables if table is not None])
    behind = logs - logs[np.argmax(logs.mean(axis=1))]
    errors = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    return [
        {"mean": float(mean), "standard_error": float(error)}
        for mean, error in zip(behind.mean(axis=1), errors, strict=True)
    ]


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
