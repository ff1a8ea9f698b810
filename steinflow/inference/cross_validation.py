"""Cross-validation: the log density of rows that were left out, all folds fitted at once."""

from collections.abc import Sequence

import jax
import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.inference.items import same_start
from steinflow.inference.many import fit_many
from steinflow.methods.base import Method
from steinflow.results.cross_validation import CrossValidation
from steinflow.targets.base import Target
from steinflow.targets.padding import rows_by_group
from steinflow.typing import PRNGKeyArray


def cross_validate(
    target: Target,
    folds: int | Sequence | np.ndarray = 10,
    method: Method | None = None,
    *,
    num_particles: int | None = None,
    num_steps: int | None = None,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
) -> CrossValidation:
    """Leave out each part of the rows in turn, fit all models at once, and say how well they predict what was left out.

    Args:
        target: `sf.Posterior`, one of `sf.models` or a model by formula, with its prior and its data in memory.
        folds: the number of parts, filled with random rows; or the part of every row. With a column of groups, each
            group is left out once.
        method: how to infer, as for `sf.fit`.
        num_particles: of each run, as for `sf.fit`.
        num_steps: of each run, as for `sf.fit`.
        key: an int or a JAX key.
        progress: show a bar.

    Returns:
        The log density of every row under the posterior that has not seen it, and their sum with its standard error.

    Raises:
        ValueError: if rows of the target cannot be left out, or `folds` does not match its rows.

    Example:
        ```python
        cross_validation = sf.cross_validate(sf.models.LinearRegression(X, y), 5)
        print(cross_validation)
        ```
    """
    if target.data is None or target.observations is None:
        raise ValueError("Cross-validation leaves rows out: it needs a target with rows, such as sf.Posterior.")
    fold_key, prior_key, fit_key = split_key(as_key(key), 3)
    folds = folds if isinstance(folds, int | np.integer) else target.by_row(folds, "folds")
    labels, parts = _parts(folds, target.data.num_rows, fold_key)
    weights = (parts != np.arange(len(labels))[:, None]).astype(np.float32)
    posteriors = fit_many(
        target.weighted,
        weights,
        method,
        particles=same_start(target, num_particles, len(labels), key=prior_key),
        num_steps=num_steps,
        names=labels,
        key=fit_key,
        progress=progress,
    )
    found = np.full(len(parts), np.nan)
    for k, result in enumerate(posteriors):
        out, log_likelihoods = parts == k, target.observations.log_likelihoods(result.particles).values()
        by_row = [np.reshape(values, (len(result), len(parts), -1)).sum(axis=2) for values in log_likelihoods]
        found[out] = _log_mean(np.sum(by_row, axis=0, dtype=float)[:, out], result.probabilities)
    return CrossValidation(found, parts, posteriors)


def _log_mean(values, weights):
    from scipy.special import logsumexp

    return logsumexp(values, axis=0, b=weights[:, None])


def _parts(folds, num_rows: int, key: PRNGKeyArray) -> tuple[list[str], np.ndarray]:
    """Return the names of the parts, and the number of the part of every row."""
    if isinstance(folds, int | np.integer):
        if not 2 <= folds <= num_rows:
            raise ValueError(f"folds is between 2 and the {num_rows} rows, or the part of every row; got {folds}.")
        order = np.asarray(jax.random.permutation(key, num_rows))
        parts = np.empty(num_rows, int)
        parts[order] = np.arange(num_rows) % int(folds)
        return list(map(str, range(int(folds)))), parts
    groups = rows_by_group(folds)
    if len(groups) < 2:
        raise ValueError("folds puts all rows into one part, so no rows are left to fit. Use at least two parts.")
    parts = np.empty(num_rows, int)
    for k, rows in enumerate(groups.values()):
        parts[rows] = k
    return list(groups), parts
