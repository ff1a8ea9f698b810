"""Which rows of the data belong to which step: seeded epochs without replacement, and no state.

A shuffled epoch is a permutation of `0 .. N-1`. Storing it costs O(N); computing where one position
goes costs O(1) with a Feistel network, a keyed bijection. So the batch of step t is a pure function
of `(key, t)`: the same on every host, and a resumed run needs nothing but the step number.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

_ROUNDS = 6


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


def _scramble(word):
    """Mix the bits of a 32-bit word (the finaliser of MurmurHash3)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
