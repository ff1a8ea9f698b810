"""Batches from the host for compiled steps, read one block ahead.

Compiled steps need their batches on the device. Here a thread reads the next block of batches while the device works on
the current one, so that data of any size costs the memory of two blocks.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.targets.anchors import Anchor
from steinflow.targets.data import Data, finite_rows
from steinflow.targets.influence import Drawn, Influence
from steinflow.targets.streams import BLOCK_STEPS, num_rows_of
from steinflow.typing import Array, Batch, PRNGKeyArray

_BLOCK_BYTES = 2**24


class Block(eqx.Module):
    """Batches of consecutive steps, on the device."""

    first: Array
    batches: Batch

    @property
    def length(self) -> int:
        """How many batches there are; at the end of a stream the last ones repeat the first."""
        return num_rows_of(self.batches)

    def batch(self, step: Array) -> Batch:
        """Return the batch of a step."""
        return jax.tree.map(lambda leaf: leaf[step - self.first], self.batches)


class Feed:
    """Reads blocks of batches in a thread, one ahead of the run; does nothing where no data are on the host.

    Args:
        data: of the target; None where it has none.
        key: decides which rows of mapped files belong to which step.
    """

    def __init__(self, data: Data | None, *, key: PRNGKeyArray):
        self.block: Block | None = None  # the one at hand
        self._start, self.stop = 0, float("inf")  # the steps that it holds
        self._host, self._key = None if data is None else data.host, key
        # Rows that can be read again are looked at by anchors, when they find a score that is not finite.
        self._again = data is None or data.blocks(1, key=key) is not None
        self._batch: Batch | None = None if data is None else data.batch_shape()
        self._next: Future | None = None
        self._next_start = 0
        self.odd: dict[int, np.ndarray] = {}  # which rows of a batch are finite, where not all are, by the step
        self._influence: Influence | None = None  # that the blocks at hand were drawn by
        self._mesh = jax.sharding.get_mesh()
        if self._host is not None:
            size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self._batch))
            self._length = max(1, min(BLOCK_STEPS, _BLOCK_BYTES // max(size, 1)))
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="steinflow-feed")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._host is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def example(self, anchor: Anchor | None = None) -> Block | None:
        """Return the shapes of a block."""
        if self._host is None:
            return None
        batch = self._batch
        if anchor is not None and anchor.influence is not None:
            batch = Drawn(batch, jax.ShapeDtypeStruct((num_rows_of(batch),), jnp.result_type(float)))

        def stacked(leaf):
            return jax.ShapeDtypeStruct((self._length, *leaf.shape), leaf.dtype)

        batches = jax.tree.map(stacked, batch)
        return Block(jnp.zeros((), jnp.int32), batches)

    def seek(self, step: int, anchor: Anchor | None = None) -> bool:
        """Make the block that holds `step` the one at hand; False where the data have ended before.

        Its rows are drawn by the influence that the anchor knows: where that has changed, they are read anew.
        """
        influence = None if anchor is None else anchor.influence
        same = influence is self._influence
        if self._host is None or (same and self.block is not None and self._start <= step < self.stop):
            return True
        self._influence = influence
        if self._next is None or self._next_start != step or not same:
            self._next = self._thread.submit(self._read, self._host, step, influence)
        block, stop, self.odd = self._next.result()
        if block is None:
            return False
        self.block, self._start, self.stop = block, step, stop
        self._next, self._next_start = self._thread.submit(self._read, self._host, stop, influence), stop
        return True

    def _read(self, host, start, influence):
        batches = host.read(self._key, start, start + self._length, num_rows_of(self._batch), influence)
        if batches is None:
            return None, start, {}
        length = num_rows_of(batches)
        odd = {} if self._again else _odd(batches, start)
        if length < self._length:  # one shape for all blocks
            batches = jax.tree.map(lambda leaf: np.resize(leaf, (self._length, *leaf.shape[1:])), batches)
        with sharding.use(None if self._mesh.empty else self._mesh):
            placed = sharding.place_rows(batches, axis=1)
            return Block(sharding.replicate(jnp.asarray(start)), placed), start + length, odd


def _odd(batches, start):
    """Say of the rows of every batch whether they are finite, where not all are."""
    found = (finite_rows(jax.tree.map(lambda leaf, k=k: leaf[k], batches)) for k in range(num_rows_of(batches)))
    return {start + k: finite for k, finite in enumerate(found) if not finite.all()}
