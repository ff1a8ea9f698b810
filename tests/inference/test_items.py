"""What `fit_many` is given."""

import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


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
