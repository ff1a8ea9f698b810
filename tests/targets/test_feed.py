"""Blocks of batches from the host: the rows that belong to each step, read one ahead."""

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.targets.anchors import Anchor
from steinflow.targets.data import Rows, as_data
from steinflow.targets.feed import Feed
from steinflow.targets.influence import Influence

KEY = jax.random.key(0)
VALUES = np.arange(10.0, dtype=np.float32)


def test_nothing_to_do_without_data_on_the_host():
    for data in (None, Rows(VALUES, 2)):
        with Feed(data, key=KEY) as feed:
            assert feed.seek(10**6)
            assert feed.block is None
            assert feed.example() is None


def test_mapped_rows_are_those_of_arrays():
    arrays = Rows(VALUES, 3)
    with Feed(as_data(sf.data.Mapped(VALUES), 3), key=KEY) as feed:
        example = feed.example()
        for step in (0, 1, 63, 64, 200, 5):  # also backwards, and into the middle of a block
            assert feed.seek(step)
            np.testing.assert_array_equal(
                feed.block.batch(jnp.asarray(step)), arrays.minibatch(KEY, jnp.asarray(step)), f"step {step}"
            )
            assert feed.block.batches.shape == example.batches.shape


def test_rows_drawn_by_influence_are_those_of_arrays_and_read_anew_where_it_changes():
    arrays, point = Rows(VALUES, 4), jnp.zeros(1)
    anchors = [Anchor.unknown_at(point, Influence.of(weights, 10)) for weights in (np.arange(10.0), VALUES[::-1])]
    with Feed(as_data(sf.data.Mapped(VALUES), 4), key=KEY) as feed:
        for step, anchor in ((3, anchors[0]), (5, anchors[0]), (5, anchors[1]), (70, anchors[1])):
            assert feed.seek(step, anchor)
            expected = arrays.minibatch(KEY, jnp.asarray(step), anchor.influence)
            found = feed.block.batch(jnp.asarray(step))
            np.testing.assert_array_equal(found.values, expected.values)
            np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6)
            example = feed.example(anchor).batches
            assert jax.tree.map(jnp.shape, feed.block.batches) == jax.tree.map(jnp.shape, example)


def test_a_stream_that_ends():
    with Feed(as_data(sf.data.Stream(iter([VALUES[:5], VALUES[5:]]), num_rows=10)), key=KEY) as feed:
        assert feed.seek(0)
        assert feed.stop == 2
        np.testing.assert_array_equal(feed.block.batch(jnp.asarray(1)), VALUES[5:])
        assert not feed.seek(2)
