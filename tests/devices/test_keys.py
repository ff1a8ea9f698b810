"""Keys made and split on the host are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices.keys import as_key, split_key


@pytest.mark.parametrize("key", [0, np.int64(0), jax.random.key(0), jax.random.PRNGKey(0), np.array([0, 0], np.uint32)])
def test_keys_of_all_kinds(key):
    assert as_key(key) == jax.random.key(0)


@pytest.mark.parametrize("key", ["0", 1.5, None, jnp.zeros(2), jax.random.split(jax.random.key(0), 2)])
def test_not_a_key(key):
    with pytest.raises(TypeError, match="int or a single JAX random key"):
        as_key(key)


@pytest.mark.parametrize("seed", [1, 2**31 - 1, 2**31, 2**40 + 1, -1])
def test_every_seed_gives_the_key_of_jax(seed, dtype):
    assert as_key(seed) == jax.random.key(seed)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_split_keys_are_those_of_jax(impl):
    key = jax.random.fold_in(jax.random.key(3, impl=impl), 5)
    for num in (1, 4):
        keys = split_key(key, num)
        assert len(keys) == num
        assert all(map(lambda ours, theirs: ours == theirs, keys, jax.random.split(key, num)))


def test_the_older_way_of_splitting_is_respected():
    key = jax.random.key(3)
    with jax.threefry_partitionable(False):
        assert all(map(lambda ours, theirs: ours == theirs, split_key(key, 3), jax.random.split(key, 3)))
