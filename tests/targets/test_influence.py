"""Rows drawn by influence: chances that are those of the draws, weights that leave estimates unbiased."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets import influence
from steinflow.targets.data import Rows
from steinflow.targets.flat import flatten
from steinflow.targets.influence import Drawn, Influence, group_sums, num_groups

NUM_ROWS, BATCH, STEPS = 100, 8, 20_000
KEY = jax.random.key(0)
INFLUENCES = np.random.default_rng(0).exponential(size=NUM_ROWS) ** 3


@pytest.fixture(params=[2**20, 30], ids=["rows", "groups"])
def uneven(request, monkeypatch):
    """Influences of every row, and of groups of four."""
    monkeypatch.setattr(influence, "_MOST_GROUPS", request.param)
    return Influence.of(group_sums(INFLUENCES, 0, NUM_ROWS), NUM_ROWS)


def batches(chances):
    return jax.jit(jax.vmap(lambda step: chances.batch(KEY, step, BATCH)))(jnp.arange(STEPS))


def test_estimates_are_unbiased(uneven):
    rows, weights = map(np.asarray, batches(uneven))
    assert rows.min() == 0
    assert rows.max() == NUM_ROWS - 1
    assert weights.max() <= 2
    counted = np.bincount(rows.ravel(), weights.ravel(), minlength=NUM_ROWS) / STEPS * NUM_ROWS / BATCH
    np.testing.assert_allclose(counted, 1, atol=5 * (NUM_ROWS / BATCH / STEPS * 2) ** 0.5)


def test_rows_come_as_often_as_they_matter(uneven):
    rows, _ = map(np.asarray, batches(uneven))
    groups = num_groups(NUM_ROWS)
    expected = INFLUENCES / INFLUENCES.sum()
    if groups < NUM_ROWS:  # neighbours share
        expected = np.repeat(expected.reshape(-1, 4).mean(axis=1), 4)
    found = np.bincount(rows.ravel(), minlength=NUM_ROWS) / rows.size
    np.testing.assert_allclose(found, 0.5 / NUM_ROWS + 0.5 * expected, atol=0.002)


def test_both_halves_of_a_batch_are_alike(uneven):
    rows, _ = map(np.asarray, batches(uneven))
    likely = INFLUENCES[rows].mean(axis=0)  # drawn rows matter more than random ones
    assert likely[1::2].min() > 1.3 * likely[0::2].max()


def test_the_same_for_all_where_nothing_is_known():
    for chances in (Influence.even(NUM_ROWS), Influence.of(np.full(NUM_ROWS, np.nan), NUM_ROWS)):
        np.testing.assert_allclose(chances.batch(KEY, 3, BATCH)[1], 1, atol=1e-5)


def test_what_was_known_is_half_of_what_is_known():
    alone = np.zeros(NUM_ROWS)
    alone[7] = 1.0
    blended = Influence.even(NUM_ROWS).blended(alone)
    widths = np.diff(np.asarray(blended.edges, float), prepend=0) / 2**32
    np.testing.assert_allclose(widths, (alone + 1 / NUM_ROWS) / 2, atol=1e-8)


def test_weights_multiply_the_log_likelihoods_of_rows():
    x = np.random.default_rng(1).normal(size=NUM_ROWS).astype(np.float32)
    posterior = sf.Posterior(lambda w: 0.0 * w, lambda w, x: w * x, x, BATCH)
    rows, weights = Influence.even(NUM_ROWS).batch(KEY, 0, BATCH)
    weights = jnp.arange(BATCH, dtype=float)
    found = posterior.log_density(jnp.asarray(2.0), Drawn(jnp.asarray(x)[rows], weights))
    np.testing.assert_allclose(found, NUM_ROWS / BATCH * np.sum(2 * x[rows] * weights), rtol=1e-5)
    drawn = posterior.data.minibatch(KEY, 0, Influence.even(NUM_ROWS))
    np.testing.assert_array_equal(drawn.values, x[rows])


def test_influence_in_a_regression_is_the_square_along_the_deviations():
    rng = np.random.default_rng(2)
    data = {"x": rng.normal(size=(NUM_ROWS, 3)).astype(np.float32), "y": rng.normal(size=NUM_ROWS).astype(np.float32)}
    posterior = sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2), lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2, data, BATCH
    )
    flat, _ = flatten(posterior, jnp.ones((4, 3)))
    deviations = rng.normal(size=(5, 3)).astype(np.float32)
    found = flat.influences(jnp.ones(3), jnp.asarray(deviations), data)
    np.testing.assert_allclose(found, np.mean((data["x"] @ deviations.T) ** 2, axis=1), rtol=1e-3, atol=1e-4)


def test_who_draws_rows():
    x = np.ones(10, np.float32)

    def flat(data, batch_size=None):
        return flatten(sf.Posterior(lambda w: -(w**2), lambda w, x: w * x, data, batch_size), jnp.ones(4))[0]

    assert flat(x, 2).draws_rows
    assert flat(sf.data.Mapped(x), 2).draws_rows
    assert not flat(x).draws_rows
    assert not flat(sf.data.Stream([x[:5], x[5:]], 10)).draws_rows
    assert not Rows(x).draws_rows
