"""`steinflow predict`."""

import json
from pathlib import Path

import example_tables as tables
import numpy as np
import pandas
from commands import steinflow_, write

from steinflow.cli.predict import _shown


def test_predict_gives_what_fit_saw(runs):
    done = steinflow_("predict", runs.svgd, runs.data, "--output", "out.csv", "--json")
    assert done.exit_code == 0, done.output
    table = pandas.read_csv("out.csv")
    assert len(table) == 120
    np.testing.assert_allclose(table["P(no)"] + table["P(yes)"], 1, rtol=1e-6)
    held_out = pandas.read_csv(runs.svgd / "held_out.csv")
    again = table["P(yes)"].to_numpy()[held_out["row"] - 1]
    np.testing.assert_allclose(again, held_out["P(yes)"], rtol=1e-12)
    assert json.loads(done.stdout)["compared"]["num_rows"] == 120


def test_what_a_person_sees(runs):
    done = steinflow_("predict", runs.svgd, runs.data)
    assert "y, the first rows" in done.stdout
    assert "On 120 rows with known answers" in done.stdout
    assert "120 predictions are in data-predictions.csv" in done.stdout
    done = steinflow_("predict", runs.svgd, runs.data)
    assert "120 predictions are in data-predictions-2.csv" in done.stdout  # nothing is replaced
    done = steinflow_("predict", runs.svgd, runs.data, "--output", "data-predictions.csv")
    assert done.exit_code == 1
    assert "already exists" in done.stderr
    assert steinflow_("predict", runs.svgd, runs.data, "--output", "data-predictions.csv", "--overwrite").exit_code == 0


def test_nothing_is_there_to_replace(runs):
    done = steinflow_("predict", runs.svgd, runs.data, "--overwrite")
    assert done.exit_code == 2
    assert "replaces the --output file" in done.stderr
    assert not list(Path().iterdir())


def test_the_table_is_not_replaced_by_its_predictions(runs):
    frame = tables.two_classes()
    write(frame, "new.csv")
    done = steinflow_("predict", runs.svgd, "new.csv", "--output", "./new.csv", "--overwrite")
    assert done.exit_code == 2
    assert "the table itself" in done.stderr
    assert len(pandas.read_csv("new.csv").columns) == len(frame.columns)


def test_many_classes_fit_on_a_screen():
    probabilities = {"P(a)": [0.6, 0.2], "P(b)": [0.3, 0.7], "P(c)": [0.1, 0.1]}
    frame = pandas.DataFrame({"row": [1, 2], "prediction": ["a", "b"], **probabilities})
    assert _shown(frame) is frame
    many = _shown(frame.assign(d=0.0))
    assert many.to_dict("list") == {"row": [1, 2], "prediction": ["a", "b"], "probability": [0.6, 0.7]}


def test_without_target_and_with_values_never_seen(runs):
    frame = tables.two_classes().drop(columns="y").assign(color="violet")
    write(frame.iloc[::-1], "new.csv")
    done = steinflow_("predict", runs.svgd, "new.csv")
    assert done.exit_code == 0
    assert "'violet'" in done.stderr
    assert "known answers" not in done.stdout
    assert len(pandas.read_csv("new-predictions.csv")) == 120


def test_rows_with_other_classes_are_not_compared(runs):
    frame = tables.two_classes()
    frame.loc[:9, "y"] = "perhaps"
    write(frame, "new.csv")
    done = steinflow_("predict", runs.svgd, "new.csv", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["compared"]["num_rows"] == 110


def test_missing_values(runs):
    frame = tables.two_classes().drop(columns="y")
    frame.loc[3, "a"] = np.nan
    write(frame, "new.csv")
    assert "1 of 120 rows" in steinflow_("predict", runs.svgd, "new.csv").stderr
    assert steinflow_("predict", runs.svgd, "new.csv", "--missing", "drop").exit_code == 0
    assert pandas.read_csv("new-predictions.csv")["P(yes)"].isna().to_numpy().nonzero()[0].tolist() == [3]
    assert steinflow_("predict", runs.svgd, "new.csv", "--missing", "mean").exit_code == 0
    assert pandas.read_csv("new-predictions-2.csv")["P(yes)"].notna().all()


def test_columns_are_needed(runs):
    write(tables.two_classes().rename(columns={"a": "A"}), "new.csv")
    done = steinflow_("predict", runs.svgd, "new.csv")
    assert done.exit_code == 1
    assert "no column 'a' in new.csv. Did you mean 'A'?" in done.stderr
    write(tables.two_classes().assign(a="many"), "new.csv")
    assert "held numbers when the model was fitted" in steinflow_("predict", runs.svgd, "new.csv").stderr


def test_a_folder_is_no_file_to_write(runs):
    done = steinflow_("predict", runs.svgd, runs.data, "--output", ".")
    assert done.exit_code == 1
    assert "give the name of a file. Nothing was written." in done.stderr
