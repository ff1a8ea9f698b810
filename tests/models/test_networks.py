"""Equinox and Flax modules as Bayesian networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import steinflow as sf

RNG = np.random.default_rng(0)
X = np.linspace(-2, 2, 64)[:, None]
Y = 3 + np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=64)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.tanh(linen.Dense(10)(x)))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(1, 10, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(10, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.tanh(self.first(x))))


def equinox(key):
    return eqx.nn.MLP(1, 1, 10, 1, activation=jnp.tanh, key=key)


NETWORKS = {
    "equinox": equinox,
    "equinox module": equinox(jax.random.key(0)),
    "linen": Linen(),
    "nnx": lambda key: Nnx(nnx.Rngs(key)),
    "nnx module": Nnx(nnx.Rngs(0)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_module(name):
    target = sf.from_network(NETWORKS[name], X, Y, batch_size=32)
    particles = jax.jit(jax.vmap(target.sample_prior))(jax.random.split(jax.random.key(0), 5))
    leaves = jax.tree.leaves(particles["network"])
    assert sorted(leaf.shape for leaf in leaves)[:2] == [(5, 1), (5, 1, 10)]
    assert all(np.std(leaf, axis=0).max() > 0 for leaf in leaves if leaf.ndim > 2)  # every particle starts elsewhere
    means = jax.jit(jax.vmap(lambda params: target.mean(params, X)))(particles)
    np.testing.assert_allclose(target.predict(particles, X), np.mean(means, axis=0), rtol=1e-4)
    batch = target.data.minibatch(jax.random.key(0), jnp.asarray(0))
    one = jax.tree.map(lambda x: x[0], particles)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(jax.jit(jax.grad(target.log_density))(one, batch)))


def test_the_same_density_whoever_wrote_the_module():
    """The three libraries agree on one network, one with its weights the other way round."""
    targets = {name: sf.from_network(NETWORKS[name], X, Y) for name in ("equinox", "linen", "nnx")}
    params = {"equinox": eqx.filter_jit(targets["equinox"].sample_prior)(jax.random.key(0))}
    first, last = params["equinox"]["network"].layers
    linen_params = {
        "Dense_1": {"kernel": first.weight.T, "bias": first.bias},  # made second, being an argument
        "Dense_0": {"kernel": last.weight.T, "bias": last.bias},
    }
    params["linen"] = {"network": linen_params, "log_gamma": params["equinox"]["log_gamma"]}
    densities = [float(eqx.filter_jit(targets[name].log_density)(params[name])) for name in ("equinox", "linen")]
    np.testing.assert_allclose(*densities, rtol=1e-5)


@pytest.mark.slow
def test_regression_learns_and_says_what_it_does_not_know():
    target = sf.from_network(equinox, X, Y)
    result = sf.fit(target, num_particles=20, num_steps=2000, key=0, progress=False)
    figures = target.evaluate(result.particles, X, Y)
    assert figures["rmse"] < 0.2
    parts = sf.models.uncertainty(target, result.particles, [[0.0], [8.0]])
    assert parts.epistemic[1] > 3 * parts.epistemic[0]
    np.testing.assert_allclose(parts.total**2, parts.epistemic**2 + parts.aleatoric**2, rtol=1e-4)
    assert 0.05 < parts.aleatoric[0] < 0.25  # the noise is 0.1


@pytest.fixture(scope="module")
def images():
    """Small images of three classes, and a convolutional network for them."""
    pixels = RNG.normal(size=(60, 1, 4, 4))
    labels = (pixels[:, 0, 0, 0] > 0).astype(int) + (pixels[:, 0, 1, 1] > 0)

    def network(key):
        keys = jax.random.split(key)
        layers = [eqx.nn.Conv2d(1, 3, 2, key=keys[0]), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Lambda(jnp.ravel)]
        return eqx.nn.Sequential([*layers, eqx.nn.Linear(27, 3, key=keys[1])])

    return pixels, labels, sf.from_network(network, pixels, labels, family=sf.models.Categorical(3))


@pytest.mark.slow
def test_classes_are_learnt(images):
    pixels, labels, target = images
    result = sf.fit(target, num_particles=10, num_steps=300, key=0, progress=False)
    assert target.evaluate(result.particles, pixels, labels)["accuracy"] > 0.8


def test_classes_and_rows_of_any_shape(images):
    pixels, labels, target = images
    particles = jax.jit(jax.vmap(target.sample_prior))(jax.random.split(jax.random.key(0), 10))
    assert 0 <= target.evaluate(particles, pixels, labels)["accuracy"] <= 1
    parts = sf.models.uncertainty(target, particles, pixels)
    np.testing.assert_allclose(parts.mean.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(parts.total, parts.epistemic + parts.aleatoric, atol=1e-5)
    assert np.all(parts.total <= np.log(3) + 1e-5)


def test_prior():
    network = equinox(jax.random.key(0))
    target = sf.from_network(network, X, Y, prior_scale=2.0)
    draws = jax.jit(jax.vmap(target.sample_prior))(jax.random.split(jax.random.key(0), 2000))["network"]
    np.testing.assert_allclose(draws.layers[1].weight.std(), 2 / np.sqrt(10), rtol=0.05)
    np.testing.assert_allclose(draws.layers[1].bias.std(), 2, rtol=0.05)
    flat = sf.from_network(network, X, Y, log_prior=lambda network: 0.0)
    params = flat.sample_prior(jax.random.key(0))
    scores = jax.jit(jax.grad(lambda p: flat.log_prior(p) - target.log_prior(p)))(params)["network"]
    np.testing.assert_allclose(scores.layers[1].bias, params["network"].layers[1].bias / 4, rtol=1e-4)


class Normalised(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(1, 10, rngs=rngs), nnx.BatchNorm(10, rngs=rngs)
        self.last = nnx.Linear(10, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.tanh(self.norm(self.first(x))))


def test_running_averages_stay_out_of_the_posterior():
    network = Normalised(nnx.Rngs(0))
    network(jnp.asarray(5 + 2 * X, jnp.float32))  # a pass in training, which moves the averages
    averages = np.asarray(network.norm.mean[...])
    target = sf.from_network(network, X, Y)
    drawn = target.sample_prior(jax.random.key(0))
    params = drawn["network"]
    assert sorted(leaf.shape for leaf in jax.tree.leaves(params)) == [(1,), (1, 10), (10,), (10,), (10,), (10, 1)]
    means = eqx.filter_jit(target.mean)(drawn, X)
    assert np.any(averages != 0)
    # By hand, with the averages of the module and the drawn parameters.
    h = (target.inputs(X) @ params["first"]["kernel"][...] + params["first"]["bias"][...] - averages) / np.sqrt(
        np.asarray(network.norm.var[...]) + 1e-5
    )
    h = np.tanh(h * params["norm"]["scale"][...] + params["norm"]["bias"][...])
    expected = target.raw(h @ params["last"]["kernel"][...] + params["last"]["bias"][...])
    np.testing.assert_allclose(means, np.ravel(expected), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "last"),
    [("equinox module", lambda params: params.layers[-1]), ("linen", lambda params: params["Dense_0"])],
    ids=["equinox", "linen"],
)
def test_only_the_last_layer_is_random(name, last):
    whole, part = (sf.from_network(NETWORKS[name], X, Y, random=random) for random in (None, last))
    params = part.sample_prior(jax.random.key(0))
    assert sorted(leaf.size for leaf in jax.tree.leaves(params["network"])) == [1, 10]
    filled = eqx.tree_at(last, whole.forward.module.params, params["network"])
    np.testing.assert_allclose(
        eqx.filter_jit(part.mean)(params, X), eqx.filter_jit(whole.mean)({**params, "network": filled}, X), rtol=1e-5
    )


def test_classes_without_a_family():
    target = sf.from_network(lambda key: eqx.nn.MLP(1, 10, 4, 1, key=key), X, np.arange(64) % 10)
    with pytest.raises(ValueError, match=r"Categorical\(10\)"):
        target.sample_prior(jax.random.key(0))


def test_errors():
    with pytest.raises(TypeError, match=r"steinflow\[flax\]"):
        sf.from_network(3, X, Y)
    with pytest.raises(ValueError, match="must be positive"):
        sf.from_network(equinox, X, Y, prior_scale=0)
    target = sf.from_network(equinox, X, (Y > 3).astype(int), family=sf.models.Categorical(2))
    with pytest.raises(ValueError, match="needs 2 output"):
        sf.fit(target, num_steps=1, progress=False)
