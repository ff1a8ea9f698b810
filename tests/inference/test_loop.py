import os
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scenarios import normal_log_density

import steinflow as sf

fit_module = sys.modules["steinflow.inference.loop"]
X0 = 2 + np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
PAPER = sf.SVGD.paper(0.3)


def run(target=normal_log_density, method=PAPER, **changes):
    return sf.fit(target, method, **{"particles": X0, "num_steps": 20, "key": 1, "progress": False, **changes})


def test_same_key_same_result():
    target = sf.Posterior(normal_log_density, lambda w, y: -0.5 * (y - w[0]) ** 2, np.arange(12.0), batch_size=3)
    first, again, other = run(target), run(target), run(target, key=2)
    np.testing.assert_array_equal(first.particles, again.particles)
    assert not np.array_equal(first.particles, other.particles)


def test_result_does_not_depend_on_watching(monkeypatch, capsys):
    plain = run()
    recorded = run(record={"x": lambda x: x}, record_every=3)
    np.testing.assert_array_equal(plain.particles, recorded.particles)
    np.testing.assert_array_equal(recorded.history["step"], [3, 6, 9, 12, 15, 18, 20])
    np.testing.assert_array_equal(recorded.history["x"][-1], plain.particles)
    watched = run(progress=True)
    np.testing.assert_array_equal(plain.particles, watched.particles)
    bar = capsys.readouterr().err
    assert "20/20" in bar
    assert "step/s" in bar
    assert "ksd=" in bar
    monkeypatch.setattr(fit_module, "_CHUNK_SECONDS", -1.0)  # one step at a time
    np.testing.assert_array_equal(plain.particles, run().particles)


def test_longer_runs_go_through_the_same_states():
    """For a rule without a horizon, the first steps do not depend on how many follow."""
    ten = run(num_steps=10)
    record = run(num_steps=20, record={"x": lambda x: x}, record_every=10)
    np.testing.assert_array_equal(record.history["x"][0], ten.particles)


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
    run(log_density, key=5, num_steps=33, particles=X0 + 1)
    # The user's function is looked at once before a run, without compiling anything.
    assert len(traces) - num_traces <= 1
    assert len(compilations) == num_compilations


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


def test_stopping_rule_ends_the_run():
    result = run(stop=lambda history: len(history["ksd"]) == 3, record_every=2, num_steps=100)
    assert result.info["num_steps"] == 6
    assert result.outcome.status == "converged"


def test_converged_stops_by_itself():
    x0 = np.random.default_rng(0).normal(size=(100, 1)).astype(np.float32)
    result = run(particles=x0, num_steps=5000, record_every=20, stop=sf.Converged(dispersion_tolerance=0.2))
    assert result.outcome.status == "converged"
    assert result.info["num_steps"] < 5000


def test_interrupt_returns_what_there_is(tmp_path):
    def interrupt(history):
        if history["step"][-1] == 6:
            raise KeyboardInterrupt
        return False

    result = run(stop=interrupt, record_every=2)
    assert result.outcome.status == "interrupted"
    assert "step 6" in result.outcome.message
    np.testing.assert_array_equal(result.particles, run(num_steps=6).particles)
    np.testing.assert_array_equal(result.history["step"], [2, 4, 6])
    assert sf.load(result.save(tmp_path / "run.nc")).outcome == result.outcome


def test_interrupt_before_the_first_record(monkeypatch, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_module, "_watch", interrupt)
    result = run(record_every=5)
    assert result.outcome.status == "interrupted"
    assert jnp.all(jnp.isfinite(result.particles))
    assert len(sf.load(result.save(tmp_path / "run.nc"))) == 20


def test_ctrl_c_in_a_real_process():
    code = """
        import signal
        import jax.numpy as jnp, numpy as np, steinflow as sf
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
        x0 = np.random.default_rng(0).normal(size=(10, 1)).astype(np.float32)
        started = lambda history: print("started", flush=True) if len(history["step"]) == 1 else False
        result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), particles=x0, num_steps=10**9, record_every=10, progress=False,
                        stop=started)
        print(result.outcome.status, bool(np.isfinite(result.particles).all()), len(result.history["ksd"]) > 0)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout.readline() == "started\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.stdout.close()
    assert out.split() == ["interrupted", "True", "True"]
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps must be at least 1"),
        ({"num_steps": -5}, "num_steps must be at least 1"),
        ({"record_every": 0}, "record_every must be at least 1"),
    ],
)
def test_numbers_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)


def test_not_a_method():
    for method in [sf.SVGD, "svgd", optax.adam(0.1)]:
        with pytest.raises(TypeError, match=r"sf\.SVGD\(\)"):
            run(method=method)


def test_keys_are_accepted_in_all_forms():
    np.testing.assert_array_equal(run(key=1).particles, run(key=jax.random.key(1)).particles)
