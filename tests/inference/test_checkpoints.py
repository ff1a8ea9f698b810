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
import runs
from runs import X0
from scenarios import normal_log_density

import steinflow as sf
from steinflow.inference.checkpoints import CheckpointFolder, Snapshot


def mean_by_name(x):
    return {"of x": jnp.mean(x, axis=0)}


def row_log_likelihood(x, rows):
    return -0.5 * jnp.sum((rows - x) ** 2, axis=1)


# One object each, so that all runs here compile once.
RECORD = {"mean": mean_by_name}
METHOD = sf.SVGD(optimizer=optax.adam(0.05))
ROWS = np.random.default_rng(1).normal(size=(37, 2)).astype(np.float32)
TARGET = sf.Posterior(normal_log_density, row_log_likelihood, ROWS, batch_size=5)


class StoppedError(Exception):
    pass


def run(checkpoint=None, **changes):
    settings = {"target": TARGET, "method": METHOD, "num_steps": 60, "record": RECORD, "checkpoint": checkpoint}
    return runs.run(**{**settings, **changes})


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
    assert result.ending == reference.ending


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


@pytest.fixture
def own_handler():
    """Shells let background jobs ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_runs_are_saved(own_handler, tmp_path, reference, signal_number):
    def stop(history):
        if history["step"][-1] == 30:
            signal.raise_signal(signal_number)
        return False

    result = run(tmp_path, stop=stop)
    assert result.outcome is sf.Outcome.INTERRUPTED
    assert saved_steps(tmp_path) == [30]
    assert_equal(run(tmp_path), reference)


def after_thirty(history):
    return history["step"][-1] >= 30


def test_a_stopped_run_stays_so_until_its_rule_is_another(tmp_path, reference):
    stopped = run(tmp_path, stop=after_thirty)
    assert stopped.outcome is sf.Outcome.STOPPED
    assert_equal(run(tmp_path, stop=after_thirty), stopped)
    assert_equal(run(tmp_path), reference)


def other_mean(x):
    return {"of x": 2 * jnp.mean(x, axis=0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": normal_log_density}, "another target"),
        ({"method": sf.SVGD(optimizer=optax.adam(0.1))}, "another method"),
        ({"particles": X0[:7]}, "particles: 20 in 2 dimensions then, 7 in 2 dimensions now"),
        ({"particles": X0 + 100}, "another starting point of the particles"),
        ({"num_steps": 70}, "num_steps: 60 then, 70 now"),
        ({"key": 5}, "another key"),
        ({"record": {"mean": other_mean}}, "another function to record"),
        ({"record_every": 7}, "record: mean every 1 steps then, mean every 7 steps now"),
    ],
    ids=["target", "method", "fewer", "particles", "num_steps", "key", "record", "record_every"],
)
def test_refuses_another_run(folder_of_a_run, change, message):
    with pytest.raises(ValueError, match=message):
        run(folder_of_a_run, **change)


def test_refuses_another_version(folder_of_a_run, monkeypatch):
    monkeypatch.setattr(sys.modules["steinflow.inference.fingerprints"], "versions", lambda: {"steinflow": "99.0"})
    with pytest.raises(ValueError, match=rf"version of steinflow: {sf.__version__} then, 99\.0 now"):
        run(folder_of_a_run)


def test_particles_of_the_prior_are_no_others(tmp_path):
    target = sf.Density(normal_log_density, prior=standard_normal)
    settings = {"target": target, "particles": None, "num_particles": 20, "num_steps": 4, "record": None}
    first = run(tmp_path, **settings)
    assert_equal(run(tmp_path, **settings), first)
    with pytest.raises(ValueError, match="starting point of the particles"):
        run(tmp_path, **{**settings, "num_particles": None, "particles": X0})


def standard_normal(key):
    return jax.random.normal(key, (2,))


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
        ("meta/metadata", lambda path: path.write_text(path.read_text().replace("records", "record"))),
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
@pytest.mark.parametrize("where", ["in memory", "mapped"])
def test_killed_at_random_moments(where):
    program = Path(__file__).parents[1] / "helpers" / "killed_runs.py"
    done = subprocess.run([sys.executable, program, "10", where], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 10
    assert found["passes"] > 0  # of anchors, which are part of a checkpoint
    assert found["uneven"] > 2  # and so is what they know of the rows, by which batches are drawn
    assert found["equal"]


def test_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match="every_steps must be at least 1"):
        sf.Checkpoint(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="keep must be at least 1"):
        sf.Checkpoint(tmp_path, keep=0)


def test_arrays_of_any_kind_are_saved_where_they_live(tmp_path):
    """Empty ones too, as those of particles that explore in three dimensions or more, to which none are added."""
    state = {"points": jnp.arange(6.0).reshape(2, 3), "added": jnp.zeros((2, 0)), "home": np.arange(3)}
    with CheckpointFolder(tmp_path, {}) as folder:
        folder.save(Snapshot(state, step=3))
    with CheckpointFolder(tmp_path, {}) as folder:
        empty = {**jax.tree.map(lambda leaf: leaf[:0], state), "home": jax.ShapeDtypeStruct((), int)}
        restored = Snapshot.of(folder.restore(Snapshot(empty).like({})))
    assert restored.step == 3
    jax.tree.map(np.testing.assert_array_equal, restored.state, state)
    assert [type(leaf) for leaf in jax.tree.leaves(restored.state)] == [type(leaf) for leaf in jax.tree.leaves(state)]
