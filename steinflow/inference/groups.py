"""A model for every group of the rows: one posterior each, all fitted at once."""

import dataclasses
import warnings
from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.inference.items import same_start
from steinflow.inference.many import fit_many
from steinflow.methods.base import Method
from steinflow.results.many import Many
from steinflow.targets.base import Target
from steinflow.targets.data import Rows
from steinflow.targets.padding import padded, rows_by_group
from steinflow.typing import PRNGKeyArray

_FEW_ROWS = 256  # groups of fewer are filled up to the longest: steps cost about as much
_PADDING = 4  # the longest of the groups that are padded together has at most this many times the rows of the shortest
_NAMED = 10  # groups that a warning names


class _OfRows(eqx.Module):
    """Makes the posterior of a group from its rows and their weights."""

    target: Target

    def __call__(self, item):
        rows, weights = item
        return eqx.tree_at(lambda target: target.data.values, self.target, rows).weighted(weights)


def fit_groups(
    target: Target,
    by: Sequence | np.ndarray,
    method: Method | None = None,
    *,
    num_particles: int | None = None,
    num_steps: int | None = None,
    min_rows: int = 1,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
) -> Many:
    """Fit a model to every group of its rows, all groups at once.

    What the model takes from all rows (standardisation, the scale of its default priors, the levels of a factor, the
    knots of a spline) is the same in all groups, so their parameters mean the same. Groups do not learn from each
    other: a group with few rows stays close to the prior. To share information, use a formula with `(x | group)`.

    Args:
        target: a model of all rows: `sf.formula(...)`, one of `sf.models`, or `sf.Posterior`, with its prior and its
            data in memory.
        by: the group of every row, such as a column of the table. With a second axis, such as several columns, each
            combination of values is a group.
        method: how to infer, as for `sf.fit`.
        num_particles: of each posterior, as for `sf.fit`.
        num_steps: of each run, as for `sf.fit`.
        min_rows: groups with fewer are left out. A warning names them, and those that have no complete rows.
        key: an int or a JAX key.
        progress: show a bar.

    Returns:
        The posteriors by the name of their group. The target of each is the model given the rows of its group alone.

    Raises:
        ValueError: if rows of the target cannot be selected, `by` does not match them, a row has no group, or no group
            has enough rows.

    Example:
        ```python
        import numpy as np, steinflow as sf

        rng = np.random.default_rng(0)
        table = {"x": rng.normal(size=90), "y": rng.normal(size=90), "school": np.repeat(["a", "b", "c"], 30)}
        many = sf.fit_groups(sf.formula("y ~ x", table), by=table["school"])
        many["b"].summary()
        ```
    """
    if not isinstance(target.data, Rows) or target.data.batch_size is not None:
        raise ValueError(
            "fit_groups selects rows of the target, so it needs all rows in memory and no batch_size: use "
            "sf.formula(...), sf.Posterior(...) or one of sf.models."
        )
    if min_rows < 1:
        raise ValueError(f"min_rows must be at least 1; got {min_rows}.")
    found, known = rows_by_group(by), rows_by_group(target.by_row(by, "by"))
    groups = {name: rows for name, rows in known.items() if len(rows) >= min_rows}
    _warn_of([name for name in found if name not in groups], len(found), min_rows)
    names, prior_key, fit_key = list(groups), *split_key(as_key(key), 2)
    whole, rows_of = jax.tree.map(np.asarray, target.data.values), list(groups.values())
    make, lengths, results = _OfRows(target.selected(np.arange(1))), np.array([*map(len, rows_of)]), {}
    for k, chosen in enumerate(_of_similar_length(lengths)):
        many = fit_many(
            make,
            padded([jax.tree.map(lambda leaf, rows=rows_of[i]: leaf[rows], whole) for i in chosen]),
            method,
            particles=same_start(target, num_particles, len(chosen), key=prior_key),
            num_steps=num_steps,
            names=[names[i] for i in chosen],
            key=jax.random.fold_in(fit_key, k),
            progress=progress,
        )
        for i, result in zip(chosen, many, strict=True):
            info = {**result.info, "num_rows": int(lengths[i])}
            results[i] = dataclasses.replace(result, target=target.selected(rows_of[i]), info=info)
    return Many(tuple(results[i] for i in range(len(names))), tuple(names))


def _warn_of(left_out: list[str], number: int, min_rows: int) -> None:
    if len(left_out) == number:
        raise ValueError(
            f"None of the {number} groups has {min_rows} complete rows or more; so there is nothing to fit."
        )
    if left_out:
        some = ", ".join(map(repr, left_out[:_NAMED])) + (", ..." if len(left_out) > _NAMED else "")
        few = "no complete rows" if min_rows == 1 else f"fewer than {min_rows} complete rows"
        warnings.warn(f"{len(left_out)} of {number} groups have {few} and are left out: {some}.", stacklevel=3)


def _of_similar_length(lengths: np.ndarray) -> list[list[int]]:
    """Return the positions of groups that are fitted together: a long group must not fill up many short ones."""
    parts: list[list[int]] = []
    for i in np.argsort(-lengths, kind="stable").tolist():
        longest = lengths[parts[-1][0]] if parts else 0
        if parts and (longest <= _FEW_ROWS or longest <= _PADDING * lengths[i]):
            parts[-1].append(i)
        else:
            parts.append([i])
    return parts
