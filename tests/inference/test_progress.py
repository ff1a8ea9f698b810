"""Many runs that are cut short go on as if they had not been, wherever that was."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from many_runs import MEANS, START, end_in_many_ways, run

import steinflow as sf
from steinflow.inference.blocks import BlockRun
from steinflow.inference.interruption import Interruption
from steinflow.methods.svgd.method import SVGD


class StoppedError(Exception):
    pass


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    end_in_many_ways(monkeypatch)


@pytest.fixture(scope="module")
def known():
    """What a run that is left alone finds."""
    return {}


@pytest.fixture
def reference(known):
    return known.setdefault("run", run())


def assert_equal(many, reference):
    for result, other in zip(many, reference, strict=True):
        for name in ("particles", "unconstrained", "scores", "log_densities", "weights", "states"):
            jax.tree.map(np.testing.assert_array_equal, getattr(result, name), getattr(other, name))
        assert result.info == other.info
        assert result.ending == other.ending
        np.testing.assert_array_equal(result.target.item, other.target.item)


def stopped_after(monkeypatch, steps):
    """Let blocks make so many steps."""
    advance, made = BlockRun.advance, []

    def advanced(self, block, count):
        made.append(count)
        if sum(made) > steps:
            raise StoppedError
        return advance(self, block, count)

    return monkeypatch.setattr(BlockRun, "advance", advanced)


def steps_of(monkeypatch, call):
    """Return how many steps blocks make in a call."""
    advance, made = BlockRun.advance, []
    with monkeypatch.context() as patch:
        patch.setattr(BlockRun, "advance", lambda self, block, count: made.append(count) or advance(self, block, count))
        many = call()
    return sum(made), many


def test_stopped_runs_go_on_where_they_were(tmp_path, monkeypatch, reference):
    """In the first block, in the next ones, in what is left over of them, and in the second stage."""
    checkpoint, whole = sf.Checkpoint(tmp_path, every_steps=15, keep=1), steps_of(monkeypatch, run)[0]
    moments = (15, 15, 30, 45, 30)
    for steps in moments:
        with monkeypatch.context() as patch:
            stopped_after(patch, steps)
            with pytest.raises(StoppedError):
                run(checkpoint)
    rest, many = steps_of(monkeypatch, lambda: run(checkpoint))
    assert_equal(many, reference)
    assert 0 < rest == whole - sum(moments)  # nothing is computed again


def test_finished_runs_are_read(tmp_path, monkeypatch, reference):
    run(tmp_path)
    stopped_after(monkeypatch, 0)
    monkeypatch.setattr(SVGD, "settle_all", None)
    assert_equal(run(tmp_path), reference)


@pytest.mark.parametrize("when", [0, 5, 30])
def test_interrupted_runs_are_saved_and_go_on(tmp_path, monkeypatch, reference, when):
    requests = iter(range(1000))
    with monkeypatch.context() as patch:
        requested = property(lambda self: next(requests) >= when, lambda self, value: None)
        patch.setattr(Interruption, "requested", requested, raising=False)
        patch.setattr(Interruption, "check", lambda self: None)
        many = run(tmp_path)
    assert sf.Outcome.INTERRUPTED in many.outcomes
    assert_equal(run(tmp_path), reference)


@pytest.fixture
def folder_of_runs(known, tmp_path_factory):
    if "folder" not in known:
        known["folder"] = tmp_path_factory.mktemp("runs")
        run(known["folder"])
    return known["folder"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"make": lambda mean: lambda x: -0.5 * jnp.sum((x["a"] - mean) ** 4)}, "another function that makes targets"),
        ({"items": MEANS + 1}, "another data"),
        ({"method": sf.SVGD.paper(0.1)}, "another method"),
        ({"particles": {"a": START[:, :7]}}, "particles: 10 in 1 dimensions then, 7 in 1 dimensions now"),
        ({"particles": {"a": START + 1}}, "another starting point of the particles"),
        ({"num_steps": 70}, "num_steps: 40 to 70 then, 70 now"),
        ({"key": 5}, "another key"),
    ],
    ids=["make", "items", "method", "fewer", "particles", "num_steps", "key"],
)
def test_refuses_another_call(folder_of_runs, change, message):
    with pytest.raises(ValueError, match=message):
        run(folder_of_runs, **change)


def test_refuses_another_version(folder_of_runs, monkeypatch):
    monkeypatch.setattr("steinflow.inference.fingerprints.versions", lambda: {"steinflow": "99.0"})
    with pytest.raises(ValueError, match=rf"version of steinflow: {sf.__version__} then, 99\.0 now"):
        run(folder_of_runs)


@pytest.mark.slow
def test_killed_at_random_moments():
    program = Path(__file__).parents[1] / "helpers" / "killed_runs.py"
    done = subprocess.run([sys.executable, program, "6", "many"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 6
    assert found["equal"]
