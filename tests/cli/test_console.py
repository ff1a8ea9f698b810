"""Help, caches, files and exit codes."""

import json
import re
import sys
from pathlib import Path

import jax
import numpy as np
import pandas
import pytest
import typer
from commands import steinflow_
from typer.testing import CliRunner

import steinflow
from steinflow.cli import main
from steinflow.cli.app import app
from steinflow.cli.console import clear_errors
from steinflow.devices.caches import compiled_folder


def test_help_reads_like_a_manual():
    text = steinflow_("--help").stdout
    for command in ("fit", "predict", "report", "compare", "demo", "reproduce", "benchmark"):
        assert command in text
        assert steinflow_(command, "--help").exit_code == 0
    assert "Exit codes" in text
    assert steinflow_("--version").stdout.strip() == f"steinflow {steinflow.__version__}"


def test_help_flows_with_the_terminal():
    text = CliRunner(env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"}).invoke(app, ["fit", "--help"]).stdout
    assert "<bool>" not in text  # options without a value do not ask for one
    words = " ".join(text.split())
    assert "A part of the rows is held out, and the posterior" in words
    short = [line for line in text.splitlines() if line.strip() == "the rows is held"]
    assert short == []


@pytest.fixture
def cache_of_jax():
    """Set where JAX keeps compiled code; put back at the end."""
    before = compiled_folder()
    yield lambda folder: jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_compilation_cache_dir", before)


def test_compiled_code_is_kept_in_the_cache_of_the_user(cache_of_jax, monkeypatch, here):
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    cache_of_jax(None)
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() == str(here / "steinflow" / "compiled")


def test_compiled_code_is_kept_where_the_user_says(cache_of_jax, here):
    cache_of_jax(str(here / "mine"))  # what JAX_COMPILATION_CACHE_DIR does
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() == str(here / "mine")


def test_a_user_without_a_home(cache_of_jax, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache_of_jax(None)
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() is None


def test_nothing_is_pickled(runs):
    folder, _ = runs
    assert sorted(path.name for path in (folder / "svgd").iterdir()) == [
        "held_out.csv",
        "result.nc",
        "run.json",
        "start.npy",
    ]
    assert np.load(folder / "svgd" / "start.npy", allow_pickle=False).dtype == np.float32


@pytest.mark.slow
def test_benchmark_of_an_installed_package():
    done = steinflow_("benchmark", "--quick", "--json")
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["milliseconds_per_step"]) == {"100", "1000"}


def test_reproduce_lists_experiments():
    done = steinflow_("reproduce", "--list")
    assert done.exit_code == 0, done.output
    assert "toy" in done.stdout
    assert "no experiment 'nope'" in steinflow_("reproduce", "nope").stderr


def test_without_typer_it_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "steinflow.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=re.escape("pip install 'steinflow[cli]'")):
        main()


def test_demo_types_commands_that_exist(monkeypatch):
    called = []
    monkeypatch.setattr("steinflow.cli.tours._called", lambda app, arguments: called.append(arguments) and 0)
    assert steinflow_("demo", "--output", "demo").exit_code == 0
    assert [arguments[0] for arguments in called] == ["fit", "report"]
    assert {"radius", "texture", "diagnosis"} <= set(pandas.read_csv("demo/tumours.csv").columns)


@pytest.mark.parametrize(("error", "code"), [(typer.Exit(3), 3), (KeyboardInterrupt(), 130), (RuntimeError("x"), 1)])
def test_every_end_has_its_code(error, code):
    def end():
        raise error

    one = typer.Typer()
    one.command()(clear_errors(end))
    done = CliRunner().invoke(one, [])
    assert done.exit_code == code
    assert "Traceback" not in done.output
