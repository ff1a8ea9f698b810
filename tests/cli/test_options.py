"""The options of `steinflow fit`: reading files, and folders of runs."""

import json
from pathlib import Path

import example_tables as tables
import numpy as np
import pandas
import pytest
import typer
from commands import QUICK, steinflow_, write

from steinflow.cli.options import new_folder, read


def test_parquet_and_other_separators_give_the_same():
    frame = tables.numbers()
    frame.to_parquet("data.parquet")
    write(frame, "semicolons.csv", sep=";", decimal=",", encoding="utf-16")
    fit = ["--target", "y", *QUICK, "--json"]
    one = steinflow_("fit", "data.parquet", *fit)
    two = steinflow_("fit", "semicolons.csv", *fit, "--encoding", "utf-16", "--decimal", ",")
    assert one.exit_code == two.exit_code == 0, one.output + two.output
    one, two = (json.loads(done.stdout)["parameters"]["a"]["mean"] for done in (one, two))
    assert one == pytest.approx(two, rel=1e-4)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["data-y", "semicolons-y"]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF_8", "utf-8-sig", "latin-1"])
def test_a_byte_order_mark_is_no_part_of_a_name(here, encoding):
    written = "utf-8-sig" if "8" in encoding else encoding
    (here / "data.csv").write_text("größe,y\n1,2\n3,4\n", encoding=written)
    assert list(read(Path("data.csv"), encoding, None, ".", None, None).columns) == ["größe", "y"]


@pytest.mark.parametrize("separator", [None, "tab", "\\t", "\t"])
def test_tabs_as_they_can_be_typed(here, separator):
    tables.numbers().to_csv("data.tsv", sep="\t", index=False)
    frame = read(here / "data.tsv", "utf-8", separator, ".", None, ["?"])
    pandas.testing.assert_frame_equal(frame, tables.numbers())


def test_missing_markers(here):
    (here / "data.csv").write_text("a,y\n1,?\n-,3\n")
    frame = read(here / "data.csv", "utf-8", None, ".", None, ["?", "-"])
    np.testing.assert_array_equal(frame, [[1, np.nan], [np.nan, 3]])


def test_a_folder_of_its_own_for_every_run(here):
    assert new_folder(None, "data-y", overwrite=False) == Path("runs/data-y")
    assert new_folder(Path("mine"), "data-y", overwrite=False) == Path("mine")
    with pytest.raises(typer.BadParameter, match="add --output FOLDER"):
        new_folder(None, "data-y", overwrite=True)
