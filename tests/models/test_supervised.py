"""What all models share: rows per step, steps, and weights of rows."""

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.models.supervised import Weighted, usual_batch_size


def test_many_rows_come_in_batches():
    assert usual_batch_size(10_000) is None
    assert usual_batch_size(10_001) == 1000


def test_networks_take_many_small_steps():
    assert usual_batch_size(100, is_network=True) is None
    assert [usual_batch_size(rows, is_network=True) for rows in (101, 10_000, 20_000, 10**6)] == [100, 100, 200, 1000]


def test_rows_of_weight_zero_are_not_seen():
    rng = np.random.default_rng(0)
    model = sf.models.NeuralNetwork(rng.normal(size=(200, 1)), rng.normal(size=200), hidden=(4,), prior_scale=1.0)
    weight = jnp.ones(200).at[50:].set(0.0)
    other = {**model.data.values, "y": model.data.values["y"].at[50:].set(100.0)}
    params = model.sample_prior(jax.random.key(0))
    values = [
        sf.Posterior(model.log_prior, Weighted(model.log_likelihood), {**data, "weight": weight}).log_density(params)
        for data in (model.data.values, other)
    ]
    assert values[0] == values[1]


def test_calibration_knows_nothing_of_padding():
    model = sf.models.NeuralNetwork(np.zeros((20, 1)), np.arange(20) % 2, hidden=(2,), family=sf.models.Bernoulli())
    weighted, rows = Weighted(model.log_likelihood), {**model.data.values, "weight": jnp.ones(20).at[5:].set(0.0)}
    forecasts = np.asarray(weighted.forecasts(model.sample_prior(jax.random.key(0)), rows))
    assert forecasts.shape == (20, 2)
    assert weighted.calibration(forecasts, rows)["held_out_rows"] == 5
    assert weighted.calibration(forecasts, {**rows, "weight": jnp.zeros(20)}) == {}
