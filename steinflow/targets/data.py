"""How steps see the data: all rows, or minibatches; of arrays on the device, or of files and streams on the host."""

import abc
import functools
import operator
from collections.abc import Iterator
from typing import SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.targets.batches import batch_indices, row_blocks
from steinflow.targets.influence import Drawn, Influence
from steinflow.targets.padding import grouped, padded
from steinflow.targets.streams import HostData, Mapped, Shapes, Stream, num_rows_of
from steinflow.typing import Array, Batch, PRNGKeyArray, PyTree

__all__ = ["Data", "HostRows", "Mapped", "Rows", "Stream", "as_data", "grouped", "padded", "refuse_rows"]

_NAMED = 5  # rows that an error names


class Data(eqx.Module):
    """The data of a target, and how much of them a step sees."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """The number of rows, N."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> int | None:
        """Rows per step; None where every step sees all of them."""

    @abc.abstractmethod
    def minibatch(self, key: PRNGKeyArray, step: Array, influence: Influence | None = None) -> Batch | None:
        """Return what step number `step` sees, in compiled code; None: all rows, or a batch fed from the host.

        `influence` is given to data only that `draws_rows`.
        """

    @property
    def draws_rows(self) -> bool:
        """Whether batches can be drawn by the influence of rows; streams decide by themselves."""
        return False

    @property
    def batches_per_epoch(self) -> float | None:
        """How many minibatches it takes to see all rows; None where every step sees all of them."""
        return None if self.batch_size is None else self.num_rows / self.batch_size

    @property
    def host(self) -> HostData | None:
        """The data that stay on the host, from where `Feed` takes batches."""
        return None

    def batch_shape(self) -> Batch | None:
        """Return the shapes of a batch, where there is no log density without one."""
        return None

    def blocks(self, num_rows: int, *, key: PRNGKeyArray) -> Iterator[Batch] | None:
        """Return blocks that together are all rows, each once; or, of fewer than N, at least as many random ones.

        None where the data cannot be read again.
        """
        return None

    def rows(self, batch: Batch | None) -> Batch | None:
        """Return the rows whose terms add up to the log density, for devices to share; None where there are none.

        Raises:
            ValueError: if all rows are asked for, of data that stay on the host.
        """
        return None

    def placed(self) -> "Data":
        """Return the data on the current mesh."""
        return sharding.replicate(self)


class Rows(Data):
    """Arrays in memory, rows along their leading axis.

    Args:
        values: a pytree of arrays.
        batch_size: rows per step; all of them if not given.

    Raises:
        ValueError: if there are no rows, or arrays differ in their number.
        TypeError: if the arrays are not of numbers.
    """

    values: Batch
    rows_per_batch: int | None = eqx.field(static=True)

    def __init__(self, values: PyTree, batch_size: SupportsIndex | None = None):
        try:
            self.values = jax.tree.map(as_array, values)
        except TypeError as error:
            raise TypeError(
                "data must be arrays of numbers, in any pytree; encode text and categories as numbers first."
            ) from error
        lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(self.values)}
        if lengths == {0}:
            raise ValueError("data has no rows. Without data the posterior is the prior: use sf.Density(log_prior).")
        if len(lengths) != 1 or None in lengths:
            raise ValueError(
                "All arrays in data need the same leading axis, one entry per row; "
                f"got lengths {sorted(map(str, lengths))}."
            )
        self.rows_per_batch = None if batch_size is None else _checked(batch_size, self.num_rows)

    @property
    def num_rows(self):
        return num_rows_of(self.values)

    @property
    def batch_size(self):
        return None if self.rows_per_batch == self.num_rows else self.rows_per_batch

    @property
    def draws_rows(self):
        return self.batch_size is not None

    def minibatch(self, key, step, influence=None):
        if self.batch_size is None:
            return None
        if influence is None:
            return self.at(self.minibatch_indices(key, step))
        rows, weights = influence.batch(key, step, self.batch_size)
        return Drawn(self.at(rows), weights)

    def minibatch_indices(self, key: PRNGKeyArray, step: Array) -> Array:
        """Return which rows step number `step` sees."""
        return batch_indices(key, step, num_rows=self.num_rows, batch_size=self.batch_size or self.num_rows)

    def at(self, indices: Array | slice) -> Batch:
        """Return some of the rows."""
        return jax.tree.map(lambda leaf: leaf[indices], self.values)

    def rows(self, batch):
        return self.values if batch is None else batch

    def blocks(self, num_rows, *, key):
        for rows in row_blocks(self.values, self.num_rows, num_rows, key=key):
            if isinstance(rows, slice):
                yield _cut(self.values, rows.start, size=rows.stop - rows.start)
            else:
                yield jax.tree.map(lambda leaf, rows=rows: leaf[rows], self.values)

    def placed(self):
        if self.batch_size is not None:
            return sharding.replicate(self)
        return eqx.tree_at(lambda data: data.values, self, sharding.place_rows(self.values))


class HostRows(Data):
    """Rows that stay on the host: mapped files are read, and streams followed, batch by batch.

    Args:
        source: `Mapped` or `Stream`.
        batch_size: rows per step; a stream decides by itself.

    Raises:
        ValueError: if `batch_size` is not given, and the source does not know it.
    """

    source: HostData = eqx.field(static=True)
    rows_per_batch: int | None = eqx.field(static=True)

    def __init__(self, source: HostData, batch_size: SupportsIndex | None = None):
        if batch_size is None and not isinstance(source, Stream | Shapes):
            raise ValueError(
                "Data that stay on the host are read by batches: pass Posterior(..., batch_size=256), say; or load "
                "them, as with np.asarray, if they fit in memory."
            )
        self.source = source
        self.rows_per_batch = None if batch_size is None else _checked(batch_size, source.num_rows)

    @property
    def num_rows(self):
        return self.source.num_rows

    @property
    def batch_size(self):
        size = num_rows_of(self.batch_shape())
        return size if size < self.num_rows else None

    @property
    def host(self):
        return self.source

    @property
    def draws_rows(self):
        return isinstance(self.source, Mapped) and self.batch_size is not None

    def minibatch(self, key, step, influence=None):
        return None

    def batch_shape(self):
        return self.source.batch_shape(self.rows_per_batch)

    def blocks(self, num_rows, *, key):
        return self.source.blocks(num_rows, key=key)

    def placed(self):
        # Data of the same shapes share compiled code, which sees no more of them.
        return HostRows(Shapes.of(self.num_rows, self.batch_shape()), self.rows_per_batch)

    def rows(self, batch):
        if batch is None:
            raise ValueError(
                "The data of this posterior stay on the host, so its log density needs a batch. To look at all rows, "
                "make a second Posterior of arrays in memory."
            )
        return batch


def as_data(data: PyTree | HostData, batch_size: SupportsIndex | None = None) -> Rows | HostRows:
    """Return the user's data, arrays on the device, and what is mapped or streamed on the host."""
    if isinstance(data, HostData):
        return HostRows(data, batch_size)
    if any(isinstance(leaf, np.memmap) or _is_lazy(leaf) for leaf in jax.tree.leaves(data)):
        return HostRows(Mapped(data), batch_size)
    return Rows(data, batch_size)


def refuse_rows(data: Data | None, *, key: PRNGKeyArray) -> None:
    """Read all rows in order, where that can be done, to name those that make a log density not finite.

    Raises:
        ValueError: if there are rows with NaN or infinite numbers.
    """
    blocks = None if data is None else data.blocks(data.num_rows, key=key)
    seen, count, first = 0, 0, []
    for block in blocks or ():
        bad = np.flatnonzero(~finite_rows(block))
        first += [seen + int(row) for row in bad[:_NAMED]]
        seen, count = seen + num_rows_of(block), count + len(bad)
        if data is None or seen >= data.num_rows:
            break
    if count:
        raise ValueError(_refusal(f"{count} of {seen} rows of the data hold", count, first))


def refuse_batch(step: int, finite: np.ndarray) -> None:
    """Name the rows that make a log density not finite, in the batch that a stream gave for a step.

    Args:
        step: of the batch.
        finite: which of its rows are.

    Raises:
        ValueError: always.
    """
    bad = np.flatnonzero(~finite)
    rows = f"In the batch of step {step}, {len(bad)} of {len(finite)} rows hold"
    raise ValueError(_refusal(rows, len(bad), bad[:_NAMED]))


def _refusal(which, count, first):
    rows = ", ".join(map(str, first[:_NAMED])) + (", ..." if count > _NAMED else "")
    return (
        f"{which} NaN or infinite numbers, and the log density is not finite with them: rows {rows} (the first is 0). "
        "Leave these rows out, or fill in the values."
    )


def finite_rows(block: Batch) -> np.ndarray:
    """Say of every row whether all of its numbers are finite."""
    finite = np.ones(num_rows_of(block), bool)
    for leaf in map(np.asarray, jax.tree.leaves(block)):
        if leaf.dtype.kind == "f":
            finite &= np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)
    return finite


@functools.partial(jax.jit, static_argnames="size")  # the start is no constant: one program for all blocks
def _cut(values, start, *, size):
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), values)


def _is_lazy(leaf) -> bool:
    """HDF5, Zarr and the like: arrays by their looks, which would have to be read to become one."""
    looks = all(hasattr(leaf, name) for name in ("shape", "dtype", "__getitem__"))
    return looks and not hasattr(leaf, "__add__")  # what can add is in memory


def _checked(batch_size: SupportsIndex, num_rows: int) -> int:
    try:
        size = operator.index(batch_size)
    except TypeError:
        size = 0
    if not 1 <= size <= num_rows:
        raise ValueError(
            f"batch_size must be an int between 1 and the {num_rows} rows of the data; got {batch_size!r}."
        )
    return size
