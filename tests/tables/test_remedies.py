"""What to do about a column, as options of the command line."""

import shlex

import pytest

from steinflow.cli.app import app
from steinflow.tables.remedies import OPTIONS, formula_option


@pytest.mark.parametrize("name", ["x", "a b", "$HOME", "a`b", "driver's age"])
def test_a_shell_reads_the_name_as_it_is(name):
    assert shlex.split(OPTIONS.leave_out([name]).removeprefix("leave it out with ")) == ["--drop", name]
    assert shlex.split(OPTIONS.as_missing(name).removeprefix("add ")) == ["--missing-marker", name]
    assert shlex.split(formula_option(f"y ~ `{name}`")) == ["--formula", f"y ~ `{name}`"]


def test_few_of_many_columns_are_named():
    text = OPTIONS.leave_out([f"c{k}" for k in range(9)])
    assert text.startswith("leave them out with --drop 'c0' ")
    assert text.endswith("--drop 'c5' ...")


def test_options_are_those_of_the_command():
    from typer.main import get_command

    known = {option for parameter in get_command(app).commands["fit"].params for option in parameter.opts}
    advice = [OPTIONS.leave_out(["a"]), OPTIONS.read_with(decimal=",", thousands="."), OPTIONS.as_group("g")]
    words = " ".join([*advice, OPTIONS.as_missing("?")]).split()
    assert {word for word in words if word.startswith("--")} <= known


def test_backticks_are_not_for_the_shell():
    assert formula_option("y ~ x") == '--formula "y ~ x"'
    assert formula_option("y ~ `a b`") == "--formula 'y ~ `a b`'"
