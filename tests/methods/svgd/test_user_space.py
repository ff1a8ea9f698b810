"""What users see of particles that settle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import genpareto, norm

from steinflow.methods.svgd.frames import frame_of
from steinflow.methods.svgd.settling import settled, shaped
from steinflow.methods.svgd.user_space import Weighted, as_seen, tails_of
from tests.helpers.trajectories import flat, moments, recalled_of

RNG = np.random.default_rng(0)


def test_what_the_user_sees_has_the_mean_and_sd_of_the_states():
    """A scale, and effects that are products with it, as in eight schools: no coordinate alone says their sd."""

    def effects(x):
        tau = jnp.exp(0.7 * x[0])
        return {"tau": tau, "theta": x[1] + tau * x[2:], "constant": jnp.ones(2)}

    rng, target = np.random.default_rng(2), flat(8, effects)
    states = jnp.asarray(rng.standard_normal((40, 100, 8)), jnp.float32)
    frame = frame_of(jnp.zeros(8), jnp.ones(8))
    seen = np.asarray(target.user_numbers(states.reshape(-1, 8)))[:, 2:]  # beside the constants
    found, tail = settled(target, np.asarray(states[0]), recalled_of(states, frame))
    now = np.asarray(target.user_numbers(jnp.asarray(found, jnp.float32)))[:, 2:]
    np.testing.assert_allclose((now.mean(axis=0) - seen.mean(axis=0)) / seen.std(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(now.std(axis=0) / seen.std(axis=0), 1.0, atol=0.02)
    assert 0.4 < tail.length < 0.7  # of a product of a log-normal and a normal number
    rows = np.asarray(states).reshape(-1, 8)
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(found.std(axis=0), rows.std(axis=0), rtol=0.03)


def test_an_sd_that_nobody_knows_moves_nothing():
    """That of a Cauchy variable is infinite."""
    target = flat(1, lambda x: jnp.tan(jnp.pi * (0.5 * jax.scipy.special.erfc(-x / 2**0.5) - 0.5)))
    states = np.random.default_rng(3).standard_normal((4000, 1))
    points = states[:100]
    known = moments(points.mean(axis=0), points.std(axis=0))
    wanted = Weighted(states, np.full(4000, 1 / 4000), known)
    found, tail = as_seen(target, frame_of(np.zeros(1), np.ones(1)), points, wanted, np.dtype(np.float32))
    np.testing.assert_allclose(found, points, atol=1e-6)
    assert tail.length > 0.9  # which the verdict says


def test_a_long_tail_has_the_sd_of_the_states():
    """A log-normal variable with a kurtosis of 104, of which a hundred quantiles have 90% of the sd."""
    target = flat(1, jnp.exp)
    states = 1.2 * norm.ppf((np.arange(4000)[:, None] + 0.5) / 4000)
    points = shaped(states[::40], states)
    known = Weighted(states, np.full(4000, 1 / 4000), moments([0.0], [np.std(states)]))
    wanted = np.std(np.exp(states))
    assert np.std(np.exp(points)) < 0.92 * wanted
    found, _ = as_seen(target, frame_of(np.zeros(1), np.ones(1)), points, known, np.dtype(np.float32))
    np.testing.assert_allclose(np.std(np.exp(found)), wanted, rtol=0.01)


@pytest.mark.parametrize("k", [0.3, 0.6, 0.8])
def test_tails_are_as_long_as_those_of_pareto(k):
    """Squares that are Pareto's; beside them a column of normal numbers, and one of constants."""
    squares = genpareto.ppf((np.arange(40_000) + 0.5) / 40_000, k)
    seen = np.stack([np.sqrt(squares), RNG.standard_normal(40_000), np.ones(40_000)], axis=1).astype(np.float32)
    mean, sd = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]], np.float32)
    # Quantiles in place of draws have less of the last tail.
    np.testing.assert_allclose(tails_of(seen, mean, sd, np), [k, 0, 0], atol=0.06)
    np.testing.assert_allclose(tails_of(*map(jnp.asarray, (seen, mean, sd)), jnp), [k, 0, 0], atol=0.06)
