"""Prior times likelihood: the scale of a batch, what is refused, and what it says about its rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def posterior(**changes):
    arguments = {
        "log_prior": lambda w: -0.5 * w**2,
        "log_likelihood": lambda w, rows: -0.5 * (rows - w) ** 2,
        "data": np.arange(10.0),
        **changes,
    }
    return sf.Posterior(**arguments)


def test_posterior_scales_its_batch():
    rows = jnp.array([1.0, 4.0])
    value = posterior().log_density(jnp.array(0.5), rows)
    np.testing.assert_allclose(value, -0.125 - 5 * 0.5 * (0.25 + 12.25))


def test_all_rows_without_a_batch():
    expected = -0.125 - 0.5 * np.sum((np.arange(10.0) - 0.5) ** 2)
    np.testing.assert_allclose(posterior(batch_size=3).log_density(jnp.array(0.5)), expected)


@pytest.mark.parametrize("batch_size", [0, -1, 11, 2.0, "all"])
def test_batch_size_out_of_range(batch_size):
    with pytest.raises(ValueError, match="between 1 and the 10 rows"):
        posterior(batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [3, np.int64(3), np.uint8(3)])
def test_any_integer_is_a_batch_size(batch_size):
    assert posterior(batch_size=batch_size).data.batch_size == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.ones(3), np.ones(4)), "same leading axis"),
        ({"x": np.ones(3), "n": 3.0}, "same leading axis"),
        ({}, "same leading axis"),
        (np.ones((0, 2)), "no rows"),
    ],
)
def test_data_must_be_rows(data, message):
    with pytest.raises(ValueError, match=message):
        posterior(data=data)


def test_data_must_be_numbers():
    with pytest.raises(TypeError, match="numbers"):
        posterior(data=np.array(["a", "b"]))


@pytest.mark.parametrize(
    "log_likelihood",
    [lambda w, rows: jnp.sum(rows - w), lambda w, rows: jnp.ones((10, 2)) * w, lambda w, rows: (rows - w)[:3]],
)
def test_one_value_per_row(log_likelihood):
    with pytest.raises(ValueError, match=r"one value per row, shape \(10,\)"):
        posterior(log_likelihood=log_likelihood).log_density(jnp.ones(()))


def test_observations():
    data = {"y": np.arange(3.0), "x": {"a": np.ones((3, 2))}}
    target = posterior(data=data, log_likelihood=lambda w, rows: -0.5 * (rows["y"] - w) ** 2)
    observed = target.observations.observed()
    assert set(observed) == {"y", "x.a"}
    np.testing.assert_array_equal(observed["y"], data["y"])
    values = target.observations.log_likelihoods(jnp.array([0.0, 1.0]))["likelihood"]
    np.testing.assert_allclose(values, -0.5 * (np.arange(3.0) - np.array([[0.0], [1.0]])) ** 2)
    assert target.observations.predictive(jnp.zeros(2), key=jax.random.key(0)) == {}
    assert posterior(data=sf.data.Mapped(np.arange(10.0)), batch_size=2).observations is None
