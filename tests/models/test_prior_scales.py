"""The width of a network's prior: the density itself, and how it is chosen."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models import prior_scales


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


@pytest.mark.slow
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
        return SimpleNamespace(outcome=sf.Outcome.INTERRUPTED)

    monkeypatch.setattr(prior_scales, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sf.models.best_prior_scale(sf.models.NeuralNetwork(*waves, hidden=(4,)))
    assert len(calls) == 1


def test_particles_rows_and_runs_have_keys_of_their_own(waves, monkeypatch):
    keys = []

    def remember(name, function, take):
        def called(*args, **kwargs):
            keys.append((name, take(args, kwargs)))
            return function(*args, **kwargs)

        return called

    def interrupted(*args, **kwargs):
        return SimpleNamespace(outcome=sf.Outcome.INTERRUPTED)

    key = jax.random.key(3)
    monkeypatch.setattr(prior_scales, "fit", remember("run", interrupted, lambda args, kwargs: kwargs["key"]))
    folds = remember("rows", prior_scales._folds, lambda args, kwargs: args[1])
    monkeypatch.setattr(prior_scales, "_folds", folds)
    with pytest.raises(KeyboardInterrupt):
        sf.models.best_prior_scale(sf.models.NeuralNetwork(*waves, hidden=(4,)), key=key)
    used = {"given": key, **dict(keys)}
    # What `fit` makes of its key must not be a key that was used here: with JAX the first keys of a split are the same.
    inside_fit = [tuple(jax.random.key_data(k).tolist()) for k in jax.random.split(used["run"], 4)]
    outside = [tuple(jax.random.key_data(k).tolist()) for k in (used["given"], used["rows"])]
    assert not set(inside_fit) & set(outside)
    assert not jnp.array_equal(jax.random.key_data(used["run"]), jax.random.key_data(used["given"]))
