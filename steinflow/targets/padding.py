"""Data sets of different lengths as arrays of one shape: shorter ones are filled up with rows of weight zero."""

from collections.abc import Sequence

import jax
import numpy as np

from steinflow.typing import PyTree


def padded(sets: Sequence[PyTree]) -> tuple[PyTree, np.ndarray]:
    """Return data sets of different lengths as arrays with a leading axis of sets, and a weight for every row.

    Rows that fill up a set are copies of its first row, where a log likelihood is as finite as in the data; their
    weight is 0, that of all others 1. Multiply the log likelihood of every row by its weight.

    Args:
        sets: pytrees of arrays of the same structure; the arrays of one set have as many rows as each other.

    Returns:
        The arrays, of shape (sets, rows, ...), and the weights, of shape (sets, rows).

    Raises:
        ValueError: if a set has no rows, arrays of one set differ in length, or sets differ in more than their length.

    Example:
        ```python
        import numpy as np, steinflow as sf

        data, weights = sf.data.padded([np.array([1.0, 2.0, 3.0]), np.array([4.0])])
        ```
    """
    if not sets:
        raise ValueError("There are no data sets to pad.")
    arrays = [jax.tree.map(np.asarray, one) for one in sets]
    lengths = [_length(one, k) for k, one in enumerate(arrays)]
    shapes = [_shapes(one) for one in arrays]
    for k, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"Data sets may differ in their number of rows, and in nothing else; set {k} has the structure "
                f"{shape[0]} with rows of shape {shape[1]}, set 0 {shapes[0][0]} with rows of shape {shapes[0][1]}."
            )
    rows = np.arange(max(lengths))

    def fill(*leaves):
        return np.stack([leaf[np.where(rows < len(leaf), rows, 0)] for leaf in leaves])

    weights = rows < np.asarray(lengths)[:, None]
    return jax.tree.map(fill, *arrays), weights.astype(np.float32)


def grouped(data: PyTree, by: Sequence | np.ndarray) -> tuple[PyTree, np.ndarray, list[str]]:
    """Return rows of one table as one data set for each group, padded, with their weights and the names of the groups.

    Args:
        data: a pytree of arrays with the same leading axis, one entry per row.
        by: the group of every row.

    Returns:
        What `padded` returns, and a name for every group, in their order.

    Raises:
        ValueError: if there is not one group for every row, or a row has none.

    Example:
        ```python
        import numpy as np, steinflow as sf

        data, weights, names = sf.data.grouped({"y": np.arange(5.0)}, by=["a", "b", "a", "a", "b"])
        ```
    """
    arrays, groups = jax.tree.map(np.asarray, data), np.asarray(by)
    shapes = [leaf.shape for leaf in jax.tree.leaves(arrays)]
    if any(shape[:1] != groups.shape for shape in shapes):
        raise ValueError(f"by needs one group per row; got {len(groups)} groups and data of shapes {shapes[:10]}.")
    missing = np.array([group is None or group != group for group in groups.tolist()])  # NaN differs from itself
    if np.any(missing):
        raise ValueError(
            f"{np.sum(missing)} rows have no group, the first is row {np.argmax(missing)}. Leave them out."
        )
    names, numbers = np.unique(groups.astype(str), return_inverse=True)
    sets = [jax.tree.map(lambda leaf, k=k: leaf[numbers == k], arrays) for k in range(len(names))]
    return *padded(sets), names.tolist()


def _length(one: PyTree, k: int) -> int:
    lengths = {leaf.shape[0] if leaf.ndim else -1 for leaf in jax.tree.leaves(one)}
    if lengths == {0}:
        raise ValueError(f"Data set {k} has no rows. Leave it out: without data its posterior is the prior.")
    if len(lengths) != 1 or -1 in lengths:
        shapes = [leaf.shape for leaf in jax.tree.leaves(one)]
        raise ValueError(f"All arrays of a data set need as many rows; in set {k} they have the shapes {shapes[:10]}.")
    return int(lengths.pop())


def _shapes(one: PyTree):
    return jax.tree.structure(one), [leaf.shape[1:] for leaf in jax.tree.leaves(one)]
