"""The width of a network's prior: the density itself, and how it is chosen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models import prior_scales
from steinflow.models.supervised import Weighted, usual_batch_size, usual_num_steps


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(200, 1))
    return X, np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=200)


def test_fixed_width_is_a_gaussian_by_fan_in(waves, x64):
    model = sf.models.NeuralNetwork(*waves, hidden=(4, 3), prior_scale=2.0)
    draws = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 2))
    assert "log_lambda" not in draws
    first, second = (jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), draws) for k in (0, 1))

    def log_density(params):
        layers = zip(params["weights"], params["biases"], strict=True)
        values = [
            stats.norm.logpdf(weights, scale=2 / np.sqrt(len(weights))).sum() + stats.norm.logpdf(biases, scale=2).sum()
            for weights, biases in layers
        ]
        return sum(values) + stats.gamma.logpdf(np.exp(params["log_gamma"]), 1, scale=10) + params["log_gamma"]

    difference = model.log_prior(first) - model.log_prior(second)
    np.testing.assert_allclose(difference, log_density(first) - log_density(second), rtol=1e-10)
    again = sf.models.NeuralNetwork(*waves, hidden=(4, 3)).with_prior_scale(2.0)
    np.testing.assert_allclose(again.log_density(first), model.log_density(first))
    with pytest.raises(ValueError, match="prior_scale must be positive"):
        sf.models.NeuralNetwork(*waves, prior_scale=0.0)


def test_a_prior_of_fixed_width_lets_weights_go_far(waves):
    inferred, fixed = (sf.models.NeuralNetwork(*waves, prior_scale=scale) for scale in (None, 1.0))
    assert inferred.reach < fixed.reach


@pytest.mark.parametrize(("num_rows", "size", "count"), [(7, 1, 5), (400, 80, 5), (1000, 200, 3), (40_000, 500, 1)])
def test_folds(num_rows, size, count):
    folds = prior_scales._folds(num_rows, jax.random.key(0))
    assert [len(rows) for rows in folds] == [size] * count
    together = np.concatenate(folds)
    assert len(set(together.tolist())) == size * count
    assert max(together) < num_rows


def test_the_smallest_width_within_a_standard_error():
    noise = np.random.default_rng(0).normal(size=(2, 50))

    def chosen(*means):
        logs = np.stack([mean + noise * (k + 1) for k, mean in enumerate(means)], axis=1)
        return prior_scales._simplest_of_the_best(logs)

    assert chosen(-1.0, -0.99, -2.0) == 1.0
    assert chosen(-3.0, -1.0, -0.99) == 3.0
    assert chosen(-3.0, -2.0, -1.0) == 9.0
    assert chosen(np.nan, -np.inf, -1.0) == 9.0


def test_rows_of_weight_zero_are_not_seen(waves):
    model = sf.models.NeuralNetwork(*waves, hidden=(4,), prior_scale=1.0)
    weight = jnp.ones(200).at[50:].set(0.0)
    other = {**model.data, "y": model.data["y"].at[50:].set(100.0)}
    params = model.sample_prior(jax.random.key(0))
    values = [
        sf.Posterior(model.log_prior, Weighted(model.log_likelihood), {**data, "weight": weight}).log_density(params)
        for data in (model.data, other)
    ]
    assert values[0] == values[1]


def test_waves_want_a_wide_prior_and_noise_a_narrow_one(waves):
    X, y = waves
    settings = {"hidden": (20,), "batch_size": 50}
    noise = np.random.default_rng(1).normal(size=200)
    assert sf.models.best_prior_scale(sf.models.NeuralNetwork(X, y, **settings), num_particles=5, num_steps=1000) > 1.0
    model = sf.models.NeuralNetwork(X, noise, **settings)
    assert sf.models.best_prior_scale(model, num_particles=5, num_steps=1000) == 1.0


def test_interruption_ends_the_choice(waves, monkeypatch):
    calls = []

    def interrupted(*args, **kwargs):
        calls.append(kwargs)
        return type("Result", (), {"outcome": type("Outcome", (), {"status": "interrupted"})})

    monkeypatch.setattr(prior_scales, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sf.models.best_prior_scale(sf.models.NeuralNetwork(*waves, hidden=(4,)))
    assert len(calls) == 1


def test_networks_take_many_small_steps():
    assert usual_batch_size(100, is_network=True) is None
    assert [usual_batch_size(rows, is_network=True) for rows in (101, 40_000, 80_000, 10**6)] == [100, 100, 200, 1000]
    steps = [usual_num_steps(rows, batch, is_network=True) for rows, batch in ((80, None), (8000, 100), (10**6, 1000))]
    assert steps == [2000, 4000, 20_000]
