"""The mode, from several starts."""

import german
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import gaussian

import steinflow as sf

COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])
MEAN = np.array([1.0, -1.0])


def test_map_is_the_mode_and_has_no_spread():
    x0 = 3 * jax.random.normal(jax.random.key(0), (5, 2))
    result = sf.fit(gaussian(MEAN, COVARIANCE), sf.MAP(), particles=x0, num_steps=500, progress=False)
    assert len(result) == 1
    np.testing.assert_allclose(result.particles[0], MEAN, atol=1e-3)
    assert np.all(result.sd() == 0)


def test_map_takes_the_highest_of_several_modes():
    mixture = sf.models.GaussianMixture(weights=(0.1, 0.6, 0.3), means=(-6.0, 0.0, 6.0), sds=(1.0, 1.0, 1.0))
    x0 = jnp.array([[-7.0], [7.0], [1.0]])
    result = sf.fit(mixture, sf.MAP(), particles=x0, num_steps=400, progress=False)
    np.testing.assert_allclose(result.particles, [[0.0]], atol=1e-2)


@pytest.mark.slow
def test_map_on_minibatches_comes_to_rest():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = X[:, 0] > 0.3 * np.random.default_rng(1).normal(size=400)

    def mode(batch_size):
        model = sf.models.LogisticRegression(X, y, batch_size=batch_size)
        return sf.fit(model, sf.MAP(), num_particles=3, num_steps=1500, progress=False).particles["w"][0]

    np.testing.assert_allclose(mode(100), mode(None), atol=0.1)


def test_map_on_german_is_off_by_the_skewness():
    result = sf.fit(german.model(), sf.MAP(), num_particles=4, num_steps=500, key=1, progress=False)
    scores = jax.tree.leaves(result.scores)[0]
    assert np.max(np.abs(scores)) < 0.05
    error, ratio = german.errors(result)
    assert np.sqrt(np.mean(error[1:] ** 2)) < 0.2
    assert 0.3 < error[0] < 0.8  # the mode of log alpha is half an sd above its mean
    assert np.all(ratio == 0)
