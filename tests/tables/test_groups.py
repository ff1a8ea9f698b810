"""A model for every group of a table; the fits are in tests/cli/test_groups.py."""

import dataclasses
import json

import example_tables as tables
import numpy as np
import pytest
from known_results import normal_around

import steinflow as sf
from steinflow.models.columns import TableError
from steinflow.tables.groups import GroupRun, fit_each_group
from steinflow.tables.runs import RunError, json_text


@pytest.fixture
def run():
    """Two groups of 10 and 20 rows, whose posteriors are normal around 0 and 1."""
    results = (normal_around(k) for k in range(2))
    results = [
        dataclasses.replace(result, info={**result.info, "num_rows": 10 * (k + 1)}) for k, result in enumerate(results)
    ]
    many = sf.Many(tuple(results), ("left", "right"))
    return GroupRun(many, many.summary(), "a model", ["empty"], ["a note"])


def test_groups_as_plain_values(run):
    found = json.loads(json_text(run.to_json()))
    assert list(found) == ["left", "right"]
    assert found["right"]["rows"] == 20
    assert found["right"]["outcome"] == "step limit"
    assert list(found["right"]["parameters"]) == ["a", "b[0]", "b[1]"]
    assert {"mean", "sd", "5%", "50%", "95%"} <= set(found["right"]["parameters"]["a"])
    np.testing.assert_allclose(found["right"]["parameters"]["a"]["mean"], run.many[1].mean()["a"], rtol=1e-5)


def test_a_folder_holds_the_table_the_figure_and_the_posteriors(run, tmp_path):
    names = run.save(tmp_path / "run", {"command": "typed"})
    assert names == ["groups.csv", "groups.png", "result.nc", "run.json"]
    details = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (details["left_out"], details["notes"], details["command"]) == (["empty"], ["a note"], "typed")
    assert (tmp_path / "run" / "groups.csv").read_text().startswith("group,")
    assert sf.Many.load(tmp_path / "run" / "result.nc").names == ("left", "right")
    with pytest.raises(RunError, match="already exists"):
        run.save(tmp_path / "run", {})


def test_columns_of_groups_must_be_there_and_filled():
    frame = tables.numbers().assign(g=None)
    with pytest.raises(TableError, match="no column 'shop'"):
        fit_each_group(frame, ["shop"], "y")
    with pytest.raises(TableError, match="No row of the table has a value in 'g'"):
        fit_each_group(frame, ["g"], "y")
