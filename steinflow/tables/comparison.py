"""Which of several runs predicts held-out rows best, and whether the difference is more than chance."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from steinflow.results.comparison import LARGEST_K, leave_one_out
from steinflow.tables.formula_problems import FormulaFit
from steinflow.tables.runs import Run


def are_about_the_same(runs: Sequence[Run]) -> bool:
    """Whether all runs predict one column of one file."""
    return len({(run.data.get("sha256"), run.data.get("target")) for run in runs}) == 1


def rows_in_common(runs: Sequence[Run]) -> np.ndarray:
    """Return the numbers of the rows that all runs held out; none if they are not about one column of one file."""
    return functools.reduce(np.intersect1d, map(_rows, runs)) if are_about_the_same(runs) else np.zeros(0, int)


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


def by_leave_one_out(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the elpd of each run on the fitted rows that all have in common, and how far it is behind the best.

    Every row is predicted from all others, by Pareto-smoothed importance sampling on the saved draws. Where that is not
    possible, values are None and `reason` says why; it also says where Pareto's k is too large.
    """
    found = [_left_out(run) for run in runs]
    known = [each for each in found if not isinstance(each, str)]
    common = functools.reduce(np.intersect1d, [row for row, _, _ in known]) if known else np.zeros(0, int)
    if not are_about_the_same(runs) or len(common) < 2:
        reason = "the runs have not fitted the same rows of the same file"
        return [_unknown(each if isinstance(each, str) else reason) for each in found]
    shared = [
        each if isinstance(each, str) else [part[np.isin(each[0], common)] for part in each[1:]] for each in found
    ]
    best = max((each[0] for each in shared if not isinstance(each, str)), key=np.sum)
    return [_unknown(each) if isinstance(each, str) else _elpd(each[0], best, each[1]) for each in shared]


def _left_out(run) -> tuple[np.ndarray, np.ndarray, np.ndarray] | str:
    """Return the numbers of the fitted rows, their log densities given the others, and Pareto's k; or why not."""
    if run.problem.hidden:
        return "the weights of a network are too many for it; compare networks by the held-out rows"
    fitted = run.fitted
    if "row" not in fitted or (not isinstance(run.estimator, FormulaFit) and "X" not in fitted):
        return "the run has not kept the rows of its fit, because they are too many"
    result = run.result
    if not isinstance(run.estimator, FormulaFit):
        learned, rows = run.estimator.learned(), (fitted["X"], fitted["y"])
        result = run.problem.estimator().restore(result, learned, rows).result_
    return fitted["row"], *leave_one_out(dataclasses.replace(result, states=fitted.get("states")))


def _elpd(elpd, best, k) -> dict[str, Any]:
    size, behind, high = len(elpd) ** 0.5, elpd - best, int(np.sum(k > LARGEST_K))
    reason = f"Pareto k is above {LARGEST_K} for {high} of {len(k)} rows; the held-out rows say more"
    return {
        "elpd": float(elpd.sum()),
        "standard_error": float(elpd.std() * size),
        "difference": float(behind.sum()),
        "difference_error": float(behind.std() * size),
        "pareto_k": float(np.max(k)),
        "num_rows": len(elpd),
        "reason": reason if high else None,
    }


def _unknown(reason) -> dict[str, Any]:
    names = ("elpd", "standard_error", "difference", "difference_error", "pareto_k", "num_rows")
    return {**dict.fromkeys(names), "reason": reason}


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
