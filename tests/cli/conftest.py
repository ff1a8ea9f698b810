"""Every test of the command line in a folder of its own; saved runs are fitted once."""

import json
from types import SimpleNamespace

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
    """Two runs on the same table, `svgd` and `other`: what the first fit printed as JSON, and the second as text."""
    folder = tmp_path_factory.mktemp("runs")
    data = folder / "data.csv"
    tables.two_classes().to_csv(data, index=False)
    fit = ["fit", data, "--target", "y", *QUICK]
    first = steinflow_(*fit, "--output", folder / "svgd", "--json")
    second = steinflow_(*fit, "--output", folder / "other", "--seed", 1)
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    return SimpleNamespace(
        folder=folder,
        data=data,
        svgd=folder / "svgd",
        other=folder / "other",
        json=json.loads(first.stdout),
        text=second,
    )


@pytest.fixture(scope="session")
def one_row(tmp_path_factory):
    """A run on numbers that holds out one row."""
    folder = tmp_path_factory.mktemp("one-row")
    tables.numbers().to_csv(folder / "data.csv", index=False)
    fit = ["fit", folder / "data.csv", "--target", "y", *QUICK, "--test-fraction", "0.01", "--json"]
    done = steinflow_(*fit, "--output", folder / "run")
    assert done.exit_code == 0, done.output
    return SimpleNamespace(folder=folder / "run", json=json.loads(done.stdout))
