"""A run that is interrupted keeps what it has; files are whole or not there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import example_tables as tables
import pandas
import pytest
from commands import QUICK, steinflow_, write

import steinflow
from steinflow.inference import loop
from steinflow.results.result import Result

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(steinflow.__file__).parents[1])}


def test_interrupted_fit_keeps_the_particles(monkeypatch):
    def interrupt(history, stop):
        if history and len(history["step"]) >= 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_judged", interrupt)
    write(tables.numbers())
    done = steinflow_("fit", "data.csv", "--target", "y", *QUICK, "--output", "run")
    assert done.exit_code == 130
    assert "Interrupted at step 5 of 100" in done.stderr
    assert steinflow_("report", "run").exit_code == 0  # the run is whole


@pytest.mark.parametrize("place", ["reading", "saving"])
def test_interrupted_elsewhere_writes_nothing(monkeypatch, place):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    if place == "reading":
        monkeypatch.setattr(pandas, "read_csv", interrupt)
    else:
        monkeypatch.setattr(Result, "save", interrupt)
    write(tables.numbers())
    done = steinflow_("fit", "data.csv", "--target", "y", *QUICK, "--output", "out/run")
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr
    assert [path for path in Path().rglob("*") if path.is_file()] == [Path("data.csv")]


def test_a_failed_replacement_leaves_the_old_run(runs, monkeypatch):
    before = {path.name: path.read_bytes() for path in runs.other.iterdir()}

    def fail(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Result, "save", fail)
    done = steinflow_("fit", runs.data, "--target", "y", *QUICK, "--output", runs.other, "--overwrite")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert {path.name: path.read_bytes() for path in runs.other.iterdir()} == before
    assert not list(runs.folder.glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("package", ["jax", "typer"])
def test_ctrl_c_while_packages_are_imported(package):
    code = f"""
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {package!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from steinflow_command import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 130
    assert done.stdout + done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_in_a_real_process():
    write(tables.numbers())
    command = [sys.executable, "-m", "steinflow.cli", "fit", "data.csv", "--target", "y", "--output", "run"]
    with subprocess.Popen(
        [*command, "--steps", "100000000", "--method", "sgld"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stderr is not None
        while "held out" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, out + err
    assert "Interrupted" in err
    assert "Traceback" not in err
    names = {path.name for path in Path().iterdir()}
    assert names in ({"data.csv"}, {"data.csv", "run"})
