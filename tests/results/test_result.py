import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_results import result_at
from scenarios import normal_log_density

import steinflow as sf
from steinflow.results import result as module
from steinflow.results.outcome import Ending, Outcome
from steinflow.results.result import versions

RNG = np.random.default_rng(0)
POINTS = jnp.asarray(RNG.normal(size=(30, 2)), jnp.float32)


def no_density(params):
    return sum(jnp.sum(0.0 * leaf) for leaf in jax.tree.leaves(params))


def test_expectations_with_and_without_weights():
    x = np.array([0.0, 1.0, 2.0, 5.0], np.float32)
    equal = result_at({"x": jnp.asarray(x)}, no_density)
    np.testing.assert_allclose(equal.mean()["x"], 2.0)
    np.testing.assert_allclose(equal.sd()["x"], np.std(x), rtol=1e-6)
    np.testing.assert_allclose(equal.expectation(lambda p: p["x"] > 0.5), 0.75)
    assert equal.mean()["x"].dtype == equal.sd()["x"].dtype == np.float32
    weights = np.array([0.7, 0.1, 0.1, 0.1], np.float32)
    weighted = dataclasses.replace(equal, weights=jnp.asarray(weights))
    np.testing.assert_allclose(weighted.mean()["x"], 0.8, rtol=1e-6)
    np.testing.assert_allclose(weighted.sd()["x"], np.sqrt(weights @ (x - 0.8) ** 2), rtol=1e-5)
    outer = weighted.expectation(lambda p: {"square": p["x"] ** 2})
    np.testing.assert_allclose(outer["square"], weights @ x**2, rtol=1e-6)


def test_particles_that_are_not_finite_warn_nobody():
    result = dataclasses.replace(result_at(POINTS, normal_log_density), particles=POINTS.at[0].set(jnp.inf))
    assert not np.any(np.isfinite(result.sd()))
    assert "inf" in str(result.summary())


def test_ksd_and_dispersion_are_the_diagnostics():
    result = result_at(POINTS, normal_log_density)
    np.testing.assert_allclose(result.ksd, sf.ksd(normal_log_density, POINTS), rtol=1e-5)
    np.testing.assert_allclose(result.dispersion, sf.dispersion(normal_log_density, POINTS), rtol=1e-5)
    assert len(result) == 30


def test_ksd_is_computed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "ksd_of", lambda *args: calls.append(args) or 0.5)
    result = result_at(POINTS, normal_log_density)
    assert [result.ksd, result.ksd, len(calls)] == [0.5, 0.5, 1]
    weighted = dataclasses.replace(result, weights=jnp.full(30, 1 / 30))
    assert weighted.ksd == 0.5
    assert len(calls) == 2, "another result has a KSD of its own"


def test_results_are_compared_by_identity():
    result = result_at(POINTS, normal_log_density)
    assert result == result
    assert result != result_at(POINTS, normal_log_density), "comparing arrays used to raise"
    assert {result: "found"}[result] == "found"


def test_pickled_without_target_and_state():
    result = dataclasses.replace(result_at(POINTS, lambda x: -jnp.sum(x**2)), state=lambda: "not even picklable")
    read = pickle.loads(pickle.dumps(result))
    assert (read.target, read.state) == (None, None)
    np.testing.assert_array_equal(read.particles, result.particles)
    assert read.ending == result.ending
    assert result.thinned(3).state is None, "the state belongs to all particles"


def test_outcome_and_ending():
    ending = Ending(Outcome.STOPPED, "stopped by Converged after 620 steps.")
    result = result_at(POINTS, normal_log_density, ending=ending)
    assert result.outcome is Outcome.STOPPED
    assert "stopped: stopped by Converged after 620 steps." in str(result.summary())


def test_verdict_of_a_run_that_is_not_finite():
    ending = Ending(Outcome.NON_FINITE, "by step 3 no score is finite.")
    verdict = result_at(POINTS, normal_log_density, ending=ending).verdict
    assert (verdict.level, verdict.reasons) == ("bad", ["by step 3 no score is finite"])


def test_versions():
    found = versions("pytest", "a-package-that-nobody-has")
    assert found["steinflow"] == sf.__version__
    assert {"python", "jax", "numpy", "pytest"} <= set(found)
    assert "a-package-that-nobody-has" not in found


def test_runs_say_which_version_made_them(good_run):
    assert good_run.info["versions"]["steinflow"] == sf.__version__


@pytest.fixture(scope="module")
def explored():
    start = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    return sf.fit(sf.Density(normal_log_density), particles=start, num_steps=500, progress=False)


def test_more_draws_than_particles(explored):
    """Positions on the way, chain after chain, with their densities and scores."""
    draws = explored.draws()
    num_states = len(explored.states)
    assert len(draws) == 20 * num_states > 1000
    assert draws.num_chains == 20
    np.testing.assert_array_equal(draws.particles[:num_states], explored.states[:, 0])
    np.testing.assert_allclose(draws.scores, -draws.particles, rtol=1e-5)
    np.testing.assert_allclose(draws.mean(), 0.0, atol=0.15)
    np.testing.assert_allclose(draws.sd(), 1.0, rtol=0.1)
    assert len(explored.draws(90)) == 100  # whole chains
    sizes = draws.to_arviz()["posterior"].sizes
    assert (sizes["chain"], sizes["draw"]) == (20, num_states)


def test_no_more_draws_than_were_kept(explored):
    with pytest.raises(ValueError, match="between 1 and"):
        explored.draws(10**6)
    with pytest.raises(ValueError, match="no draws beside the particles"):
        pickle.loads(pickle.dumps(explored)).draws()


def test_draws_whose_rows_stay_on_the_host_have_no_log_densities(explored):
    rows = sf.data.Mapped(np.zeros(10, np.float32))
    mapped = sf.Posterior(normal_log_density, lambda x, row: row * x[0], rows, 5)
    with pytest.raises(ValueError, match=r"positions themselves are in result\.states"):
        dataclasses.replace(explored, target=mapped).draws()


def test_particles_that_were_chosen_are_judged_by_themselves(explored):
    """The way of all of them says nothing about a few."""
    assert "trajectory" in explored.info
    for chosen in (explored.thinned(10), explored.reweighted()):
        assert "trajectory" not in chosen.info
