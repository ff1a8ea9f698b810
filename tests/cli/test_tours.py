"""`steinflow demo`, `reproduce` and `benchmark`."""

import json

import pandas
import pytest
from commands import steinflow_


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


def test_demo_types_commands_that_exist(monkeypatch):
    called = []
    monkeypatch.setattr("steinflow.cli.tours._called", lambda app, arguments: called.append(arguments) and 0)
    assert steinflow_("demo", "--output", "demo").exit_code == 0
    assert [arguments[0] for arguments in called] == ["fit", "report"]
    assert {"radius", "texture", "diagnosis"} <= set(pandas.read_csv("demo/tumours.csv").columns)
