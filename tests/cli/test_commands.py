"""The command line fits, predicts and compares."""

import json
import re
from pathlib import Path

import example_tables as tables
import numpy as np
import pandas
import pytest
from commands import BRIEF, QUICK, steinflow_, write

from steinflow.cli.predict import _shown


def test_linear_regression_finds_coefficients_and_noise():
    write(tables.numbers(num_rows=300))
    done = steinflow_("fit", "data.csv", "--target", "y", "--json", "--output", "run", "--particles", 40)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    found = summary["parameters"]
    sd = tables.numbers(num_rows=300)[["a", "b"]].std(ddof=0)
    assert summary["model"] == "linear"
    # Least squares knows mean and sd of these posteriors: the noise is 0.5, the features are uncorrelated.
    error = 0.5 / np.sqrt(240)
    assert found["a"]["mean"] == pytest.approx(2 * sd["a"], abs=4 * error)
    assert found["b"]["mean"] == pytest.approx(-0.2 * sd["b"], abs=4 * error)
    assert found["a"]["sd"] == pytest.approx(error, rel=0.25)
    assert found["noise sd"]["mean"] == pytest.approx(0.5, abs=0.1)
    assert found["intercept"]["mean"] == pytest.approx(10, abs=0.2)
    figures = summary["held_out"]["metrics"]
    assert figures["rmse"] == pytest.approx(0.5, abs=0.15)
    assert 0.8 <= figures["coverage_90"] <= 1
    assert figures["r2"] > 0.9
    assert summary["verdict"]["light"] in ("green", "yellow")


def test_json_of_a_classification(runs):
    _, summary = runs
    assert summary["model"] == "logistic"
    assert summary["held_out"]["metrics"]["accuracy"] > summary["held_out"]["metrics"]["accuracy_of_guessing"]
    assert 0 <= summary["held_out"]["metrics"]["calibration_error"] < 0.3
    assert np.sum(summary["held_out"]["confusion"]) == summary["held_out"]["num_rows"] == 24
    assert summary["parameters"]["a"]["mean"] > 1
    assert "color = red" in summary["parameters"] or "color = green" in summary["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "options", "model"),
    [
        (tables.three_classes, [], "logistic"),
        (tables.counts, ["--model", "poisson"], "poisson"),
        (tables.numbers, ["--model", "network", "--hidden", "5"], "network"),
    ],
)
def test_other_models(table, options, model):
    write(table())
    done = steinflow_("fit", "data.csv", "--target", "y", "--json", "--output", "run", *QUICK, *options)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["model"] == model
    figures = summary["held_out"]["metrics"]
    if model == "logistic":
        assert figures["accuracy"] > 0.75
    else:
        assert figures["rmse"] < tables.counts()["y"].std()
        assert 0.7 <= figures["coverage_90"] <= 1
    assert steinflow_("report", "run").exit_code == 0


def test_what_a_person_sees(runs):
    folder, _ = runs
    done = steinflow_("fit", folder / "data.csv", "--target", "y", *QUICK, "--output", "run")
    assert done.exit_code == 0
    assert "Logistic regression: 'y' has two different values" in done.stderr
    for words in ("Posterior", "On 24 rows held out", "accuracy", "steinflow report run"):
        assert words in done.stdout
    assert re.search("good|doubtful|bad", done.stdout)
    assert "\x1b" not in done.stdout


def test_the_same_seed_gives_the_same_run(runs):
    folder, summary = runs
    done = steinflow_("fit", folder / "data.csv", "--target", "y", *QUICK, "--output", "again", "--json")
    assert json.loads(done.stdout)["parameters"] == summary["parameters"]


def test_predict_gives_what_fit_saw(runs):
    folder, _ = runs
    done = steinflow_("predict", folder / "svgd", folder / "data.csv", "--output", "out.csv", "--json")
    assert done.exit_code == 0, done.output
    table = pandas.read_csv("out.csv")
    assert len(table) == 120
    np.testing.assert_allclose(table["P(no)"] + table["P(yes)"], 1, rtol=1e-6)
    held_out = pandas.read_csv(folder / "svgd" / "held_out.csv")
    again = table["P(yes)"].to_numpy()[held_out["row"] - 1]
    np.testing.assert_allclose(again, held_out["P(yes)"], rtol=1e-5)
    assert json.loads(done.stdout)["compared"]["num_rows"] == 120


def test_many_classes_fit_on_a_screen():
    frame = pandas.DataFrame({"prediction": ["a", "b"], "P(a)": [0.6, 0.2], "P(b)": [0.3, 0.7], "P(c)": [0.1, 0.1]})
    assert _shown(frame) is frame
    many = _shown(frame.assign(d=0.0))
    assert many.to_dict("list") == {"prediction": ["a", "b"], "probability": [0.6, 0.7]}


def test_predict_without_target_and_with_values_never_seen(runs):
    folder, _ = runs
    frame = tables.two_classes().drop(columns="y").assign(color="violet")
    write(frame.iloc[::-1], "new.csv")
    done = steinflow_("predict", folder / "svgd", "new.csv")
    assert done.exit_code == 0
    assert "'violet'" in done.stderr
    assert len(pandas.read_csv("new-predictions.csv")) == 120


def test_predict_with_missing_values(runs):
    folder, _ = runs
    frame = tables.two_classes().drop(columns="y")
    frame.loc[3, "a"] = np.nan
    write(frame, "new.csv")
    assert "1 of 120 rows" in steinflow_("predict", folder / "svgd", "new.csv").stderr
    assert steinflow_("predict", folder / "svgd", "new.csv", "--missing", "drop").exit_code == 0
    assert pandas.read_csv("new-predictions.csv")["P(yes)"].isna().to_numpy().nonzero()[0].tolist() == [3]
    assert steinflow_("predict", folder / "svgd", "new.csv", "--missing", "mean").exit_code == 0
    assert pandas.read_csv("new-predictions.csv")["P(yes)"].notna().all()


def test_predict_needs_the_columns(runs):
    folder, _ = runs
    write(tables.two_classes().rename(columns={"a": "A"}), "new.csv")
    done = steinflow_("predict", folder / "svgd", "new.csv")
    assert done.exit_code == 1
    assert "no column 'a' in new.csv. Did you mean 'A'?" in done.stderr
    write(tables.two_classes().assign(a="many"), "new.csv")
    assert "held numbers when the model was fitted" in steinflow_("predict", folder / "svgd", "new.csv").stderr


def test_compare(runs):
    folder, _ = runs
    done = steinflow_("compare", folder / "svgd", folder / "other")
    assert done.exit_code == 0
    assert "log-likelihood" in done.stdout
    assert "not comparable" in done.stderr  # another seed holds out other rows
    values = json.loads(steinflow_("compare", folder / "svgd", folder / "svgd", "--json").stdout)
    assert values["comparable"]


def test_parquet_and_other_separators_give_the_same():
    frame = tables.numbers()
    frame.to_parquet("data.parquet")
    write(frame, "semicolons.csv", sep=";", decimal=",", encoding="utf-16")
    fit = ["--target", "y", *BRIEF, "--json"]
    one = steinflow_("fit", "data.parquet", *fit)
    two = steinflow_("fit", "semicolons.csv", *fit, "--encoding", "utf-16", "--decimal", ",")
    assert one.exit_code == two.exit_code == 0, one.output + two.output
    one, two = (json.loads(done.stdout)["parameters"]["a"]["mean"] for done in (one, two))
    assert one == pytest.approx(two, rel=1e-4)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["data-y", "semicolons-y"]


def test_missing_values_dropped():
    frame = pandas.concat([tables.numbers(), tables.numbers(10, seed=1)], ignore_index=True)
    frame.loc[60:, "a"] = np.nan
    frame.loc[69, "y"] = np.inf
    write(frame)
    done = steinflow_("fit", "data.csv", "--target", "y", *BRIEF, "--missing", "drop", "--output", "run")
    assert done.exit_code == 0, done.output
    assert "Left out 10 rows" in done.stderr
    assert json.loads(Path("run/run.json").read_text())["data"]["num_rows"] == 48


def test_a_million_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1_000_000, 3)).astype(np.float32)
    frame = pandas.DataFrame(X, columns=list("abc")).assign(y=X @ [1.0, -1.0, 0.0] + generator.normal(size=len(X)) > 0)
    frame.to_parquet("big.parquet")
    done = steinflow_(
        "fit",
        "big.parquet",
        "--target",
        "y",
        "--steps",
        "200",
        "--particles",
        "20",
        "--test-fraction",
        "0.02",
        "--json",
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["settings"]["batch_size"] == 1000
    assert summary["held_out"]["metrics"]["accuracy"] > 0.75
    assert sum(path.stat().st_size for path in Path(summary["run"]).iterdir()) < 5e6


def test_huge_values_are_fitted():
    frame = tables.numbers()
    write(frame.assign(a=frame["a"] * 1e200, y=frame["y"] * 1e250))
    done = steinflow_("fit", "data.csv", "--target", "y", *QUICK, "--json", "--output", "run")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["held_out"]["metrics"]["r2"] > 0.8
    assert steinflow_("report", "run").exit_code == 0


def test_far_out_values_are_remarked():
    frame = tables.numbers()
    frame.loc[0, "a"] = -9e12
    write(frame)
    done = steinflow_("fit", "data.csv", "--target", "y", *BRIEF)
    assert done.exit_code == 0
    assert "-9e+12" in done.stderr


def test_constant_columns_are_left_out():
    write(tables.numbers().assign(c=1, d="always"))
    done = steinflow_("fit", "data.csv", "--target", "y", *BRIEF)
    assert "because constant: 'c', 'd'" in done.stderr
