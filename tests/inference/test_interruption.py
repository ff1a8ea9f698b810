"""Ctrl-C at any moment: a result once there are steps, KeyboardInterrupt before, and never a crash."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from runs import run

import steinflow as sf
from steinflow.inference.interruption import Interruption


@pytest.fixture(autouse=True)
def own_handler():
    """Shells let background jobs ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_the_first_signal_is_noted_the_second_raises():
    with Interruption(by_sigterm=True) as interruption:
        interruption.check()
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_of_others_stay():
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruption(by_sigterm=False) as interruption:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        signal.raise_signal(signal.SIGINT)
        assert not interruption.requested
    signal.signal(signal.SIGINT, handler)


def test_other_threads_leave_signals_alone():
    found = []

    def enter():
        with Interruption(by_sigterm=True):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def interrupt_at(step):
    def interrupt(history):
        if history["step"][-1] == step:
            signal.raise_signal(signal.SIGINT)
        return False

    return interrupt


def test_ctrl_c_returns_what_there_is(short_run):
    result = run(stop=interrupt_at(6), record_every=2)
    assert result.outcome is sf.Outcome.INTERRUPTED
    assert "step 6 of 20" in result.ending.message
    np.testing.assert_array_equal(result.history["step"], [2, 4, 6])
    np.testing.assert_array_equal(result.particles, short_run.history["x"][5])


def test_ctrl_c_at_the_last_step_is_not_lost():
    """Who runs several fits in a row must see it."""
    result = run(stop=interrupt_at(20))
    assert result.outcome is sf.Outcome.INTERRUPTED
    assert result.info["num_steps"] == 20


def test_ctrl_c_before_the_first_step_raises():
    def log_density(x):  # looked at before anything is computed
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        return -0.5 * (x @ x)

    with pytest.raises(KeyboardInterrupt) as caught:
        run(log_density)
    assert caught.value.__cause__ is None


PROGRAM = """
    import signal, sys
    import numpy as np, steinflow as sf  # to interrupt the import of jax crashes jaxlib, whoever imports it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.write("started\\n")
    sys.stdout.flush()
    def log_density(x):
        return -0.5 * (x @ x)
    x0 = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    result = sf.fit(log_density, particles=x0, num_steps=10**8, checkpoint=sys.argv[1] if len(sys.argv) > 1 else None)
    assert result.outcome is sf.Outcome.INTERRUPTED
    assert np.isfinite(result.particles).all()
    sys.stdout.write("returned\\n")
"""


def interrupted_after(seconds, *arguments):
    """Interrupt a process so long after its start; return its exit code, its last words and its errors."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    return process.returncode, out.strip(), err


def assert_clean(code, out, err):
    if code == 0:
        assert out == "returned"
        assert "Traceback" not in err
    else:  # Python ends by the signal that it was sent, which shells report as 130
        assert code == -signal.SIGINT, err
        assert err.count("Traceback") == 1
        assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("seconds", [0.5, 3.0, 7.0])
@pytest.mark.slow
def test_in_processes_of_their_own(seconds):
    assert_clean(*interrupted_after(seconds))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_twenty_processes(tmp_path):
    found = []
    for index, seconds in enumerate(np.linspace(0.3, 6.0, 20)):
        found.append(interrupted_after(seconds, *([tmp_path / str(index)] if index % 2 else [])))
        assert_clean(*found[-1])
    codes = [code for code, *_ in found]
    assert {0, -signal.SIGINT} == set(codes), "both before and after the first step"
