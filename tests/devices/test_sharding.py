"""The same numbers on one device, on many, and in many processes; and what happens when one of them is killed."""

import functools
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
import sharded_runs

import steinflow as sf

PROGRAM = Path(sharded_runs.__file__)
STEPS = 40
ROUNDING = 2e-5  # in units of the spread of the particles, after some steps in float32


def start(*arguments) -> subprocess.Popen:
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_processes(count, folder="-") -> list[subprocess.Popen]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [start("process", index, count, port, folder, STEPS) for index in range(count)]


def finish(process) -> dict[str, float]:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_devices():
    found = finish(start("devices"))
    assert len(found) > 20
    wrong = {name: error for name, error in found.items() if not error < ROUNDING}
    assert not wrong


@pytest.mark.slow
def test_methods():
    found = finish(start("methods"))
    assert len(found) == 10
    assert not {name: error for name, error in found.items() if not error < ROUNDING}


def test_many_posteriors():
    assert finish(start("many"))["paper"] < ROUNDING


@functools.cache
def reference(count):
    """The run of so many processes, alone and with its data in memory."""
    settings = {"num_particles": sharded_runs.PARTICLES_OF[count], "num_steps": STEPS}
    return sharded_runs.run(sharded_runs.regression(10), sharded_runs.METHOD, **settings)


def assert_same(found, reference):
    for name, values in (("particles", reference.particles), ("ksd", reference.history["ksd"])):
        assert np.max(np.abs(np.asarray(found[name]) - values)) < ROUNDING * np.std(values)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes(count, tmp_path):
    found = [finish(process) for process in start_processes(count, tmp_path)]
    assert all(each == found[0] for each in found)
    assert_same(found[0], reference(count))
    assert sharded_runs.distance(np.array(found[0]["many"]), sharded_runs.run_many()) < ROUNDING


@pytest.mark.slow
def test_killed_process_ends_the_others_and_the_job_resumes(tmp_path):
    survivor, victim = start_processes(2, tmp_path)
    try:
        records = 0
        while records < STEPS // 3:  # the first checkpoint is written
            line = survivor.stdout.readline()
            assert line, survivor.stderr.read()
            records += line == "record\n"
        victim.kill()
        clock = time.monotonic()
        _, errors = survivor.communicate(timeout=60)
    finally:
        for process in (survivor, victim):
            process.kill()
            process.communicate()
    assert time.monotonic() - clock < 40  # the heartbeat timeout of the program is 10 seconds
    assert survivor.returncode != 0
    assert "lost contact with the others" in errors
    assert "Start the whole job again, and it goes on from its last checkpoint" in errors

    for found in [finish(process) for process in start_processes(2, tmp_path)]:
        assert_same(found, reference(2))


def test_mesh_needs_its_devices():
    with pytest.raises(ValueError, match=r"needs 6 devices; there are 1\. .*xla_force_host_platform_device_count"):
        sf.mesh(particles=3, data=2)
    other = jax.make_mesh((1,), ("x",))
    with pytest.raises(ValueError, match="an axis named 'particles'"):
        sf.fit(lambda x: -(x @ x), particles=jax.numpy.ones((2, 1)), mesh=other, progress=False)
