"""Every test of the command line in a folder of its own; saved runs are fitted once."""

import json

import example_tables as tables
import pytest
from commands import QUICK, steinflow_


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Saved runs on the same table, and what the first fit printed as JSON."""
    folder = tmp_path_factory.mktemp("runs")
    data = folder / "data.csv"
    tables.two_classes().to_csv(data, index=False)
    fit = ["fit", data, "--target", "y", *QUICK]
    first = steinflow_(*fit, "--output", folder / "svgd", "--json")
    second = steinflow_(*fit, "--output", folder / "other", "--seed", 1)
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    return folder, json.loads(first.stdout)
