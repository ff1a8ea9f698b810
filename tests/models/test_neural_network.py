"""Neural networks: the paper's log density, starts, both kinds of noise, any depth and family."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models.neural_network import through_layers
from steinflow.targets.posterior import CountedPrior


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1, 100]
    return X, 300 + 20 * np.sin(X[:, 0]) + rng.normal(size=50)


def test_log_density_is_the_papers(rows, x64):
    X, y = rows
    model = sf.models.NeuralNetwork(X, y, hidden=(4,), batch_size=10)
    params = eqx.filter_jit(model.sample_prior)(jax.random.key(1))
    Z, t = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    (W1, w2), (b1, b2) = map(np.asarray, params["weights"]), map(np.asarray, params["biases"])
    gamma, lam = np.exp(params["log_gamma"]), np.exp(params["log_lambda"])
    errors = t[:10] - (np.maximum(Z[:10] @ W1 + b1, 0) @ w2[:, 0] + b2[0])
    K = 2 * 4 + 2 * 4 + 1
    squares = sum(np.sum(leaf**2) for leaf in (W1, b1, w2, b2))
    expected = 5 * (5 * (np.log(gamma) - np.log(2 * np.pi)) - 0.5 * gamma * np.sum(errors**2))
    expected += 0.5 * K * np.log(lam) - 0.5 * lam * squares
    expected += np.log(gamma) - 0.1 * gamma + np.log(lam) - 0.1 * lam
    batch = jax.tree.map(lambda leaf: leaf[:10], model.data.values)
    np.testing.assert_allclose(eqx.filter_jit(model.log_density)(params, batch), expected, rtol=1e-10)
    assert jax.grad(model.activation)(0.0) == 0  # and not 1/2, as jnp.maximum has it


def test_starts_are_the_authors(rows):
    model = sf.models.NeuralNetwork(*rows, hidden=(40,))
    draws = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 500))
    draws = jax.tree.map(np.asarray, draws)
    np.testing.assert_allclose(np.std(draws["weights"][0]), 1 / np.sqrt(3), rtol=0.03)
    np.testing.assert_allclose(np.std(draws["weights"][1]), 1 / np.sqrt(41), rtol=0.03)
    assert all(np.all(biases == 0) for biases in draws["biases"])
    np.testing.assert_allclose(np.mean(np.exp(draws["log_lambda"])), 0.1, rtol=0.15)
    one = jax.tree.map(lambda leaf: leaf[0], draws)
    errors = jax.jit(lambda one: model.mean(one, rows[0]))(one) - rows[1]
    scale = np.std(rows[1])
    np.testing.assert_allclose(np.exp(-one["log_gamma"]) * scale**2, np.mean(errors**2), rtol=1e-3)


def test_evaluation(rows, x64):
    X, y = rows
    model = sf.models.NeuralNetwork(X[:40], y[:40], hidden=(4,))
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 3))
    outputs = np.asarray(jax.jit(jax.vmap(lambda params: model.mean(params, X)))(particles))
    test = slice(45, 50)
    metrics = model.evaluate(particles, X[test], y[test])
    mean = outputs.mean(axis=0)
    assert metrics["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y)[test] ** 2)))

    def log_likelihood(precision):
        density = np.sqrt(precision / (2 * np.pi)) * np.exp(-0.5 * precision * (y - outputs)[:, test] ** 2)
        return np.mean(np.log(density.mean(axis=0)))

    # Gamma lives on the scale of the standardised y.
    gamma = np.exp(np.asarray(particles["log_gamma"]))[:, None] / np.std(y[:40]) ** 2
    assert metrics["log_likelihood"] == pytest.approx(log_likelihood(gamma))


@pytest.mark.parametrize(
    ("hidden", "activation"), [((), "relu"), pytest.param((3,), "tanh", marks=pytest.mark.slow), ((4, 3, 2), jnp.sin)]
)
def test_any_depth_and_activation(rows, hidden, activation, x64):
    model = sf.models.NeuralNetwork(*rows, hidden=hidden, activation=activation)
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 2))
    assert [w.shape[1:] for w in particles["weights"]] == list(zip((2, *hidden), (*hidden, 1), strict=True))
    flat, x = sf.flatten(model, particles)
    direction = jax.random.normal(jax.random.key(1), x[0].shape)

    @jax.jit
    def both(x):
        numeric = (flat.log_density(x[0] + 1e-6 * direction) - flat.log_density(x[0] - 1e-6 * direction)) / 2e-6
        return flat.scores(x)[0] @ direction, numeric

    np.testing.assert_allclose(*both(x), rtol=1e-4)


@pytest.mark.parametrize("num_outputs", [1, 2])
def test_many_particles_at_once_on_the_host(rows, num_outputs, x64):
    X, y = rows
    family = sf.models.Gaussian() if num_outputs == 1 else sf.models.VaryingGaussian()
    model = sf.models.NeuralNetwork(X, y, hidden=(4, 3), activation="tanh", family=family)
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 5))
    expected = jax.jit(jax.vmap(model.forward, (0, None)))(particles, model.data.values["X"])
    layers = list(zip(*(map(np.asarray, particles[name]) for name in ("weights", "biases")), strict=True))
    found = through_layers(layers, np.asarray(model.data.values["X"]), np.tanh)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, np.reshape(expected, (5, 50, num_outputs)), rtol=1e-10)


def test_the_prior_of_fixed_width_beside_scipy(rows, x64):
    """Weights by fan-in; an output that is the logarithm of a scale has a quarter of the width; it may count often."""
    model = sf.models.NeuralNetwork(*rows, hidden=(4,), family=sf.models.VaryingGaussian(), prior_scale=3.0)
    rng = np.random.default_rng(1)
    one, other = (
        jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), model.sample_prior(jax.random.key(0))) for _ in range(2)
    )

    def expected(params):
        (W1, W2), (b1, b2) = params["weights"], params["biases"]
        of_outputs = 3.0 * np.array([1.0, 0.25])
        scales = (W1, 3.0 / np.sqrt(2)), (W2, of_outputs / np.sqrt(4)), (b1, 3.0), (b2, of_outputs)
        return sum(stats.norm(0, scale).logpdf(values).sum() for values, scale in scales)

    difference = expected(one) - expected(other)
    np.testing.assert_allclose(model.log_prior(one) - model.log_prior(other), difference, rtol=1e-6)
    often = CountedPrior(model.log_prior, jnp.asarray(16.0))
    np.testing.assert_allclose(often(one) - often(other), 16 * difference, rtol=1e-6)


def test_the_prior_of_the_noise_counts_once(rows, x64):
    model = sf.models.NeuralNetwork(*rows, hidden=(4,), prior_scale=3.0)
    params = model.sample_prior(jax.random.key(0))
    noisier = {**params, "log_gamma": params["log_gamma"] + 1.0}
    often = CountedPrior(model.log_prior, jnp.asarray(16.0))
    np.testing.assert_allclose(often(noisier) - often(params), model.log_prior(noisier) - model.log_prior(params))


@pytest.mark.slow
def test_classes_are_learnt():
    X, y, model = circles()
    result = sf.fit(model, sf.SVGD.for_networks(), num_particles=5, num_steps=1500, progress=False)
    assert model.evaluate(result.particles, X, y)["accuracy"] > 0.9


def test_classification():
    """The densities of prior draws, without a fit."""
    X, y, model = circles()
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 5))
    assert "log_gamma" not in particles
    probabilities = np.asarray(model.predict(particles, X))
    assert probabilities.shape == (200, 3)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, rtol=1e-5)
    found = model.evaluate(particles, X, y)
    assert found["accuracy"] == pytest.approx(np.mean(np.argmax(probabilities, axis=1) == y))
    assert found["log_likelihood"] == pytest.approx(np.mean(np.log(probabilities[np.arange(200), y])), rel=1e-4)


def circles():
    """Three classes, one around the other, and a network for them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (np.sum(X**2, axis=1) > 1.4).astype(int) + (np.sum(X**2, axis=1) > 4)
    model = sf.models.NeuralNetwork(X, y, hidden=(20,), family=sf.models.Categorical(3), batch_size=50)
    return X, y, model


def test_constant_features_are_harmless(rows):
    X = np.c_[rows[0], np.ones(50)]
    model = sf.models.NeuralNetwork(X, rows[1])
    assert jnp.all(jnp.isfinite(model.data.values["X"]))


def test_errors(rows):
    with pytest.raises(ValueError, match=r"jax\.nn"):
        sf.models.NeuralNetwork(*rows, activation="rleu")
    with pytest.raises(ValueError, match="hidden"):
        sf.models.NeuralNetwork(*rows, hidden=(0,))


def test_weights_are_not_identified(rows):
    assert not sf.models.NeuralNetwork(*rows).identified
    assert sf.models.LinearRegression(*rows).identified
