import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.batches import batch_indices


@functools.partial(jax.jit, static_argnames=("num_rows", "batch_size", "num_steps"))
def rows(key, *, num_rows, batch_size, num_steps):
    steps = jnp.arange(num_steps)
    return jax.vmap(lambda step: batch_indices(key, step, num_rows=num_rows, batch_size=batch_size))(steps)


@pytest.mark.parametrize(("num_rows", "batch_size"), [(1, 1), (2, 1), (5, 5), (12, 4), (100, 10), (1000, 8)])
def test_every_epoch_covers_every_row_once(num_rows, batch_size):
    per_epoch = num_rows // batch_size
    batches = rows(jax.random.key(0), num_rows=num_rows, batch_size=batch_size, num_steps=3 * per_epoch)
    for epoch in batches.reshape(3, -1):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(num_rows))


def test_rows_left_over_differ():
    batches = np.asarray(rows(jax.random.key(0), num_rows=10, batch_size=4, num_steps=100)).reshape(50, 8)
    assert all(len(set(epoch)) == 8 for epoch in batches)
    assert set(batches.ravel()) == set(range(10))
    counts = np.bincount(batches.ravel(), minlength=10)
    assert counts.min() > 25  # 40 expected


def test_epochs_and_keys_differ():
    first = rows(jax.random.key(0), num_rows=64, batch_size=64, num_steps=2)
    other = rows(jax.random.key(1), num_rows=64, batch_size=64, num_steps=2)
    again = rows(jax.random.key(0), num_rows=64, batch_size=64, num_steps=2)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(first, again)


def test_all_orders_of_three_rows_occur():
    orders = np.asarray(rows(jax.random.key(3), num_rows=3, batch_size=3, num_steps=600))
    counts = dict.fromkeys(itertools.permutations(range(3)), 0)
    for order in orders:
        counts[tuple(order.tolist())] += 1
    assert min(counts.values()) > 50  # 100 expected


def test_places_are_uniform():
    """Every row is as likely in every batch; 5 sds of a binomial count."""
    batches = np.asarray(rows(jax.random.key(5), num_rows=20, batch_size=4, num_steps=5 * 400)).reshape(400, 5, 4)
    counts = np.stack([np.bincount(batches[:, place].ravel(), minlength=20) for place in range(5)])
    assert np.abs(counts - 80).max() < 5 * np.sqrt(400 * 0.2 * 0.8)


def test_double_precision_sees_the_same_rows():
    single = np.asarray(rows(jax.random.key(0), num_rows=50, batch_size=7, num_steps=9))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(rows(jax.random.key(0), num_rows=50, batch_size=7, num_steps=9), single)


def regression(batch_size=None):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(60, 2)), "y": rng.normal(size=60)}
    return sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, batch: -0.5 * (batch["y"] - batch["x"] @ w) ** 2,
        data,
        batch_size=batch_size,
    )


def test_minibatch_scores_average_to_the_full_one():
    w, key = jnp.array([0.3, -1.2]), jax.random.key(0)
    full = jax.grad(regression().log_density)(w)
    target = regression(12)
    score = jax.jit(lambda step: jax.grad(target.log_density)(w, target.data.minibatch(key, step)))
    scores = np.stack([score(step) for step in range(5)])
    np.testing.assert_allclose(scores.mean(0), full, rtol=1e-4)
    assert np.abs(scores[0] - full).max() > 1e-2


def test_rows_stay_together():
    target = regression(7)
    batch = target.data.minibatch(jax.random.key(1), jnp.asarray(3))
    place = [int(np.flatnonzero(np.asarray(target.data.values["y"]) == y)[0]) for y in batch["y"]]
    np.testing.assert_array_equal(target.data.values["x"][jnp.array(place)], batch["x"])
