"""Which rows of the data belong to which step: seeded epochs without replacement, and no state.

A shuffled epoch is a permutation of `0 .. N-1`. Storing it costs O(N); computing where one position
goes costs O(1) with a Feistel network, a keyed bijection. So the batch of step t is a pure function
of `(key, t)`: the same on every host, and a resumed run needs nothing but the step number.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from steinflow.typing import Batch

_ROUNDS = 6
_BLOCK_BYTES = 2**22  # of the rows that are read at once; what a model makes of them takes more


def batch_indices(
    key: PRNGKeyArray, step: Int[Array, ""] | int, *, num_rows: int, batch_size: int
) -> Int[Array, " batch_size"]:
    """Return the rows of the minibatch at `step`.

    An epoch has `num_rows // batch_size` batches, and no row twice; the rows left over differ from epoch to epoch,
    because each epoch is shuffled anew.
    """
    epoch, place = jnp.divmod(jnp.asarray(step), num_rows // batch_size)
    positions = place * batch_size + jnp.arange(batch_size)
    return shuffle(jax.random.fold_in(key, epoch), positions, num_rows)


def shuffle(key: PRNGKeyArray, positions: Int[Array, " b"], size: int) -> Int[Array, " b"]:
    """Send positions through a pseudo-random permutation of `0 .. size-1`.

    The network permutes `0 .. 4^half - 1`, the next power of four; a position that leaves `0 .. size-1` is sent
    through again until it comes back (cycle walking), which keeps the map a bijection.
    """
    half = max(1, -(-max(size - 1, 1).bit_length() // 2))
    mask = jnp.uint32((1 << half) - 1)
    round_keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def permute(position):
        left, right = position >> half, position & mask
        for round_key in round_keys:
            left, right = right, left ^ (_scramble(right ^ round_key) & mask)
        return (left << half) | right

    def walk(position):
        return jnp.where(position >= size, permute(position), position)

    walked = jax.lax.while_loop(lambda position: jnp.any(position >= size), walk, permute(positions.astype(jnp.uint32)))
    return walked.astype(jnp.int32)


def block_size(rows: Batch, num_rows: int) -> int:
    """Return into blocks of how many rows to cut the data: all equal, where there is such a number, so few programs."""
    leaves = jax.tree.leaves(rows)
    bytes_per_row = sum(int(np.prod(leaf.shape[1:])) * leaf.dtype.itemsize for leaf in leaves)
    most = max(1, min(num_rows, _BLOCK_BYTES // max(bytes_per_row, 1)))
    return next((size for size in range(most, most // 2, -1) if num_rows % size == 0), most)


def row_blocks(rows: Batch, num_rows: int, wanted: int, *, key: PRNGKeyArray) -> Iterator[slice | np.ndarray]:
    """Yield the rows of every block: all in order, or, where fewer are wanted, at least so many random ones.

    Blocks of random rows are whole, so that they share one compiled program; no row comes twice.
    """
    size = block_size(rows, num_rows)
    count = -(-wanted // size)
    if count * size > num_rows // 2:
        yield from (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))
        return
    for start in range(0, count * size, size):
        yield np.asarray(_shuffled(key, start + np.arange(size, dtype=np.int32), num_rows))


_shuffled = functools.partial(jax.jit, static_argnums=2)(shuffle)


def _scramble(word):
    """Mix the bits of a 32-bit word (the finaliser of MurmurHash3)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
