"""Ensembles: what members explore has the right spread, each has its own step, and the networks kept are counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd import ensemble

SDS = np.geomspace(0.1, 1.0, 6)


class Hills(sf.Target):
    """Two Gaussians far apart along the first axis, the right one ten times as wide."""

    def log_density(self, params, batch=None):
        left = -0.5 * jnp.sum(((params - _at(-50.0)) / (0.1 * SDS)) ** 2) - len(SDS) * jnp.log(0.1)
        return jnp.logaddexp(left, -0.5 * jnp.sum(((params - _at(50.0)) / SDS) ** 2))

    @property
    def identified(self):
        return False


def _at(first):
    return jnp.zeros(len(SDS)).at[0].set(first)


@pytest.fixture(scope="module")
def explored():
    """Ten members, five on each hill, with a tenth of the error that is good enough for networks."""
    careful = sf.Ensemble(exploration=sf.svgd.Microcanonical(2e-3, way=1.0, own_steps=True, first_step=1e-4))
    start = jax.random.normal(jax.random.key(0), (10, len(SDS))) * 0.1
    start = start.at[:5, 0].add(-50.0).at[5:, 0].add(50.0)
    return sf.fit(Hills(), careful, particles=start, num_steps=8000, key=0, progress=False)


def test_every_member_explores_its_own_mode(explored):
    assert explored.num_chains == 10
    by_member = np.asarray(explored.particles).reshape(10, -1, len(SDS))
    assert by_member.shape[1] == 100
    for members, center, scale in ((by_member[:5], -50.0, 0.1), (by_member[5:], 50.0, 1.0)):
        states = members.reshape(-1, len(SDS)) - np.asarray(_at(center))
        np.testing.assert_allclose(states.mean(axis=0) / (scale * SDS), 0.0, atol=0.2)
        np.testing.assert_allclose(states.std(axis=0) / (scale * SDS), 1.0, rtol=0.2)


def test_steps_are_those_of_the_mode(explored):
    """In the coordinates of the walk, whose scales follow the gradients of each member."""
    state = explored.state
    lengths = np.asarray(state.walk.state.sizes)[:, 0] * np.mean(state.scales, axis=1)
    assert 5 < np.mean(lengths[5:]) / np.mean(lengths[:5]) < 20


def test_as_many_are_kept_as_fit_into_memory(monkeypatch):
    monkeypatch.setattr(ensemble, "_MOST_NUMBERS", 10 * len(SDS) * 7)
    target, start = sf.flatten(Hills(), jnp.ones((10, len(SDS))))
    assert sf.Ensemble().init(target, start, num_steps=1000, key=jax.random.key(0)).kept.shape[0] == 7
    assert sf.Ensemble().init(target, start, num_steps=10, key=jax.random.key(0)).kept.shape[0] == 4


def test_stopped_before_anything_was_kept(explored):
    start = jnp.asarray(np.asarray(explored.particles).reshape(10, -1, len(SDS))[:, 0])
    early = sf.fit(Hills(), sf.Ensemble(), particles=start, num_steps=8000, progress=False, stop=lambda history: True)
    assert early.particles.shape == start.shape
    assert np.all(np.isfinite(early.particles))


def test_who_starts_where_nothing_is_finite_stays():
    def log_density(x):
        return jnp.sqrt(1e3 - jnp.sum(x)) - 0.5 * jnp.sum(x**2)  # not a number beyond

    start = jnp.zeros((4, 4)).at[0].set(1e4).at[1:].add(0.1)
    result = sf.fit(log_density, sf.Ensemble(), particles=start, num_steps=40, progress=False)
    states = np.asarray(result.particles).reshape(4, -1, 4)
    np.testing.assert_array_equal(states[0], 1e4)
    assert np.all(np.abs(states[1:]) < 100)


def test_reach_is_positive():
    with pytest.raises(ValueError, match="reach"):
        sf.Ensemble(reach=0.0)


def test_what_is_judged_when():
    """Where members have arrived, then the second half of the trial."""
    when = ensemble._Phases.of(jnp.asarray(100))
    judging = np.flatnonzero(jax.jit(jax.vmap(when.judging))(jnp.arange(100))).tolist()
    assert judging == [15, *range(28, 41)]


@pytest.fixture(scope="module", params=["numbers", "noise", "curve"])
def table(request):
    """A line with noise, noise alone, and a curve with less noise on one side; and rows that no network has seen."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 3))
    sd = np.where(X[:, 0] > 0, 0.5, 0.1) if request.param == "curve" else np.ones(len(X))
    mean = {"numbers": X @ [1.0, 0.5, 0.0], "noise": np.zeros(len(X)), "curve": np.sin(2 * X[:, 1])}[request.param]
    return X, mean + sd * rng.normal(size=len(X)), sd


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_noisy_tables_with_more_weights_than_rows(table, seed):
    """Beside the density that the rows come from: a network of 1,282 weights on 200 rows is close to it."""
    X, y, sd = table
    network = sf.SteinRegressor(hidden=(32, 32), random_state=seed).fit(X[:200], y[:200])
    best = np.mean(-0.5 * np.log(2 * np.pi * sd[200:] ** 2) - 0.5)
    assert np.mean(network.log_predictive(X[200:], y[200:])) > best - 0.4
    _, found = network.predict(X[200:], return_std=True)
    assert 0.8 < np.median(found / sd[200:]) < 1.6
    assert network.result_.verdict.level == "good"
