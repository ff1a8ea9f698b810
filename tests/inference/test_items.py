"""What `fit_many` is given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.inference.items import checked_names, checked_particles, same_start, stacked


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([np.ones(3), np.ones(4)], r"item 0 has \[\(3,\)\], item 1 has \[\(4,\)\].*sf.data.padded"),
        ({"x": np.ones(3), "y": np.ones(4)}, "of the same length in every array"),
        (np.float32(1), "leading axis"),
        (np.ones((3, 0)), "no rows"),
    ],
)
def test_items_that_do_not_fit_together(items, expected):
    with pytest.raises(ValueError, match=expected):
        sf.fit_many(lambda item: lambda x: -0.5 * jnp.sum(x**2), items, particles=np.zeros((3, 5, 1)))


def test_particles_and_names_of_another_number():
    def make(mean):
        return lambda x: -0.5 * jnp.sum((x - mean) ** 2)

    with pytest.raises(ValueError, match="of 2 posteriors and of particles"):
        sf.fit_many(make, np.zeros(2), particles=np.zeros((30, 1)))
    with pytest.raises(ValueError, match="2 different names"):
        sf.fit_many(make, np.zeros(2), particles=np.zeros((2, 30, 1)), names=["a", "a"])


def test_items_of_a_list_are_stacked():
    items, number = stacked([{"x": np.full(3, k), "n": k} for k in range(4)])
    assert number == 4
    np.testing.assert_array_equal(items["x"], np.repeat(np.arange(4)[:, None], 3, axis=1))
    np.testing.assert_array_equal(items["n"], np.arange(4))
    assert stacked((np.zeros((2, 5)), np.ones(2)))[1] == 2
    with pytest.raises(TypeError, match="encode text as numbers"):
        stacked(np.array(["a", "b"]))


def test_names_are_numbers_unless_given():
    assert checked_names(None, 3) == ("0", "1", "2")
    assert checked_names(["a", 2], 2) == ("a", "2")
    assert checked_particles({"x": np.zeros((2, 5))}, 2)["x"].shape == (2, 5)
    with pytest.raises(ValueError, match="of 2 posteriors and of particles"):
        checked_particles({"x": np.zeros((2, 5)), "y": np.zeros(2)}, 2)


def test_the_same_start_for_all():
    target = sf.Density(lambda x: -0.5 * jnp.sum(x**2), prior=lambda key: jax.random.normal(key, (2,)))
    start = same_start(target, 5, 3, key=jax.random.key(0))
    assert start.shape == (3, 5, 2)
    np.testing.assert_array_equal(start[0], start[2])
    assert len(np.unique(start[0])) == 10
