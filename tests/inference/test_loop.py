import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from runs import X0, run
from scenarios import normal_log_density

import steinflow as sf
from steinflow.methods.base import Draws

loop = sys.modules["steinflow.inference.loop"]


def row_log_likelihood(w, y):
    return -0.5 * (y - w[0]) ** 2


def posterior(data, **settings):
    return sf.Posterior(normal_log_density, row_log_likelihood, data, **settings)


def test_same_key_same_result():
    target = posterior(np.arange(12.0), batch_size=3)
    first, again, other = run(target), run(target), run(target, key=2)
    np.testing.assert_array_equal(first.particles, again.particles)
    assert not np.array_equal(first.particles, other.particles)


def test_result_does_not_depend_on_watching(short_run, monkeypatch, capsys):
    np.testing.assert_array_equal(short_run.history["step"], np.arange(1, 21))
    np.testing.assert_array_equal(short_run.history["x"][-1], short_run.particles)
    plain = run(record_every=3)
    np.testing.assert_array_equal(plain.particles, short_run.particles)
    np.testing.assert_array_equal(plain.history["step"], [3, 6, 9, 12, 15, 18, 20])
    np.testing.assert_array_equal(plain.particles, run(progress=True).particles)
    bar = capsys.readouterr().err
    assert "20/20" in bar
    assert "step/s" in bar
    assert "ksd=" in bar
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", -1.0)  # one step at a time
    np.testing.assert_array_equal(plain.particles, run().particles)


def test_longer_runs_go_through_the_same_states(short_run):
    """For a rule without a horizon, the first steps do not depend on how many follow."""
    np.testing.assert_array_equal(short_run.history["x"][9], run(num_steps=10).particles)


@pytest.fixture
def compilations():
    """Count what XLA compiles."""
    events = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


def test_a_second_call_does_not_compile_again(compilations):
    traces = []

    def log_density(x):
        traces.append(1)
        return normal_log_density(x)

    run(log_density)
    num_traces, num_compilations = len(traces), len(compilations)
    assert num_traces
    assert num_compilations
    run(log_density, key=5, particles=X0 + 1)
    # The user's function is looked at once before a run, without compiling anything.
    assert len(traces) - num_traces <= 1
    assert len(compilations) == num_compilations
    run(log_density, num_steps=33)  # which a method may use for the size of its state
    assert len(traces) - num_traces <= 2
    assert len(compilations) - num_compilations <= 1


def test_a_first_answer_compiles_few_programs(compilations):
    """From the log density to the printed summary: start, steps and views, and what settling takes."""
    result = sf.fit(
        sf.Density(lambda x: -jnp.sum(x**4), prior=lambda key: jax.random.normal(key, (3,))),
        num_particles=20,
        num_steps=500,
        progress=False,
    )
    assert "verdict" in str(result.summary())
    assert len(compilations) <= 5


def test_a_second_posterior_of_the_same_shape_does_not_compile_again():
    traces = []

    def log_likelihood(w, y):
        traces.append(1)
        return -0.5 * (y - w[0]) ** 2

    for count, data in enumerate([np.arange(8.0), np.ones(8)]):
        before = len(traces)
        run(sf.Posterior(normal_log_density, log_likelihood, data, batch_size=4))
        if count:
            assert len(traces) - before <= 1


def test_schedules_and_any_optax_optimiser():
    schedule = optax.linear_schedule(0.1, 0.0, transition_steps=10)
    result = run(method=sf.SVGD(optimizer=optax.sgd(schedule)), record={"x": lambda x: x}, record_every=1)
    moves = np.abs(np.diff(result.history["x"], axis=0)).max(axis=(1, 2))
    assert np.all(moves[:8] > 0)
    assert np.all(moves[10:] < 1e-6 * moves[0])  # a step size of zero, up to the rounding of the schedule


def third_record(history):
    return len(history["ksd"]) == 3


def test_a_rule_that_stops_the_run_is_named():
    result = run(stop=third_record, record_every=2, num_steps=100)
    assert result.info["num_steps"] == 6
    assert result.outcome is sf.Outcome.STOPPED
    assert str(result.ending) == "stopped: third_record ended the run after 6 steps."


def test_converged_stops_by_itself():
    rule = sf.Converged(dispersion_tolerance=0.5, mean_tolerance=0.2)
    result = run(num_steps=5000, record_every=20, stop=rule)
    assert result.outcome is sf.Outcome.STOPPED
    assert "Converged ended the run" in result.ending.message
    assert result.info["num_steps"] < 5000


def test_a_narrow_cloud_is_no_outcome():
    """How a run ended is one thing, where it ended another: that is for the verdict."""
    result = run(particles=1e-3 * X0, num_steps=2)
    assert str(result.ending) == "step limit: all 2 steps are done."


def test_interrupted_by_a_rule(tmp_path, short_run):
    def interrupt(history):
        if history["step"][-1] == 6:
            raise KeyboardInterrupt
        return False

    result = run(stop=interrupt, record_every=2)
    assert result.outcome is sf.Outcome.INTERRUPTED
    np.testing.assert_array_equal(result.particles, short_run.history["x"][5])
    assert sf.load(result.save(tmp_path / "run.nc")).ending == result.ending


def test_interrupted_before_the_first_record(monkeypatch, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_watch", interrupt)
    result = run(record_every=5)
    assert result.outcome is sf.Outcome.INTERRUPTED
    assert jnp.all(jnp.isfinite(result.particles))
    assert len(sf.load(result.save(tmp_path / "run.nc"))) == 20


class Chains(sf.Method):
    """Two chains of ten slots each, which keep the number of each step in their first coordinate."""

    def init(self, target, particles, *, num_steps, key):
        assert isinstance(num_steps, int)
        return jnp.full((2, 10, 2), jnp.inf), jnp.zeros((), jnp.int32)

    def step(self, target, state, batch, *, time, key):
        points, count = state
        point = jnp.stack([time.step.astype(jnp.float32), time.fraction])
        return points.at[:, count].set(point), count + 1

    def draws(self, target, state, *, key):
        points, count = state
        count = jnp.maximum(count, 1)
        points = jnp.where(jnp.isfinite(points), points, jnp.where(count > 1, 1e6, 0.0))
        return Draws(points.reshape(20, 2), num_chains=2, count=count, metrics={"kept": count})


def test_a_buffer_that_is_not_full_is_cut():
    result = run(method=Chains(), num_steps=4, record_every=1)
    steps = np.stack([np.arange(4), np.arange(4) / 4], axis=1)
    np.testing.assert_allclose(result.particles, np.concatenate([steps, steps]))
    assert result.num_chains == 2
    assert result.scores.shape == (8, 2)
    assert result.info["kept"] == 4
    weights = result.history["weights"]
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(weights[1].reshape(2, 10)[:, :2], 0.25)
    np.testing.assert_array_equal(weights[1].reshape(2, 10)[:, 2:], 0)
    # Of a standard normal the dispersion is the variance: of steps 0 .. 3, and of fractions 0 .. 3/4.
    expected = np.median([np.var(np.arange(4)), np.var(np.arange(4) / 4)])
    np.testing.assert_allclose(result.history["dispersion"][-1], expected, rtol=1e-5)


def test_the_final_state_and_the_versions_are_kept(short_run):
    np.testing.assert_array_equal(short_run.state.particles, short_run.unconstrained)
    assert short_run.info["versions"]["steinflow"] == sf.__version__
    assert short_run.info["versions"]["jax"] == jax.__version__


def test_batch_noise():
    assert "batch_noise" not in run(posterior(np.arange(12.0), batch_size=12)).info
    info = run(posterior(np.arange(12.0), batch_size=3)).info
    assert info["passes"] == 1
    assert info["batch_noise"] < 1e-5  # the rows differ by constants, which an anchor takes off whole


def test_a_batch_of_all_rows_is_a_run_without_batches():
    """Its steps adapt, and its mean and KSD (in draws) are judged, as if there were none."""
    whole, batched = (run(posterior(np.arange(12.0), batch_size=size)) for size in (None, 12))
    np.testing.assert_array_equal(batched.particles, whole.particles)
    assert batched.verdict.metrics == whole.verdict.metrics
    assert {"mean_error", "draws"} <= set(batched.verdict.metrics)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps must be at least 1"),
        ({"num_steps": -5}, "num_steps must be at least 1"),
        ({"record_every": 0}, "record_every must be at least 1"),
        ({"num_steps": 30.5}, "num_steps must be a whole number; got 30.5"),
        ({"num_steps": "30"}, "num_steps must be a whole number; got '30'"),
        ({"record_every": True}, "record_every must be a whole number"),
        ({"particles": None, "num_particles": 0}, "num_particles must be at least 1"),
        ({"num_particles": 20}, r"pass only one of them.* particles\[:n\]"),
    ],
)
def test_wrong_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)


def test_not_a_method():
    for method in [sf.SVGD, "svgd", optax.adam(0.1)]:
        with pytest.raises(TypeError, match=r"sf\.SVGD\(\)"):
            run(method=method)


def test_keys_are_accepted_in_all_forms(short_run):
    np.testing.assert_array_equal(run(key=jax.random.key(1)).particles, short_run.particles)


def funnel(x):
    """Known to the particles only after thousands of steps: its log scale has an sd of 1.5."""
    return -0.5 * (x[0] / 1.5) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (len(x) - 1) * x[0]


@pytest.fixture(scope="module")
def of_a_funnel():
    start = jax.random.normal(jax.random.key(0), (50, 3))
    return lambda **settings: sf.fit(funnel, particles=start, key=1, progress=False, **settings)


@pytest.mark.slow
def test_a_run_follows_its_own_advice_to_take_more_steps(of_a_funnel):
    """Unless somebody has said how many; then the scale, on which all depends, is right."""
    asked, result = of_a_funnel(num_steps=1000), of_a_funnel()
    assert "take more steps" in asked.verdict.remedies
    assert (asked.info["num_steps"], result.info["num_steps"]) == (1000, 5000)
    assert result.ending.outcome is sf.Outcome.STEP_LIMIT
    assert result.history["step"][-1] == 5000
    assert np.all(np.diff(result.history["step"]) > 0)
    np.testing.assert_allclose(result.sd()[0], 1.5, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [600, 1000, 1700])
def test_a_run_that_goes_on_is_resumed_bit_for_bit(of_a_funnel, tmp_path, killed_at):
    class KilledError(Exception):
        pass

    def kill(history):
        if history["step"][-1] == killed_at:
            raise KilledError

    checkpoint = sf.Checkpoint(tmp_path, every_steps=killed_at)
    with pytest.raises(KilledError):
        of_a_funnel(checkpoint=checkpoint, stop=kill)
    resumed, whole = of_a_funnel(checkpoint=checkpoint), of_a_funnel()
    np.testing.assert_array_equal(resumed.particles, whole.particles)
    again = of_a_funnel(checkpoint=checkpoint)
    np.testing.assert_array_equal(again.particles, whole.particles)
