import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scenarios

import steinflow as sf
from steinflow.methods.base import Time
from steinflow.methods.svgd.steps import Adaptive, DecayingAdam, adagrad, as_step_rule

MEAN, SD = np.array([1.0, -2.0], np.float32), np.array([0.5, 2.0], np.float32)
TARGET = scenarios.gaussian(MEAN, np.diag(SD**2))
NUM_STEPS = 600
OPTIMIZERS = {
    "adam": optax.adam(0.05),
    "rmsprop on a schedule": optax.rmsprop(optax.cosine_decay_schedule(0.05, NUM_STEPS)),
    "clipped, with momentum": optax.chain(optax.clip_by_global_norm(5.0), optax.sgd(0.05, momentum=0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimiser_of_optax_finds_mean_and_variance(name):
    method = sf.SVGD(optimizer=OPTIMIZERS[name])
    start = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    result = sf.fit(TARGET, method, particles=start, num_steps=NUM_STEPS, key=0, progress=False)
    np.testing.assert_array_less(np.abs(np.asarray(result.mean()) - MEAN) / SD, 0.1)
    np.testing.assert_allclose(result.sd(), SD, rtol=0.1)


def test_optimisers_that_need_parameters_see_the_points():
    """Weight decay pulls towards zero, which optax can do only if it is given the parameters."""
    rule, points = as_step_rule(optax.adamw(0.1, weight_decay=0.5)), jnp.ones((3, 2))
    moves, _ = rule.moves(jnp.zeros((3, 2)), points, rule.init(points), time=at(0))
    np.testing.assert_allclose(moves, -0.05, rtol=1e-5)


def test_what_is_no_step_rule_is_refused():
    with pytest.raises(TypeError, match=r"optax\.adam"):
        sf.SVGD(optimizer=0.1)


def at(step, num_steps=100):
    return Time(jnp.asarray(step), jnp.asarray(num_steps))


def test_adagrad_is_its_formula(dtype):
    """Plain AdaGrad of the paper's experiments: g / sqrt(sum of squares)."""
    gradients = np.random.default_rng(0).normal(size=(4, 3))
    optimizer = adagrad(0.5)
    assert adagrad(0.5) is optimizer  # so that a second fit does not compile again
    state = optimizer.init(jnp.zeros(3, dtype))
    total = np.zeros(3)
    for g in gradients:
        updates, state = optimizer.update(jnp.asarray(g, dtype), state)
        total += g**2
        np.testing.assert_allclose(updates, -0.5 * g / np.sqrt(total), rtol=1e-4)
        assert updates.dtype == dtype


def test_decaying_adam_is_adam_on_a_cosine(dtype):
    num_steps, start = 8, jnp.asarray([[1.0, -2.0, 3.0]], dtype)
    ours, theirs = DecayingAdam(0.4), optax.adam(optax.cosine_decay_schedule(0.1, num_steps))
    our_state, their_state = ours.init(start), theirs.init(start)
    for step, g in enumerate(np.random.default_rng(0).normal(size=(num_steps, 1, 3))):
        g = jnp.asarray(g, dtype)
        moves, our_state = ours.moves(-g, start, our_state, time=at(step, num_steps))
        with jax.numpy_dtype_promotion("standard"):
            expected, their_state = theirs.update(g, their_state)
        np.testing.assert_allclose(moves, expected, rtol=1e-4)
        assert moves.dtype == dtype


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("scale", [2.0**10, 2.0**60])
def test_neither_shift_nor_shape_moves_a_particle_further_than_it_may(noisy, scale):
    """By half a unit; with minibatches that is the root mean square of the shape's moves, and a unit the longest."""
    rule, points = Adaptive(), jnp.zeros((16, 3))
    noise = jnp.zeros_like(points) if noisy else None
    shift, widening = jnp.ones((16, 3)), jnp.ones((16, 3)).at[::2].set(-1.0)
    two = widening.at[2:].set(0.0)
    for direction, furthest in (shift, 0.5), (widening, 0.5), (two, 1.0 if noisy else 0.5):
        state = rule.init(points)
        for sign in (1, -1, 1):  # without a direction that it keeps
            moves, state = rule.moves(sign * scale * direction, points, state, time=at(0), noise=noise)
            np.testing.assert_allclose(np.linalg.norm(moves, axis=1).max(), furthest, rtol=1e-5)


@pytest.mark.parametrize("direction", [1e30 * jnp.ones((4, 3)), jnp.full((4, 3), jnp.nan), jnp.zeros((4, 3))])
def test_no_direction_makes_anything_nan(direction):
    rule, points = Adaptive(), jnp.zeros((4, 3))
    moves, state = rule.moves(direction, points, rule.init(points), time=at(0))
    assert np.all(np.linalg.norm(moves, axis=1) <= 0.5 + 1e-6)
    assert all(np.all(np.isfinite(part)) for part in state)


def test_a_cloud_that_keeps_its_direction_strides_out():
    rule, points = Adaptive(), jnp.zeros((4, 3))
    state, lengths = rule.init(points), []
    for _ in range(4):
        moves, state = rule.moves(1e3 * jnp.ones((4, 3)), points, state, time=at(0))
        lengths.append(np.linalg.norm(moves[0]))
    np.testing.assert_allclose(lengths, 0.5 * 1.5 ** np.arange(4), rtol=1e-5)


def test_step_sizes_grow_where_directions_agree_and_shrink_where_they_do_not():
    rule, points = Adaptive(), jnp.eye(4, 3)
    shape = points - jnp.mean(points, axis=0)
    _, state = rule.moves(shape, points, rule.init(points), time=at(0))
    np.testing.assert_allclose(state.shape_size, 0.1, rtol=1e-5)  # the first direction has nothing to agree with
    _, agreed = rule.moves(2 * shape, points, state, time=at(1))
    _, turned = rule.moves(-shape, points, state, time=at(1))
    np.testing.assert_allclose([agreed.shape_size, turned.shape_size], [0.1 * np.exp(0.15), 0.1 / np.e], rtol=1e-5)


def test_steps_adapt_where_directions_are_more_than_noise():
    rule, points = Adaptive(), jnp.eye(4, 3)
    small, large = 0.1 * points, points  # both parts of the direction are as long as the noise of the second
    for noise, grown in ((small, True), (large, False)):
        state = rule.init(points)
        for _ in range(3):
            _, state = rule.moves(points, points, state, time=at(0), noise=noise)
        sizes = np.array([state.shift_size, state.shape_size])
        assert np.all(sizes > 0.12) if grown else np.all(sizes == np.float32(0.1))
    state = state._replace(shift_size=jnp.asarray(0.8), shape_size=jnp.asarray(0.05))
    _, state = rule.moves(points, points, state, time=at(0), noise=large)
    np.testing.assert_allclose([state.shift_size, state.shape_size], [0.72, 0.05 / 0.9], rtol=1e-6)  # back to 0.1
    state = state._replace(shift_size=jnp.asarray(0.1), shape_size=jnp.asarray(0.1))
    _, state = rule.moves(points, points, state, time=at(1), noise=small)  # one batch without noise is chance
    np.testing.assert_allclose([state.shift_size, state.shape_size], 0.1, rtol=1e-6)


def test_a_wide_cloud_contracts_without_losing_its_shape():
    """Particles further out move further: the ratio of their distances stays."""
    rule, points = Adaptive(), jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)), jnp.float32)
    points = points - jnp.mean(points, axis=0)
    moves, _ = rule.moves(-1e3 * points, points, rule.init(points), time=at(0), noise=jnp.zeros_like(points))
    lengths = np.linalg.norm(moves, axis=1)
    assert np.sqrt(np.mean(lengths**2)) <= 0.5 + 1e-6
    ratios = lengths / np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-4)


def test_the_step_size_falls_to_zero_at_the_end():
    rule, points = Adaptive(), jnp.ones((4, 3))
    moves, _ = rule.moves(points, points, rule.init(points), time=at(100))
    np.testing.assert_allclose(moves, 0.0, atol=1e-6)


def test_in_long_runs_the_steps_of_the_shape_stay_small():
    rule, points = Adaptive(), jnp.eye(4, 2)
    step = jax.jit(lambda state: rule.moves(points, points, state, time=at(0, 3000))[1])
    state = rule.init(points)
    for _ in range(50):  # the same direction again and again: step sizes grow as far as they may
        state = step(state)
    np.testing.assert_allclose([state.shift_size, state.shape_size], [1.0, 300 / (1 - 2 / 4) / 3000], rtol=1e-6)
