"""What a model says about what was observed."""

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.observations import Labels, Observations, ObservedRows


class Silent(Observations):
    def observed(self):
        return {"y": jnp.zeros(2)}


def test_nothing_more_is_asked_of_a_model_than_what_was_observed():
    silent = Silent()
    assert silent.log_likelihoods({}) == silent.predictive({}, key=jax.random.key(0)) == {}
    assert silent.predictions({}, 10) is None
    assert silent.labels() == Labels({}, {})


def test_rows_are_named_by_their_place():
    rows = {"y": jnp.arange(3.0), "x": (jnp.ones(3), jnp.zeros((3, 2)))}
    observed = ObservedRows(lambda p, rows: rows["y"], rows).observed()
    assert set(observed) == {"y", "x.0", "x.1"}
    assert set(ObservedRows(lambda p, rows: rows, jnp.arange(3.0)).observed()) == {"data"}


def test_likelihoods_of_every_row_under_every_particle():
    found = ObservedRows(lambda p, y: -((y - p) ** 2), jnp.arange(3.0)).log_likelihoods(jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(found["likelihood"], [[0, -1, -4], [-1, 0, -1]])
