"""Help, and where compiled code is kept."""

import re
import sys
from pathlib import Path

import jax
import pytest
from commands import steinflow_
from typer.testing import CliRunner

import steinflow
from steinflow.cli import command_line
from steinflow.cli.app import app
from steinflow.devices.caches import compiled_folder


def test_help_reads_like_a_manual():
    text = steinflow_("--help").stdout
    for command in ("fit", "fit-groups", "predict", "report", "compare", "demo", "reproduce", "benchmark"):
        assert command in text
        assert steinflow_(command, "--help").exit_code == 0
    assert "Exit codes" in text
    assert steinflow_("--version").stdout.strip() == f"steinflow {steinflow.__version__}"


def test_help_flows_with_the_terminal():
    text = CliRunner(env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"}).invoke(app, ["fit", "--help"]).stdout
    assert "<bool>" not in text  # options without a value do not ask for one
    words = " ".join(text.split())
    assert "Some rows are held out, to see how well the posterior" in words
    short = [line for line in text.splitlines() if line.strip() in ("held out, to see", "are held out, to see")]
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


def test_without_typer_it_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "steinflow.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=re.escape("pip install 'steinflow[cli]'")):
        command_line()
