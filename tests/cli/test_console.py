"""How commands end."""

import json

import pytest
import typer
from commands import steinflow_
from rich.console import Console
from typer.testing import CliRunner

from steinflow.cli import console
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


@pytest.mark.parametrize("width", [50, 80])
def test_numbers_stay_on_one_line(monkeypatch, width):
    narrow = Console(width=width)
    monkeypatch.setattr(console, "out", narrow)
    rows = [["prior sd of weights", *["-2.771e-13"] * 4], ["a", *["6.414e-14"] * 4]]
    with narrow.capture() as shown:
        narrow.print(console.table("Effects", ["per sd", "mean", "sd", "5%", "95%"], rows))
    lines = shown.get().splitlines()
    assert all(word.endswith(("e-13", "…")) for line in lines for word in line.split() if "-2" in word)
    assert sum("-2" in line for line in lines) == sum("prior" in line for line in lines) == 1
