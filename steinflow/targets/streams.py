"""Data that stay on the host: rows of mapped files, and streams of batches. `Feed` takes them to the device."""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.batches import batch_indices, block_size, row_blocks
from steinflow.targets.influence import Drawn, Influence
from steinflow.typing import Batch, PRNGKeyArray, PyTree

BLOCK_STEPS = 64  # at most so many are read at once


class HostData(abc.ABC):
    """Data on the host, compared by identity; compiled code sees no more of them than their shapes."""

    num_rows: int

    @abc.abstractmethod
    def batch_shape(self, batch_size: int | None) -> Batch:
        """Return the shapes and dtypes of one batch.

        Raises:
            ValueError: if there are no batches, or they have another size.
        """

    @abc.abstractmethod
    def read(
        self, key: PRNGKeyArray, start: int, stop: int, batch_size: int | None, influence: Influence | None = None
    ) -> Batch | None:
        """Return the batches of steps start .. stop-1, stacked; fewer if they end before, None if there are none.

        `influence` is given to data only whose rows can be drawn by it.
        """

    def blocks(self, num_rows: int, *, key: PRNGKeyArray) -> Iterator[Batch] | None:
        """Return blocks that together are all rows, as `Data.blocks`; None where they cannot be read again."""
        return None


@dataclasses.dataclass(frozen=True)
class Shapes(HostData):
    """What compiled code sees of data on the host: how many rows there are, and the shapes of a batch."""

    num_rows: int  # pyrefly: ignore[bad-override]: it does not change here
    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, num_rows: int, batch: Batch) -> "Shapes":
        """Return the shapes of data with batches of these."""
        leaves, structure = jax.tree.flatten(batch)
        return cls(num_rows, structure, tuple(leaves))

    def batch_shape(self, batch_size):
        return jax.tree.unflatten(self.structure, self.leaves)

    def read(self, key, start, stop, batch_size, influence=None):
        return None


class Mapped(HostData):
    """Arrays on the host that are read by rows: mapped files, HDF5, Zarr, or NumPy arrays too big for the device.

    `Posterior` wraps mapped files automatically; wrap other arrays in `sf.data.Mapped(arrays)` to keep them on the
    host.

    Args:
        arrays: a pytree of objects with `shape`, `dtype` and `[indices]`.

    Raises:
        ValueError: if arrays differ in their number of rows.
    """

    def __init__(self, arrays: PyTree):
        self.arrays = arrays
        lengths = {leaf.shape[0] if leaf.shape else 0 for leaf in jax.tree.leaves(arrays)}
        if len(lengths) != 1:
            raise ValueError(
                f"All arrays in data need the same leading axis, one entry per row; got lengths {lengths}."
            )
        self.num_rows = lengths.pop()

    def batch_shape(self, batch_size):
        return jax.tree.map(lambda leaf: _on_device((batch_size, *leaf.shape[1:]), leaf.dtype), self.arrays)

    def read(self, key, start, stop, batch_size, influence=None):
        # Always as many indices, so that this compiles once.
        steps = start + jnp.arange(BLOCK_STEPS)
        if influence is None:
            return self._rows(np.asarray(_block_indices(key, steps, self.num_rows, batch_size))[: stop - start])
        rows, weights = (np.asarray(part)[: stop - start] for part in _block_draws(key, steps, influence, batch_size))
        return Drawn(self._rows(rows), weights)

    def blocks(self, num_rows, *, key):
        for rows in row_blocks(self.arrays, self.num_rows, num_rows, key=key):
            if isinstance(rows, slice):
                yield jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf[rows]), self.arrays)
            else:
                yield self._rows(rows)

    def _rows(self, indices):
        # In ascending order, as files like it, and HDF5 demands; then back into the order of the shuffle.
        places, back = np.unique(indices, return_inverse=True)
        back = back.reshape(indices.shape)
        return jax.tree.map(lambda leaf: np.asarray(leaf[places])[back], self.arrays)


class Stream(HostData):
    """Batches from any source, in order, one per step: a loader, a generator, a queue.

    All batches have the size of the first. Shorter batches, such as the last one of a loader's epoch, are left out.

    Args:
        batches: an iterable of batches, where each pass is one epoch (for example a `torch` DataLoader); or a function
            of a step number that returns an iterator over the batches from that step on. When a run resumes, it calls
            the function with the step; an iterable is read from the beginning up to that step, and must yield the same
            batches again.
        num_rows: the number of rows N that the batches are drawn from.
        epoch: an iterable over blocks that together contain every row once, for anchors (`targets/anchors.py`). By
            default this is `batches`, if that is an iterable that can be restarted. A function of the step or a
            generator has no default, and its noise is not corrected.

    Raises:
        TypeError: if `batches` or `epoch` cannot be iterated over, or `epoch` only once.
    """

    def __init__(
        self,
        batches: Iterable[Batch] | Callable[[int], Iterator[Batch]],
        num_rows: int,
        *,
        epoch: Iterable[Batch] | None = None,
    ):
        if not callable(batches) and not isinstance(batches, Iterable):
            raise TypeError(
                f"A stream must be an iterable of batches, or a function step -> iterator; got {batches!r}."
            )
        if isinstance(epoch, Iterator) or not isinstance(epoch, Iterable | None):
            raise TypeError(
                f"epoch must be an iterable over all rows that can be restarted, not a generator; got {epoch!r}."
            )
        self.batches, self.num_rows = batches, num_rows
        again = isinstance(batches, Iterable) and not isinstance(batches, Iterator)
        self.epoch = batches if epoch is None and again else epoch
        self._iterator: Iterator[Batch] = iter(())
        self._position = -1  # the step whose batch comes next; -1 before the first
        self._shape: Batch | None = None  # of the first batch, and so of all

    def batch_shape(self, batch_size):
        if self._shape is None:
            self._open(0)
            first = next(self._iterator, None)
            if first is None:
                raise ValueError("The stream has no batches.")
            self._iterator = itertools.chain([first], self._iterator)
            self._shape = jax.tree.map(lambda leaf: _on_device(np.shape(leaf), np.asarray(leaf).dtype), first)
            if batch_size not in (None, num_rows_of(self._shape)):
                raise ValueError(
                    f"batch_size is {batch_size}, but the batches of the stream have {num_rows_of(self._shape)} rows: "
                    "leave it out."
                )
        return self._shape

    def read(self, key, start, stop, batch_size, influence=None):
        self.batch_shape(batch_size)
        if start < self._position or (start > self._position and callable(self.batches)):
            self._open(start)
        batches = []
        while self._position < stop and (batch := self._next()) is not None:
            if self._position > start:
                batches.append(batch)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches) if batches else None

    def blocks(self, num_rows, *, key):
        return None if self.epoch is None else self._blocks(self.epoch, num_rows)

    def _blocks(self, epoch, num_rows):
        """Yield the batches of an epoch, several at a time, all of them or until there are enough rows."""
        size = num_rows_of(self.batch_shape(None))
        several = max(1, block_size(self.batch_shape(None), self.num_rows) // size)
        batches, seen = iter(epoch), 0
        while (seen < num_rows or num_rows >= self.num_rows) and (block := list(itertools.islice(batches, several))):
            seen += several * size
            yield jax.tree.map(lambda *leaves: np.concatenate(leaves), *block)

    def _open(self, step):
        if isinstance(self.batches, Iterator) and self._position >= 0:
            raise ValueError(
                f"This stream is a generator that is already at step {self._position} and cannot go to step {step}. "
                "Pass an iterable that starts anew, or a function that takes a step to an iterator from there on."
            )
        if callable(self.batches):
            self._iterator, self._position = iter(self.batches(step)), step
        else:
            self._iterator, self._position = _epochs(self.batches), 0

    def _next(self) -> Batch | None:
        for batch in self._iterator:
            batch = jax.tree.map(np.asarray, batch)
            if num_rows_of(batch) < num_rows_of(self._shape):
                continue
            shapes = [jax.tree.map(np.shape, tree) for tree in (self._shape, batch)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"All batches of a stream must have the same shapes: expected {shapes[0]}, got {shapes[1]} at step "
                    f"{self._position}."
                )
            self._position += 1
            return batch
        return None


def _epochs(batches):
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            return


@functools.partial(jax.jit, static_argnums=(2, 3))
def _block_indices(key, steps, num_rows, batch_size):
    return jax.vmap(lambda step: batch_indices(key, step, num_rows=num_rows, batch_size=batch_size))(steps)


@functools.partial(jax.jit, static_argnums=3)
def _block_draws(key, steps, influence, batch_size):
    return jax.vmap(lambda step: influence.batch(key, step, batch_size))(steps)


def _on_device(shape, dtype) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))


def num_rows_of(batch: Batch) -> int:
    """Return the length of the leading axis."""
    return np.shape(jax.tree.leaves(batch)[0])[0]
