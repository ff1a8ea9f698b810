import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd.scouts import NUM_STEPS, Scouts

METRIC = sf.svgd.Cloud()
KEYS = [0, *(pytest.param(key, marks=pytest.mark.slow) for key in (1, 2))]


def sent(log_density, start):
    """Scouts who have made their way."""
    both = jax.jit(jax.vmap(jax.value_and_grad(log_density)))
    scouts = Scouts.at(start)
    for _ in range(NUM_STEPS):
        values, scores = both(scouts.ahead)
        scouts = scouts.climbed(jnp.where(jnp.isneginf(values)[:, None], jnp.nan, scores), values)
    return scouts


def two_modes(x, *, narrow=0.2, log_weight=0.0):
    """A normal of sd 1 at -2, another one at 2."""
    there = log_weight - x.size * jnp.log(narrow) - 0.5 * jnp.sum(((x - 2) / narrow) ** 2)
    return jnp.logaddexp(-0.5 * jnp.sum((x + 2) ** 2), there)


def start_around(center, sd, num=40, dim=2):
    return center + sd * jax.random.normal(jax.random.key(3), (num, dim))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_scouts_find_the_nearest_peak_at_any_scale(scale):
    scouts = sent(lambda x: two_modes(x / scale), scale * start_around(0.0, 3.0))
    peaks = np.asarray(scouts.footing.particles) / scale
    sds = np.minimum(np.linalg.norm(peaks - 2, axis=1) / 0.2, np.linalg.norm(peaks + 2, axis=1))
    assert np.all(sds < 0.5)
    assert np.ptp(peaks[:, 0]) > 3  # each its own


def test_what_the_cloud_missed_is_what_lies_outside_and_has_mass():
    cloud = start_around(-2.0, 1.0)
    frame, there = METRIC.frame(cloud), jnp.arange(40) < 10
    start = jnp.where(there[:, None], 2 + 0.3 * start_around(0.0, 1.0), start_around(-2.0, 1.0))
    log_densities = jax.vmap(two_modes)(cloud)
    for log_weight, expected in ((0.0, there), (-3.0, there), (-8.0, ~there & there)):
        scouts = sent(lambda x, weight=log_weight: two_modes(x, log_weight=weight), start)
        np.testing.assert_array_equal(scouts.missed(cloud, log_densities, frame), expected)
    wider = start_around(0.0, 3.0)  # has been everywhere
    assert not np.any(sent(two_modes, start).missed(wider, log_densities, METRIC.frame(wider)))


@pytest.mark.parametrize(("num_missed", "gone"), [(0, 0), (1, 9), (8, 15)])
def test_who_found_a_mode_goes_there_and_so_does_one_of_five(num_missed, gone):
    scouts, cloud = Scouts.at(start_around(100.0, 0.0)), start_around(0.0, 1.0)
    missed = (jnp.arange(40) >= 1) & (jnp.arange(40) <= num_missed)
    found = np.asarray(scouts.followed(cloud, missed))
    there = found[:, 0] == 100
    assert there.sum() == gone
    assert np.all(there[np.asarray(missed)])
    np.testing.assert_array_equal(found[~there], np.asarray(cloud)[~there])


def funnel(x):
    return -(x[0] ** 2) / 18 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (x.size - 1) * x[0]


def tail(x):
    return -0.5 * (1 + x.size) * jnp.log1p(jnp.sum(x**2))


def edge(x):
    return jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf)


@pytest.mark.parametrize(("log_density", "start"), [(funnel, 3.0), (tail, 300.0), (edge, 1.0)])
def test_a_neck_a_tail_and_an_edge_are_no_modes(log_density, start):
    """Where the density rises without end, where it is flat, and where it ends."""
    scouts = sent(log_density, jnp.abs(start_around(0.0, start, dim=5)))
    cloud = start_around(0.0, 1.0, dim=5)
    if log_density is funnel:
        cloud = jnp.concatenate([3 * cloud[:, :1], jnp.exp(1.5 * cloud[:, :1]) * cloud[:, 1:]], axis=1)
    elif log_density is edge:
        cloud = jnp.abs(cloud)
    assert not np.any(scouts.missed(cloud, jax.vmap(log_density)(cloud), METRIC.frame(cloud)))
    assert np.all(np.isfinite(scouts.footing.log_densities))


def test_a_target_that_knows_only_its_scores_has_no_scouts():
    scouts = sent(two_modes, start_around(0.0, 3.0))
    cloud = start_around(-2.0, 1.0)
    assert not np.any(scouts.missed(cloud, jnp.full(40, jnp.nan), METRIC.frame(cloud)))


@pytest.mark.parametrize("key", KEYS)
def test_a_narrow_mode_is_not_carried_along(key):
    """Half of the mass, where a few of a hundred particles start."""
    start = 3 * jax.random.normal(jax.random.key(100 + key), (100, 2))
    # The number of steps is left open: runs that go on send scouts again.
    result = sf.fit(two_modes, particles=start, key=key, progress=False)
    sd = np.sqrt(4 + 0.5 * (1 + 0.2**2))
    np.testing.assert_allclose(result.particles.mean(axis=0), 0.0, atol=0.1 * sd)
    np.testing.assert_allclose(result.particles.std(axis=0), sd, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_the_many_do_not_take_the_few_to_a_mode_without_mass(key):
    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -12 - 2 * jnp.log(3.0) - 0.5 * jnp.sum(((x - 30) / 3) ** 2))

    start = jax.random.normal(jax.random.key(key), (100, 2))
    start = jnp.where(jnp.arange(100)[:, None] < 30, start, 30 + 3 * start)
    result = sf.fit(log_density, particles=start, key=key, progress=False)
    assert result.verdict.level == "good"
    np.testing.assert_allclose(result.particles.mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(result.particles.std(axis=0), 1.0, rtol=0.05)
