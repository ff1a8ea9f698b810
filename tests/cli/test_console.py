"""How commands end."""

import json

import pytest
import typer
from commands import steinflow_
from typer.testing import CliRunner

from steinflow.cli.console import clear_errors, print_json


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (typer.Exit(3), 3),
        (typer.BadParameter("x"), 2),
        (KeyboardInterrupt(), 130),
        (OSError(28, "No space left on device", "run"), 1),
        (MemoryError(), 1),
        (RuntimeError("x"), 1),
    ],
)
def test_every_end_has_its_code(error, code):
    def end():
        raise error

    one = typer.Typer()
    one.command()(clear_errors(end))
    done = CliRunner().invoke(one, [])
    assert done.exit_code == code
    assert "Traceback" not in done.output
    if isinstance(error, OSError):
        assert done.stderr.strip() == "Error: run: No space left on device. Nothing was written."


def test_debug_shows_the_traceback():
    done = steinflow_("fit", "nowhere.csv", "--target", "y", "--debug")
    assert isinstance(done.exception, ValueError)


def test_what_is_printed_is_json(capsys):
    print_json({"ksd": float("nan"), "values": [float("inf"), 1.5]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"ksd": None, "values": [None, 1.5]}
