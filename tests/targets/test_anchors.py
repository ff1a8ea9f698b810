"""Scores corrected at an anchor: unbiased, far less noisy near it, plain where it does not help."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.anchors import Anchor, Minibatch, halves
from steinflow.targets.flat import flatten

NUM_ROWS, BATCH, DIM = 400, 20, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
Y = (RNG.random(NUM_ROWS) < 0.5).astype(np.float32)
KEY = jax.random.key(0)


def log_likelihood(w, rows):
    z = rows["x"] @ w
    return rows["y"] * z - jax.nn.softplus(z)


def near(distance):
    """Particles around the anchor, which is at zero."""
    return jnp.asarray(distance * RNG.normal(size=(6, DIM)), jnp.float32)


POSTERIOR = sf.Posterior(lambda w: -0.5 * jnp.sum(w**2), log_likelihood, {"x": X, "y": Y}, BATCH)
FLAT, _ = flatten(POSTERIOR, jnp.ones((6, DIM)))
ORIGIN = jnp.zeros(DIM)
ANCHOR = Anchor(ORIGIN, FLAT.scores(ORIGIN[None])[0], jnp.ones(()))


@eqx.filter_jit
def epoch(flat, particles, anchor):
    """Return the estimates from every batch of an epoch."""
    steps = jnp.arange(NUM_ROWS // BATCH)
    return jax.lax.map(lambda step: flat.estimate(particles, flat.minibatch(KEY, step, anchor)), steps)


def test_the_formula():
    x, batch = near(0.1), FLAT.minibatch(KEY, jnp.asarray(0), ANCHOR)
    found, scores = eqx.filter_jit(FLAT.estimate)(x, batch), eqx.filter_jit(FLAT.scores)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], halves(batch.rows)) for i in range(2))
    halved = [(scores(x, rows), scores(ORIGIN[None], rows)[0]) for rows in (first, second)]
    noise, noise_there = (0.5 * (a - b) for a, b in zip(*halved, strict=True))
    share = np.clip(1.5 * noise @ noise_there / (noise_there @ noise_there), 0, 1)[:, None]
    error = ANCHOR.score - scores(ORIGIN[None], batch.rows)[0]
    np.testing.assert_allclose(found.scores, scores(x, batch.rows) + share * error, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.noise, noise - share * noise_there, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.plain, noise, rtol=1e-4, atol=1e-3)


def test_near_the_anchor_an_epoch_has_the_score_of_all_rows_and_little_noise():
    x = near(0.1)
    exact = np.asarray(FLAT.scores(x))
    anchored, plain = epoch(FLAT, x, ANCHOR), epoch(FLAT, x, None)
    errors = [np.sqrt(np.mean((np.asarray(found.scores) - exact) ** 2)) for found in (anchored, plain)]
    np.testing.assert_allclose(np.mean(plain.scores, axis=0), exact, rtol=1e-3, atol=1e-3)
    # A batch whose own noise is small by chance may correct a little too much: c follows it.
    np.testing.assert_allclose(np.mean(anchored.scores, axis=0), exact, rtol=1e-3, atol=0.01 * errors[1])
    assert errors[0] < 0.15 * errors[1]
    for found, error in zip((anchored, plain), errors, strict=True):  # of 20 batches: to a fifth
        assert np.sqrt(np.mean(np.asarray(found.noise) ** 2)) == pytest.approx(error, rel=0.3)


def test_log_densities_follow_the_scores():
    x = near(0.1)
    found, exact = epoch(FLAT, x, ANCHOR), np.asarray(FLAT.log_densities(x))
    values = jax.jit(lambda step: FLAT.log_densities(x, FLAT.minibatch(KEY, step, ANCHOR)))
    differences = exact - exact.mean()
    for log_densities in (*found.log_densities[:3], values(jnp.asarray(0)), values(jnp.asarray(1))):
        log_densities = np.asarray(log_densities)
        np.testing.assert_allclose(log_densities - log_densities.mean(), differences, atol=0.5)
    plain = np.asarray(epoch(FLAT, x, None).log_densities)
    assert np.max(np.abs(plain - plain.mean(axis=1, keepdims=True) - differences)) > 2


def test_what_does_not_know_changes_nothing():
    x = near(0.1)
    plain = epoch(FLAT, x, None)
    for anchor in (Anchor.unknown_at(ORIGIN), dataclasses.replace(ANCHOR, point=jnp.full(DIM, jnp.nan))):
        found = epoch(FLAT, x, anchor)
        np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(found.noise, plain.noise, rtol=1e-5, atol=1e-4)


def test_where_rows_disagree_there_is_no_correction():
    """The terms of a row at x and at the anchor have nothing in common: rows act through two columns, one at each."""
    columns = RNG.normal(size=(NUM_ROWS, 2)).astype(np.float32)

    def unrelated(w, rows):
        return jnp.where(w[0] > 1, rows[:, 0], rows[:, 1]) * w[0]

    target = sf.Posterior(lambda w: -0.5 * jnp.sum(w**2), unrelated, columns, BATCH)
    flat, _ = flatten(target, jnp.ones((2, 1)))
    anchor = Anchor(jnp.zeros(1), flat.scores(jnp.zeros((1, 1)))[0], jnp.ones(()))
    x = jnp.array([[0.1], [5.0]])
    found, plain = epoch(flat, x, anchor), epoch(flat, x, None)
    left, before = (np.std(np.asarray(part.scores)[..., 0], axis=0) for part in (found, plain))
    assert left[0] < 1e-3 * before[0], "the first shares its terms with the anchor"
    assert left[1] < 1.5 * before[1], "and the second none, so that half of its corrections are zero"


def test_tempered_targets_are_corrected_by_tempered_anchors():
    x, cool = near(0.1), FLAT.tempered(jnp.asarray(0.1))
    found, whole = epoch(cool, x, ANCHOR), epoch(FLAT, x, ANCHOR)
    np.testing.assert_allclose(found.scores, 0.1 * whole.scores, rtol=1e-3, atol=1e-3)


def test_likelihood_scores_leave_the_prior_out():
    x, batch = near(0.1), FLAT.minibatch(KEY, jnp.asarray(2), ANCHOR)
    np.testing.assert_allclose(FLAT.likelihood_scores(x, batch), FLAT.scores(x, batch) + x, rtol=1e-4, atol=1e-3)


def test_odd_batches_and_single_rows():
    rows = {"x": X[:5], "y": Y[:5]}
    assert jax.tree.map(np.shape, halves(rows)) == {"x": (2, 2, DIM), "y": (2, 2)}
    x, single = near(0.1), Minibatch({"x": jnp.asarray(X[:1]), "y": jnp.asarray(Y[:1])}, ANCHOR)
    found = FLAT.estimate(x, single)
    np.testing.assert_array_equal(found.noise, found.scores)
    np.testing.assert_allclose(found.scores, FLAT.scores(x, single.rows), rtol=1e-6)
