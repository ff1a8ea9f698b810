r"""Which of several models is better: by how well they foretell rows that were left out, or by their evidence.

Leave-one-out (LOO): $\mathrm{elpd} = \sum_i \log p(y_i \mid y_{-i})$, from one posterior each, by Pareto-smoothed
importance sampling (Vehtari et al., arXiv:1507.04544). Differences are taken row by row, so that what makes a row hard
for all models cancels out. Evidence: $\log p(y)$, with the prior in it; its error is that of the computation alone.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

import jax
import numpy as np

from steinflow.results.arviz import psis
from steinflow.results.result import Result
from steinflow.results.summary import frames_of

LARGEST_K = 0.7
NUM_DRAWS = 2000  # of the trajectory, where one was kept: the tails of importance weights want many
_WORDS = {"loo": "elpd by leave-one-out", "evidence": "log evidence"}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models, the best one first.

    Attributes:
        by: "loo" or "evidence".
        names: of the models.
        values: elpd or log evidence of each model; NaN if it is unknown. Unknown values come last.
        errors: the standard errors of the values.
        differences: from the best model; zero or less.
        difference_errors: the standard errors of the differences.
        pareto_k: the largest Pareto k of each model; above 0.7 its value cannot be trusted.
        reasons: why a value is unknown, or cannot be trusted; empty if all is well.
    """

    by: Literal["loo", "evidence"]
    names: list[str]
    values: np.ndarray
    errors: np.ndarray
    differences: np.ndarray
    difference_errors: np.ndarray
    pareto_k: np.ndarray
    reasons: list[str]

    def __str__(self):
        width = max(map(len, self.names)) + 2
        columns = ("value", "± se", "difference", "± se", "Pareto k")
        lines = [_WORDS[self.by], " " * width + "".join(f"{column:>12}" for column in columns)]
        for k, name in enumerate(self.names):
            cells = (self.values, self.errors, self.differences, self.difference_errors, self.pareto_k)
            lines.append(f"{name:<{width}}" + "".join(_cell(column[k]) for column in cells))
        lines += [f"{name}: {reason}" for name, reason in zip(self.names, self.reasons, strict=True) if reason]
        return "\n".join(lines)

    __repr__ = __str__

    def to_dataframe(self, *, library: Literal["pandas", "polars"] = "pandas"):
        """Return a table with a row for every model, of pandas or Polars."""
        columns = ("values", "errors", "differences", "difference_errors", "pareto_k", "reasons")
        named = {name.removesuffix("s"): getattr(self, name) for name in columns}
        return frames_of(library).DataFrame({"model": self.names, **named})


def compare(results: Mapping[str, Result], *, by: Literal["loo", "evidence"] = "loo", key: int = 0) -> Comparison:
    """Compare models that were fitted to the same data.

    Args:
        results: what `sf.fit` returned, by the name of the model, with their targets.
        by: "loo" is how well a model predicts rows that it has not seen. It hardly depends on priors, and needs
            targets with observations: `sf.formula`, `sf.models`, `sf.Posterior`, NumPyro, PyMC. "evidence" is how
            probable the model considered the data before seeing them. It depends on priors as much as on likelihoods,
            and needs normalised densities, constants included.
        key: seeds the draws for the evidence.

    Returns:
        A table with the best model first, which can be printed. Differences of less than two standard errors mean
        nothing.

    Raises:
        ValueError: if there are fewer than two models, a target has no observations, or models have different rows.
        ModuleNotFoundError: where ArviZ is not installed.

    Example:
        ```python
        import numpy as np, steinflow as sf

        rng = np.random.default_rng(0)
        table = {"x": rng.normal(size=50), "z": rng.normal(size=50)}
        table["y"] = table["x"] + rng.normal(size=50)
        fits = {name: sf.fit(sf.formula(f"y ~ {name}", table), progress=False) for name in ("x", "z")}
        print(sf.compare(fits))
        print(sf.compare(fits, by="evidence"))
        ```
    """
    if by not in _WORDS:
        raise ValueError(f'by is "loo" or "evidence"; got {by!r}.')
    if len(results) < 2:
        raise ValueError("A comparison needs the results of at least two models, by name: {'a': ..., 'b': ...}.")
    return _by_loo(results) if by == "loo" else _by_evidence(results, key)


def _by_loo(results: Mapping[str, Result]) -> Comparison:
    rows, ks, reasons = [], [], []
    for name, result in results.items():
        elpd, k = leave_one_out(result, name)
        rows.append(elpd)
        ks.append(np.max(k))
        high = int(np.sum(k > LARGEST_K))
        reasons.append(
            f"Pareto k is above {LARGEST_K} for {high} of {len(k)} rows, which dominate the posterior; use "
            "sf.cross_validate, which really leaves rows out"
            if high
            else ""
        )
    lengths = dict(zip(results, map(len, rows), strict=True))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Models of the same rows can be compared; these have {lengths}.")
    table = np.stack(rows)
    values, size = table.sum(axis=1), table.shape[1] ** 0.5
    behind = table - table[np.argmax(values)]
    errors = (table.std(axis=1) * size, behind.std(axis=1) * size)
    return _ordered("loo", list(results), values, *errors, np.array(ks), reasons)


def _by_evidence(results: Mapping[str, Result], key: int) -> Comparison:
    found = [result.evidence(key=key) for result in results.values()]
    values, errors, ks = (
        np.array([getattr(each, name) for each in found]) for name in ("log_evidence", "error", "pareto_k")
    )
    if np.all(np.isnan(values)):
        raise ValueError(f"The evidence of none of these models is known. {next(iter(results))}: {found[0].reason}.")
    best = int(np.nanargmax(values))
    both = np.where(np.arange(len(values)) == best, 0.0, np.hypot(errors, errors[best]))
    return _ordered("evidence", list(results), values, errors, both, ks, [each.reason or "" for each in found])


def leave_one_out(result: Result, name: str = "the model") -> tuple[np.ndarray, np.ndarray]:
    """Return the log density of every row given the others, and Pareto's k of each."""
    from scipy.special import logsumexp

    observations = None if result.target is None else result.target.observations
    if observations is None:
        raise ValueError(f"LOO needs the likelihood of every row, which {name} does not have; use by='evidence'.")
    result = _draws(result)
    found = observations.log_likelihoods(jax.tree.map(np.asarray, result.particles))
    values = np.concatenate([np.reshape(each, (len(result), -1)) for each in found.values()], axis=1).T.astype(float)
    log_weights, k = psis(-values)
    log_weights -= logsumexp(log_weights, axis=1, keepdims=True)
    return logsumexp(log_weights + values, axis=1), k


def _draws(result: Result) -> Result:
    """Return the positions on the way, where they were kept, or else particles of equal weight."""
    if result.states is None:
        return result.with_equal_weights()
    num_kept, num_chains, _ = result.states.shape
    return result.draws(min(NUM_DRAWS, num_kept * num_chains))


def _ordered(by, names, values, errors, difference_errors, ks, reasons) -> Comparison:
    order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")
    return Comparison(
        by=by,
        names=[names[k] for k in order],
        values=values[order],
        errors=errors[order],
        differences=(values - np.nanmax(values))[order],
        difference_errors=difference_errors[order],
        pareto_k=ks[order],
        reasons=[reasons[k] for k in order],
    )


def _cell(value: float) -> str:
    return f"{'?' if math.isnan(value) else f'{value:.2f}':>12}"
