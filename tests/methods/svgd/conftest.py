"""States of a Gaussian, which the tests of memory and recollection share."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.trajectories import DIM, NUM, STEPS


@pytest.fixture(scope="module")
def gaussian():
    """States of a correlated Gaussian, its mean and covariance, and a spread near it."""
    rng = np.random.default_rng(0)
    root = np.tril(rng.standard_normal((DIM, DIM))) + 2 * np.eye(DIM)
    mean, covariance = np.array([1.0, -2.0, 3.0]), root @ root.T
    states = mean + rng.standard_normal((STEPS, NUM, DIM)) @ root.T
    scores = -(states - mean) @ np.linalg.inv(covariance)
    return jnp.asarray(states, jnp.float32), jnp.asarray(scores, jnp.float32), mean, covariance
