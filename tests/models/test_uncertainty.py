"""Noise and disagreement, by hand for particles with weights."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import steinflow as sf

X, NEW, WEIGHTS = np.arange(6.0)[:, None], np.array([[0.0], [2.0]]), np.array([0.2, 0.5, 0.3])
SLOPES = np.array([[1.0, 0.5], [-1.0, 0.0], [0.3, 1.0]])  # and intercepts
PARTICLES = {"w": jnp.asarray(SLOPES, float), "log_alpha": jnp.zeros(3)}
OUTPUTS = SLOPES[:, :1] * NEW[:, 0] + SLOPES[:, 1:]  # particles x rows


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_variances_of_numbers_add_up(weights):
    y = 100 + 7 * np.arange(6.0)
    model = sf.models.GeneralizedLinear(X, y, sf.models.Gaussian(), standardize=True)
    log_gamma = np.array([0.0, 1.0, 2.0])
    found = sf.models.uncertainty(model, PARTICLES | {"log_gamma": jnp.asarray(log_gamma, float)}, NEW, weights=weights)
    w = np.full(3, 1 / 3) if weights is None else weights
    outputs = SLOPES[:, :1] * ((NEW[:, 0] - X.mean()) / X.std()) + SLOPES[:, 1:]
    means, noise = y.mean() + y.std() * outputs, w @ np.exp(-log_gamma) * y.var()
    mean = w @ means
    np.testing.assert_allclose(found.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(found.epistemic, np.sqrt(w @ (means - mean) ** 2), rtol=1e-4)
    np.testing.assert_allclose(found.aleatoric, np.sqrt(noise), rtol=1e-5)
    np.testing.assert_allclose(found.total**2, found.epistemic**2 + found.aleatoric**2, rtol=1e-5)


def test_entropies_of_two_classes_add_up():
    model = sf.models.LogisticRegression(X, np.arange(6) % 2)
    found = sf.models.uncertainty(model, PARTICLES, NEW, weights=WEIGHTS)
    p = special.expit(OUTPUTS)
    noise = WEIGHTS @ stats.entropy([p, 1 - p])
    total = stats.entropy([WEIGHTS @ p, 1 - WEIGHTS @ p])
    np.testing.assert_allclose(found.mean, WEIGHTS @ p, rtol=1e-5)
    np.testing.assert_allclose(found.aleatoric, noise, rtol=1e-5)
    np.testing.assert_allclose(found.total, total, rtol=1e-5)
    np.testing.assert_allclose(found.epistemic, total - noise, rtol=1e-4)


def test_particles_that_agree_leave_only_noise():
    model = sf.models.LogisticRegression(X, np.arange(6) % 3, num_classes=3)
    w = jnp.asarray(np.tile([[1.0, 0.0, -80.0], [0.5, 0.2, -80.0]], (4, 1, 1)), float)
    found = sf.models.uncertainty(model, {"w": w, "log_alpha": jnp.zeros(4)}, NEW)
    assert found.mean.shape == (2, 3)
    np.testing.assert_allclose(found.epistemic, 0.0, atol=1e-6)
    p = special.softmax(np.stack([NEW[:, 0] + 0.5, 0 * NEW[:, 0] + 0.2], axis=1), axis=1)
    np.testing.assert_allclose(found.total, stats.entropy(p, axis=1), rtol=1e-5)  # impossible classes add nothing
