"""NPV: exact for one component on a Gaussian, an entropy bound that is a bound, and known too little spread."""

import equinox as eqx
import german
import jax
import jax.numpy as jnp
import numpy as np
import own_loop
import pytest
from scenarios import gaussian

import steinflow as sf
from steinflow.methods.npv import entropy_bound, trace_of_hessian
from steinflow.targets.flat import flatten

COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])
MEAN = np.array([1.0, -1.0])


@eqx.filter_jit
def climbed(method, flat, particles, taken):
    return own_loop.run(method, flat, particles, 20, jax.random.key(0), taken=taken)


def climb(target, particles, num_steps, method=sf.NPV()):
    """The state after so many steps, which are an array so that all numbers of them share compiled code."""
    return climbed(method, *flatten(target, particles), jnp.asarray(num_steps))


def test_one_component_on_a_gaussian_is_exact():
    state = climb(gaussian(MEAN, COVARIANCE), jnp.zeros((1, 2)), 2)
    np.testing.assert_allclose(state.means[0], MEAN, atol=1e-3)
    np.testing.assert_allclose(state.variances[0], 2 / np.trace(np.linalg.inv(COVARIANCE)), rtol=1e-3)
    entropy = 0.5 * 2 * (1 + np.log(2 * np.pi * state.variances[0]))
    bound = entropy_bound(state.means, state.variances)
    np.testing.assert_allclose(entropy - bound, 0.5 * 2 * (1 - np.log(2)), rtol=1e-4)


def test_entropy_bound_never_exceeds_the_entropy():
    @jax.jit
    def bound_and_entropy(key, spread):
        keys = jax.random.split(key, 4)
        means = jax.random.normal(keys[0], (6, 2)) * spread
        variances = jnp.exp(jax.random.normal(keys[1], (6,)))
        k = jax.random.randint(keys[2], (4000,), 0, 6)
        x = means[k] + jnp.sqrt(variances[k])[:, None] * jax.random.normal(keys[3], (4000, 2))
        squares = jnp.sum((x[:, None] - means) ** 2, axis=-1)
        logs = -0.5 * squares / variances - jnp.log(2 * jnp.pi * variances)
        return entropy_bound(means, variances), -jnp.mean(jax.nn.logsumexp(logs, axis=1) - jnp.log(6))

    for seed in range(5):
        bound, entropy = bound_and_entropy(jax.random.key(seed), seed + 0.5)
        assert bound <= entropy + 0.05


def test_means_repel_as_the_formula_says(x64):
    rng = np.random.default_rng(0)
    means, s = rng.normal(size=(5, 2)), np.exp(rng.normal(size=5))
    pairs = s[:, None] + s
    normal = np.exp(-0.5 * np.sum((means[:, None] - means) ** 2, axis=-1) / pairs) / (2 * np.pi * pairs)
    r = normal / np.sum(normal, axis=1, keepdims=True)
    expected = np.einsum("kj,kjd->kd", (r + r.T) / pairs, means[:, None] - means) / 5
    np.testing.assert_allclose(jax.jit(jax.grad(entropy_bound))(means, s), expected, rtol=1e-9)


@pytest.mark.slow
def test_correlated_gaussian_with_many_components():
    # In two dimensions a hundred round components fill the ellipse; a single one is too small in the wide direction.
    x0 = jax.random.normal(jax.random.key(0), (40, 2))
    state = climb(gaussian(MEAN, COVARIANCE), x0, 4)
    mixture = np.cov(state.means.T, bias=True) + np.mean(state.variances) * np.eye(2)
    np.testing.assert_allclose(jnp.mean(state.means, axis=0), MEAN, atol=0.05)
    np.testing.assert_allclose(mixture, COVARIANCE, atol=0.2)
    single = climb(gaussian(MEAN, COVARIANCE), x0[:1], 2)
    assert single.variances[0] < 0.5 * COVARIANCE[1, 1]


@pytest.mark.slow
def test_it_stops_by_itself_and_draws_from_every_component():
    x0 = jax.random.normal(jax.random.key(0), (5, 2))
    method = sf.NPV(draws_per_component=3)
    result = sf.fit(gaussian(MEAN, COVARIANCE), method, particles=x0, num_steps=30, key=0, progress=False)
    assert len(result) == 15
    state = climb(gaussian(MEAN, COVARIANCE), x0, 20)
    assert state.settled


def test_the_trace_of_the_hessian_by_autodiff_is_the_trace_of_the_hessian(x64):
    def function(x):
        return jnp.sum(jnp.sin(x) * x[::-1] ** 2) + jnp.prod(x)

    x = np.random.default_rng(0).normal(size=3)
    trace = jax.jit(lambda x: trace_of_hessian(function, x))(x)
    np.testing.assert_allclose(trace, np.trace(jax.jit(jax.hessian(function))(x)), rtol=1e-12)


def test_a_closed_form_laplacian_takes_the_place_of_autodiff():
    """The variance of one component is d over the trace: that of a Laplacian which is told, too."""
    method = sf.NPV(laplacian=lambda x: jnp.asarray(-8.0))
    state = climb(gaussian(MEAN, COVARIANCE), jnp.zeros((1, 2)), 2, method=method)
    np.testing.assert_allclose(state.variances[0], 2 / 8, rtol=1e-3)


def test_minibatches_are_refused():
    model = sf.models.LogisticRegression(np.ones((20, 1)), np.arange(20) % 2, batch_size=5)
    with pytest.raises(ValueError, match="NPV needs all of the data"):
        sf.fit(model, sf.NPV(), num_particles=3, num_steps=1, progress=False)


@pytest.mark.slow
def test_german():
    # Round components on a posterior whose widest direction is four times its narrowest: too little spread.
    method = sf.NPV(draws_per_component=100)
    result = sf.fit(german.model(), method, num_particles=20, num_steps=4, key=1, progress=False)
    error, ratio = german.errors(result)
    assert np.sqrt(np.mean(error**2)) < 0.25
    assert np.all(ratio[1:] < 1.05)
    assert 0.7 < np.mean(ratio[1:]) < 0.97
