"""Runs that stop, for whatever reason, go on as if they had not."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import steinflow as sf
from steinflow.inference.fingerprints import fingerprint

# One object each, so that all runs here compile once.
START = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
RECORD = {"mean": lambda x: {"of x": jnp.mean(x, axis=0)}}
METHOD = sf.SVGD(optimizer=optax.adam(0.05))
TARGET = sf.Posterior(
    lambda x: -0.5 * jnp.sum(x**2),
    lambda x, rows: -0.5 * jnp.sum((rows - x) ** 2, axis=1),
    np.random.default_rng(1).normal(size=(37, 2)),
    batch_size=5,
)


class StoppedError(Exception):
    pass


def run(checkpoint=None, *, target=TARGET, method=METHOD, particles=START, num_steps=60, key=0, stop=None):
    return sf.fit(
        target, method, particles=particles, num_steps=num_steps, key=key, progress=False, record=RECORD, stop=stop,
        checkpoint=checkpoint,
    )  # fmt: skip


def stop_at(step):
    def stop(history):
        if history["step"][-1] >= step:
            raise StoppedError
        return False

    return stop


def saved_run(folder):
    """Start a run and stop it by an error, with checkpoints of steps 10, 20 and 30 on disk."""
    with pytest.raises(StoppedError):
        run(sf.Checkpoint(folder, every_steps=10), stop=stop_at(34))
    assert saved_steps(folder) == [10, 20, 30]


def saved_steps(folder):
    return sorted(int(path.name) for path in Path(folder).iterdir() if path.name.isdigit())


def assert_equal(result, reference):
    for a, b in ((result.particles, reference.particles), (result.scores, reference.scores)):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.structure(result.history) == jax.tree.structure(reference.history)
    jax.tree.map(np.testing.assert_array_equal, result.history, reference.history)
    assert result.outcome == reference.outcome


@pytest.fixture(scope="module")
def reference():
    return run()


def test_resumes_bit_for_bit(tmp_path, reference):
    saved_run(tmp_path)
    assert_equal(run(sf.Checkpoint(tmp_path, every_steps=10, keep=2)), reference)
    assert saved_steps(tmp_path) == [50, 60]
    assert_equal(run(tmp_path), reference)  # a finished run is read, not run again


def test_saves_by_time(tmp_path, reference):
    with pytest.raises(StoppedError):
        run(sf.Checkpoint(tmp_path, every_seconds=0), stop=stop_at(20))
    assert saved_steps(tmp_path)
    assert_equal(run(tmp_path), reference)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_runs_are_saved(tmp_path, reference, signal_number):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it

    def stop(history):
        if history["step"][-1] == 30:
            signal.raise_signal(signal_number)
        return False

    result = run(tmp_path, stop=stop)
    assert result.outcome.status == "interrupted"
    assert saved_steps(tmp_path) == [30]
    assert_equal(run(tmp_path), reference)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": lambda x: -jnp.sum(x**2)}, "its target is another"),
        ({"method": sf.SVGD(optimizer=optax.adam(0.1))}, "its method is another"),
        ({"particles": START[:7]}, "its particles was 12 x 2 float32, now 7 x 2 float32"),
        ({"num_steps": 70}, "its num_steps was 60, now 70"),
        ({"key": 1}, "its key is another"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_refuses_another_run(folder_of_a_run, change, message):
    with pytest.raises(ValueError, match=message):
        run(folder_of_a_run, **change)


@pytest.fixture(scope="module")
def folder_of_a_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    saved_run(folder)
    return folder


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# orbax reads all arrays at once, and leaves the errors of the others in futures that nobody asks.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("arrays/**/d/*", lambda path: os.truncate(path, path.stat().st_size // 2)),
        ("arrays/**/d/*", flip_a_byte),
        ("arrays/manifest.ocdbt", Path.unlink),
        ("meta/metadata", lambda path: path.write_text("{")),
        ("meta/metadata", lambda path: path.write_text(path.read_text().replace("running", "step limit"))),
    ],
    ids=["truncated", "flipped", "lost", "unreadable", "altered"],
)
def test_damaged_checkpoint_falls_back(tmp_path, folder_of_a_run, reference, part, damage):
    folder = shutil.copytree(folder_of_a_run, tmp_path / "run")
    for path in (folder / "30").glob(part):
        damage(path)
    with pytest.warns(RuntimeWarning, match="step 30 .* is damaged"):
        result = run(sf.Checkpoint(folder, every_steps=10))
    assert_equal(result, reference)


def test_all_checkpoints_damaged(tmp_path, folder_of_a_run):
    folder = shutil.copytree(folder_of_a_run, tmp_path / "run")
    for path in folder.glob("*/meta/metadata"):
        path.unlink()
    with pytest.warns(RuntimeWarning, match="damaged"), pytest.raises(ValueError, match="None of the 3 checkpoints"):
        run(folder)


def test_full_disk_loses_nothing(tmp_path, reference):
    """No file may grow beyond 64 bytes: what a full disk says, without filling one."""
    saved_run(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match="could not be written .* The run goes on"):
            result = run(sf.Checkpoint(tmp_path, every_steps=10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_equal(result, reference)
    assert saved_steps(tmp_path) == [10, 20, 30]
    assert_equal(run(tmp_path), reference)


@pytest.mark.slow
def test_killed_at_random_moments():
    program = Path(__file__).parents[1] / "helpers" / "killed_runs.py"
    done = subprocess.run([sys.executable, program, "5"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 5
    assert found["equal"]


def test_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match="every_steps must be at least 1"):
        sf.Checkpoint(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="keep must be at least 1"):
        sf.Checkpoint(tmp_path, keep=0)


SCALE = 2.0


def scaled(x):
    return SCALE * x


def make(factor, data=None):
    return lambda x: factor * x if data is None else data @ x


def test_fingerprints_see_what_counts(monkeypatch):
    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert fingerprint(make(1.0)) != fingerprint(make(2.0))
    assert fingerprint(make(1.0, np.eye(2))) != fingerprint(make(1.0, 2 * np.eye(2)))
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(optax.adam(0.1)) == fingerprint(optax.adam(0.1))
    assert fingerprint(optax.adam(0.1)) != fingerprint(optax.adam(0.2))
    assert fingerprint(sf.SVGD()) != fingerprint(sf.SVGD(kernel=sf.IMQ(bandwidth=3.0)))
    before = fingerprint(scaled)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(scaled) != before


def test_fingerprints_hold_in_another_process():
    code = (
        "import optax, numpy as np, jax, jax.numpy as jnp, steinflow as sf\n"
        "from steinflow.inference.fingerprints import fingerprint\n"
        "f = jax.jit(lambda x: jnp.sum(x ** 2) * len({'a', 'b'}))\n"
        "target = sf.Posterior(f, lambda x, r: r @ x, np.eye(3), batch_size=2)\n"
        "print(fingerprint((target, sf.SVGD(optimizer=optax.adam(0.1)), sf.SVGD())))"
    )
    prints = {
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, text=True)
        for seed in ("1", "2")
    }
    assert len(prints) == 1
