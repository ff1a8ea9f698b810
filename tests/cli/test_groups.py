"""`steinflow fit-groups`: a model for every group of a table."""

import json

import numpy as np
import pandas
import pytest
from commands import QUICK, steinflow_, write

import steinflow as sf


@pytest.fixture(scope="module")
def frame():
    """y = slope x + noise, with the slopes 0, 3, 6 in three shops; a shop without complete rows, a row without one."""
    rng = np.random.default_rng(0)
    shop, x = np.tile(["a", "b", "c"], 30), rng.normal(size=90)
    frame = pandas.DataFrame({"x": x, "shop": shop, "y": 5 + 3 * np.tile([0, 1, 2], 30) * x + rng.normal(size=90)})
    gaps = pandas.DataFrame({"x": [np.nan, 1.0], "shop": ["empty", None], "y": [1.0, 2.0]})
    return pandas.concat([frame, gaps], ignore_index=True)


def test_a_column_is_predicted_in_every_group(frame, tmp_path):
    data, folder = write(frame, tmp_path / "data.csv"), tmp_path / "run"
    options = ["--by", "shop", "--target", "y", "--missing", "drop", *QUICK, "--output", folder]
    done = steinflow_("fit-groups", data, *options)
    assert done.exit_code == 0, done.output
    assert "Left out 1 row without a group." in done.stderr
    assert "Left out 1 group with no complete rows: 'empty'." in done.stderr
    assert "Mean ± sd by group: linear regression" in " ".join(done.stdout.split())
    table = pandas.read_csv(folder / "groups.csv")
    slopes = table[table["parameter"] == "x"].set_index("group")
    unit = frame["x"][:90].std(ddof=0)  # effects are per sd of the whole table
    np.testing.assert_allclose(slopes["mean"] / unit, [0, 3, 6], atol=0.6)
    assert slopes["rows"].tolist() == [30, 30, 30]
    assert {path.name for path in folder.iterdir()} == {"groups.csv", "groups.png", "result.nc", "run.json"}
    many = sf.Many.load(folder / "result.nc")
    assert many.names == ("a", "b", "c")
    done = steinflow_("report", folder)
    assert done.exit_code == 1
    assert "holds one model per group" in done.stderr
    done = steinflow_("fit-groups", data, *options)
    assert done.exit_code == 1
    assert "--overwrite" in done.stderr


@pytest.mark.slow
def test_a_formula_in_every_group(frame, tmp_path):
    data = write(frame.assign(half=np.arange(92) % 2), tmp_path / "data.csv")
    options = ["--by", "shop", "--by", "half", "--formula", "y ~ x", "--min-rows", "5", "--json"]
    done = steinflow_("fit-groups", data, *options, "--output", tmp_path / "run", "--strict")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["left_out"] == ["empty, 0"]
    assert list(found["groups"]) == ["a, 0", "a, 1", "b, 0", "b, 1", "c, 0", "c, 1"]
    for name, group in found["groups"].items():
        rows = frame[(frame["shop"] == name[0]) & (np.arange(92) % 2 == int(name[-1]))]
        slope, _ = np.polyfit(rows["x"], rows["y"], 1)
        assert group["rows"] == 15
        assert group["verdict"] == "good"
        np.testing.assert_allclose(group["parameters"]["x"]["mean"], slope, atol=0.1)


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (["--by", "shop"], 2, "say what to predict"),
        (["--by", "shop", "--target", "shop"], 2, "also define the groups"),
        (["--by", "shop", "--target", "y", "--model", "network"], 2, "fits linear models only"),
        (["--by", "shop", "--formula", "y ~ x", "--categorical", "nothing"], 1, "no column 'nothing'"),
        (["--by", "shops", "--target", "y"], 1, "shop"),
        (["--by", "shop", "--target", "y"], 1, "--missing drop"),
        (["--by", "shop", "--formula", "y ~ x", "--min-rows", "50"], 1, "None of the 4 groups has 50"),
    ],
)
def test_misuse(frame, tmp_path, options, code, expected):
    done = steinflow_("fit-groups", write(frame, tmp_path / "data.csv"), *options)
    assert done.exit_code == code
    assert expected in " ".join(done.stderr.split())
