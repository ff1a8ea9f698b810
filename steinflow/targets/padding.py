"""Data sets of different lengths as arrays of one shape: shorter ones are filled up with rows of weight zero."""

from collections.abc import Sequence

import jax
import numpy as np

from steinflow.typing import PyTree


def padded(sets: Sequence[PyTree]) -> tuple[PyTree, np.ndarray]:
    """Return data sets of different lengths as arrays with a leading axis of sets, and a weight for every row.

    Shorter sets are filled with copies of their first row, where the log likelihood is as finite as in the data. These
    copies have weight 0, all other rows weight 1. Multiply the log likelihood of every row by its weight.

    Args:
        sets: pytrees of arrays with the same structure; all arrays of a set have the same number of rows.

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
    arrays, groups = jax.tree.map(np.asarray, data), rows_by_group(by)
    shapes, num_rows = [leaf.shape for leaf in jax.tree.leaves(arrays)], sum(map(len, groups.values()))
    if any(shape[:1] != (num_rows,) for shape in shapes):
        raise ValueError(f"by needs one group per row; got {num_rows} groups and data of shapes {shapes[:10]}.")
    sets = [jax.tree.map(lambda leaf, rows=rows: leaf[rows], arrays) for rows in groups.values()]
    return *padded(sets), list(groups)


def rows_by_group(by: Sequence | np.ndarray) -> dict[str, np.ndarray]:
    """Return which rows every group has, by its name, in the order of the values: 2 comes before 10.

    Args:
        by: the group of every row. With a second axis, each combination of the columns' values is a group.

    Raises:
        ValueError: if a row has no group.
    """
    columns = np.asarray(by)
    columns = columns[:, None] if columns.ndim == 1 else columns
    missing = np.array([any(cell is None or cell != cell for cell in row) for row in columns.tolist()])  # NaN != NaN
    if np.any(missing):
        raise ValueError(
            f"{np.sum(missing)} rows have no group, the first is row {np.argmax(missing)}. Leave them out."
        )
    numbered = [_numbered(column) for column in columns.T]
    codes, numbers = np.unique(np.stack([codes for _, codes in numbered], axis=1), axis=0, return_inverse=True)
    order = np.argsort(numbers.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(numbers.reshape(-1)))
    names = [", ".join(values[k] for (values, _), k in zip(numbered, code, strict=True)) for code in codes]
    return dict(zip(names, np.split(order, ends[:-1]), strict=True))


def _numbered(column: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the names of the different values of a column, in their order, and which of them every row has."""
    values = column.tolist()
    try:
        different = sorted(set(values))
    except TypeError:  # numbers and text in one column
        different = sorted(set(values), key=str)
    position = {value: k for k, value in enumerate(different)}
    names = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in different]
    return names, np.array([position[value] for value in values], int)


def _length(one: PyTree, k: int) -> int:
    lengths = {leaf.shape[0] if leaf.ndim else -1 for leaf in jax.tree.leaves(one)}
    if lengths == {0}:
        raise ValueError(f"Data set {k} has no rows. Leave it out: without data its posterior is the prior.")
    if len(lengths) != 1 or -1 in lengths:
        shapes = [leaf.shape for leaf in jax.tree.leaves(one)]
        raise ValueError(
            f"All arrays of a data set need the same number of rows; in set {k} they have the shapes {shapes[:10]}."
        )
    return int(lengths.pop())


def _shapes(one: PyTree):
    return jax.tree.structure(one), [leaf.shape[1:] for leaf in jax.tree.leaves(one)]
