"""Targets as methods see them: pytrees as rows of a matrix and back, what is refused, and what is compiled anew."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import gaussian

import steinflow as sf
from steinflow.targets.flat import flatten, from_prior


def test_pytrees_are_raveled_and_back():
    def log_density(params):
        return -0.5 * params["a"] ** 2 - jnp.sum(params["b"][0] ** 2) - params["c"]

    target = sf.Density(log_density, constraints={"a": None, "b": None, "c": sf.constraints.positive})
    particles = {"a": jnp.arange(4.0), "b": [jnp.ones((4, 2, 3))], "c": jnp.arange(1.0, 5.0)}
    flat, matrix = flatten(target, particles)
    assert matrix.shape == (4, 8)
    assert flat.source is target
    back = flat.to_user(matrix)
    assert jax.tree.structure(back) == jax.tree.structure(particles)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), back, particles)
    np.testing.assert_allclose(flat.from_user(particles), matrix)
    np.testing.assert_allclose(flat.log_density(matrix[2]), -2 - 6 - 3 + np.log(3), rtol=1e-6)  # with log-determinant
    scores = eqx.filter_jit(flat.scores)(matrix)
    np.testing.assert_allclose(scores, jax.jit(jax.vmap(jax.grad(flat.log_density)))(matrix))


def test_dtype_is_kept(dtype):
    flat, matrix = flatten(lambda x: -jnp.sum(x**2), jnp.ones((3, 2), dtype))
    log_densities, scores = flat.log_densities_and_scores(matrix)
    assert matrix.dtype == log_densities.dtype == scores.dtype == dtype


def test_integers_and_bools_become_floats():
    for start in [np.arange(6).reshape(3, 2), np.array([[True], [False]])]:
        assert flatten(lambda x: -jnp.sum(x**2), start)[1].dtype == jnp.float32


def posterior(**settings):
    return sf.Posterior(lambda w: -0.5 * w**2, lambda w, rows: -0.5 * (rows - w) ** 2, np.arange(10.0), **settings)


def test_what_methods_ask_about_the_data():
    flat, _ = flatten(gaussian(np.zeros(2), np.eye(2)), jnp.ones((3, 2)))
    assert (flat.num_rows, flat.noisy, flat.minibatch(jax.random.key(0), jnp.asarray(0))) == (1, False, None)
    flat, _ = flatten(posterior(), jnp.ones(3))
    assert (flat.num_rows, flat.noisy, flat.minibatch(jax.random.key(0), jnp.asarray(0))) == (10, False, None)
    flat, _ = flatten(posterior(batch_size=4), jnp.ones(3))
    assert (flat.num_rows, flat.noisy) == (10, True)
    assert flat.minibatch(jax.random.key(0), jnp.asarray(0)).rows.shape == (4,)


def test_targets_say_whether_they_keep_the_likelihood_apart():
    plain, _ = flatten(gaussian(np.zeros(2), np.eye(2)), jnp.ones((3, 2)))
    assert not plain.knows_likelihood
    with pytest.raises(ValueError, match="keeps prior and likelihood apart"):
        _ = plain.posterior
    assert flatten(posterior(), jnp.ones(3))[0].knows_likelihood


def test_a_batch_of_all_rows_is_not_noisy():
    flat, _ = flatten(posterior(batch_size=10), jnp.ones(3))
    assert not flat.noisy
    assert flat.minibatch(jax.random.key(0), jnp.asarray(0)) is None


def test_the_likelihood_without_the_prior():
    flat, x = flatten(posterior(constraints=sf.constraints.positive), jnp.array([0.5]))
    rows = jnp.array([1.0, 4.0])
    np.testing.assert_allclose(flat.log_likelihood(x[0], rows), -5 * 0.5 * (0.25 + 12.25), rtol=1e-6)
    np.testing.assert_allclose(flat.tempered(jnp.asarray(0.5)).log_likelihood(x[0], rows), -2.5 * 6.25, rtol=1e-6)
    flat, x = flatten(lambda x: -jnp.sum(x**2), jnp.ones((1, 2)))
    with pytest.raises(ValueError, match=r"keeps prior and likelihood apart: .* got Density"):
        flat.log_likelihood(x[0])


def constants(target, particles):
    """All of a flat target that compiled code depends on: everything but the values of its arrays."""
    flat, _ = flatten(target, particles)
    arrays, rest = eqx.partition(flat, eqx.is_array)
    return jax.tree.flatten(rest), jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), arrays)


def network(key):
    return eqx.nn.MLP(2, "scalar", 3, 1, key=key)


PART = eqx.nn.MLP(2, "scalar", 3, 1, key=jax.random.key(0))
MODELS = {
    "linear": lambda X, y: sf.models.LinearRegression(X, y),
    "other priors": lambda X, y: sf.models.GeneralizedLinear(
        X, np.round(np.exp(y)), sf.models.Poisson(), rate=float(y[0] ** 2), noise_rate=float(y[1] ** 2)
    ),
    "neural network": lambda X, y: sf.models.NeuralNetwork(X, y, hidden=(3,), rate=float(y[0] ** 2)),
    "network": lambda X, y: sf.from_network(network, X, y, prior_scale=float(y[0] ** 2)),
    "network with a prior": lambda X, y: sf.from_network(PART, X, y, prior_scale=float(y[0] ** 2)),
    "mixture": lambda X, y: sf.models.GaussianMixture(y[:2] ** 2, X[:2], y[2:4] ** 2, start=(y[0], y[1])),
    "posterior": lambda X, y: sf.Posterior(gaussian(y[:2], np.eye(2)).log_density, log_likelihood, (X, y), 4),
}


def log_likelihood(w, rows):
    return -0.5 * (rows[1] - rows[0] @ w) ** 2


@eqx.filter_jit
def two_draws(target):
    return jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 2))


@pytest.mark.parametrize("name", MODELS)
def test_other_numbers_of_the_same_shape_compile_nothing_anew(name):
    found = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        target = MODELS[name](rng.normal(size=(8, 2)).astype(np.float32), rng.normal(size=8).astype(np.float32))
        particles = jnp.ones((2, 2)) if name == "posterior" else two_draws(target)
        found.append(constants(target, particles))
    assert found[0] == found[1]


def test_prior_draws_outside_of_the_support_are_made_again():
    """Rounding leaves ordered numbers of which two are equal, and shares that are zero."""

    def draw(key):
        share = jax.random.uniform(key)
        return jnp.where(share < 0.3, 0.0, share)

    target = sf.Density(lambda x: jnp.log(x), constraints=sf.constraints.unit_interval, prior=draw)
    _, start = from_prior(target, 200, key=jax.random.key(0))
    np.testing.assert_array_less(0.3, jax.nn.sigmoid(start))
    never = sf.Density(lambda x: jnp.log(x), constraints=sf.constraints.unit_interval, prior=lambda key: jnp.zeros(()))
    with pytest.raises(ValueError, match="20 of 20 particles are not finite or lie outside their constraints"):
        from_prior(never, 20, key=jax.random.key(0))
