"""Data that stays outside the compiled loop: rows of mapped files, and streams of batches; read one block ahead.

Compiled steps need their batches on the device. Here a thread reads the next block of batches while the device works on
the current one, so that data of any size costs the memory of two blocks.
"""

import abc
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.targets.batches import batch_indices
from steinflow.typing import Array, Batch, PRNGKeyArray, PyTree

_BLOCK_BYTES = 2**24
_BLOCK_STEPS = 64


class HostData(abc.ABC):
    """Data on the host. It is compared by identity, and compiled code sees none of it."""

    num_data: int

    @abc.abstractmethod
    def batch_shape(self, batch_size: int | None) -> Batch:
        """Return the shapes and dtypes of one batch."""

    @abc.abstractmethod
    def read(self, key: PRNGKeyArray, start: int, stop: int, batch_size: int | None) -> Batch | None:
        """Return the batches of steps start .. stop-1, stacked; fewer if they end before, None if there are none."""


class Mapped(HostData):
    """Arrays on the host that are read by rows: mapped files, HDF5, Zarr, or NumPy arrays too big for the device.

    `Posterior` wraps mapped files by itself; wrap others as `sf.Mapped(arrays)` to keep them on the host.

    Args:
        arrays: a pytree of objects with `shape`, `dtype` and `[indices]`.
    """

    def __init__(self, arrays: PyTree):
        self.arrays = arrays
        lengths = {leaf.shape[0] if leaf.shape else 0 for leaf in jax.tree.leaves(arrays)}
        if len(lengths) != 1:
            raise ValueError(
                f"All arrays in data need the same leading axis, one entry per row; got lengths {lengths}."
            )
        self.num_data = lengths.pop()

    def batch_shape(self, batch_size):
        return jax.tree.map(lambda leaf: _on_device((batch_size, *leaf.shape[1:]), leaf.dtype), self.arrays)

    def read(self, key, start, stop, batch_size):
        # Always a full block of indices, so that this compiles once.
        steps = start + jnp.arange(_BLOCK_STEPS)
        indices = np.asarray(_block_indices(key, steps, self.num_data, batch_size))[: stop - start]
        # In ascending order, as files like it, and HDF5 demands; then back into the order of the shuffle.
        places, back = np.unique(indices, return_inverse=True)
        back = back.reshape(indices.shape)
        return jax.tree.map(lambda leaf: np.asarray(leaf[places])[back], self.arrays)


class Stream(HostData):
    """Batches that come from anywhere, in order, one per step: a loader, a generator, a queue.

    All batches have the size of the first; shorter ones, as at the end of a loader's epoch, are left out.

    Args:
        batches: an iterable of batches, each pass over it being one epoch (a `torch` DataLoader, say); or a function
            that takes a step number to an iterator over the batches from that step on. A run that resumes calls the
            function with the step; an iterable is read from its beginning up to there, and has to yield the same
            batches again.
        num_data: the number of rows N that the batches are drawn from.
    """

    def __init__(self, batches: Iterable[Batch] | Callable[[int], Iterator[Batch]], num_data: int):
        if not callable(batches) and not isinstance(batches, Iterable):
            raise TypeError(f"A stream is an iterable of batches, or a function step -> iterator; got {batches!r}.")
        self.batches, self.num_data = batches, num_data
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
            if batch_size not in (None, _num_rows(self._shape)):
                raise ValueError(
                    f"batch_size is {batch_size}, but the batches of the stream have {_num_rows(self._shape)} rows: "
                    "leave it out."
                )
        return self._shape

    def read(self, key, start, stop, batch_size):
        self.batch_shape(batch_size)
        if start < self._position or (start > self._position and callable(self.batches)):
            self._open(start)
        batches = []
        while self._position < stop and (batch := self._next()) is not None:
            if self._position > start:
                batches.append(batch)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches) if batches else None

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
            if _num_rows(batch) < _num_rows(self._shape):
                continue
            shapes = [jax.tree.map(np.shape, tree) for tree in (self._shape, batch)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"All batches of a stream have the same shapes: expected {shapes[0]}, got {shapes[1]} at step "
                    f"{self._position}."
                )
            self._position += 1
            return batch
        return None


class Block(eqx.Module):
    """Batches of consecutive steps, on the device."""

    first: Array
    batches: Batch

    def batch(self, step: Array) -> Batch:
        """Return the batch of a step."""
        return jax.tree.map(lambda leaf: leaf[step - self.first], self.batches)


class Feed:
    """Reads blocks of batches in a thread, one ahead of the run; does nothing where no data are on the host."""

    def __init__(self, data: HostData | None, batch_size: int | None, *, key: PRNGKeyArray):
        self.block: Block | None = None  # the one at hand
        self._start, self.stop = 0, float("inf")  # the steps that it holds
        self._data, self._batch_size, self._key = data, batch_size, key
        self._next: Future | None = None
        self._next_start = 0
        self._mesh = jax.sharding.get_mesh()
        if data is not None:
            shapes = jax.tree.leaves(data.batch_shape(batch_size))
            size = sum(leaf.size * leaf.dtype.itemsize for leaf in shapes)
            self._length = max(1, min(_BLOCK_STEPS, _BLOCK_BYTES // max(size, 1)))
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="steinflow-feed")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._data is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def example(self) -> Block | None:
        """Return the shapes of a block."""
        if self._data is None:
            return None

        def stacked(leaf):
            return jax.ShapeDtypeStruct((self._length, *leaf.shape), leaf.dtype)

        batches = jax.tree.map(stacked, self._data.batch_shape(self._batch_size))
        return Block(jnp.zeros((), jnp.int32), batches)

    def seek(self, step: int) -> bool:
        """Make the block that holds `step` the one at hand; False where the data have ended before."""
        if self._data is None or (self.block is not None and self._start <= step < self.stop):
            return True
        if self._next is None or self._next_start != step:
            self._next = self._thread.submit(self._read, self._data, step)
        block, stop = self._next.result()
        if block is None:
            return False
        self.block, self._start, self.stop = block, step, stop
        self._next, self._next_start = self._thread.submit(self._read, self._data, stop), stop
        return True

    def _read(self, data, start):
        batches = data.read(self._key, start, start + self._length, self._batch_size)
        if batches is None:
            return None, start
        length = _num_rows(batches)
        if length < self._length:  # one shape for all blocks
            batches = jax.tree.map(lambda leaf: np.resize(leaf, (self._length, *leaf.shape[1:])), batches)
        with sharding.use(None if self._mesh.empty else self._mesh):
            placed = sharding.place_rows(batches, axis=1)
            return Block(sharding.replicate(jnp.asarray(start)), placed), start + length


def as_data(data: PyTree | HostData) -> PyTree | HostData:
    """Put arrays on the device, and leave what is mapped or streamed on the host."""
    if isinstance(data, HostData):
        return data
    leaves = jax.tree.leaves(data)
    if any(isinstance(leaf, np.memmap) or _is_lazy(leaf) for leaf in leaves):
        return Mapped(data)
    return jax.tree.map(jnp.asarray, data)


def _is_lazy(leaf) -> bool:
    """HDF5, Zarr and the like: arrays by their looks, which would have to be read to become one."""
    looks = all(hasattr(leaf, name) for name in ("shape", "dtype", "__getitem__"))
    return looks and not hasattr(leaf, "__add__")  # what can add is in memory


def _epochs(batches):
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            return


@functools.partial(jax.jit, static_argnums=(2, 3))
def _block_indices(key, steps, num_data, batch_size):
    return jax.vmap(lambda step: batch_indices(key, step, num_data=num_data, batch_size=batch_size))(steps)


def _on_device(shape, dtype) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))


def _num_rows(batch) -> int:
    return np.shape(jax.tree.leaves(batch)[0])[0]
