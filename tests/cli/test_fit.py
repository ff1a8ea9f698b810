"""`steinflow fit`: what it finds, what it prints, what it saves."""

import errno
import json
from pathlib import Path

import example_tables as tables
import numpy as np
import pandas
import pytest
from commands import QUICK, steinflow_, write

from steinflow.cli import fit as command
from steinflow.results import files
from steinflow.tables.runs import load_run

FIT = ["fit", "data.csv", "--target", "y", *QUICK]


@pytest.mark.slow
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
    metrics = summary["held_out"]["metrics"]
    assert metrics["rmse"] == pytest.approx(0.5, abs=0.15)
    assert 0.8 <= metrics["coverage_90"] <= 1
    assert metrics["r2"] > 0.9
    assert summary["verdict"]["light"] in ("green", "yellow")


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
    done = steinflow_(*FIT, "--json", "--output", "run", *options)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["model"] == model
    metrics = summary["held_out"]["metrics"]
    if model == "logistic":
        assert metrics["accuracy"] > 0.75
    else:
        assert metrics["rmse"] < tables.counts()["y"].std()
        assert 0.7 <= metrics["coverage_90"] <= 1
    assert steinflow_("report", "run").exit_code == 0
    assert steinflow_("predict", "run", "data.csv").exit_code == 0


def test_the_same_seed_gives_the_same_run(runs):
    done = steinflow_("fit", runs.data, "--target", "y", *QUICK, "--output", "again", "--json")
    assert json.loads(done.stdout)["parameters"] == runs.json["parameters"]


def test_nothing_is_pickled(runs):
    names = sorted(path.name for path in runs.svgd.iterdir() if path.suffix != ".html")
    assert names == ["fitted.npz", "held_out.csv", "result.nc", "run.json", "start.npy"]
    with np.load(runs.svgd / "fitted.npz", allow_pickle=False) as fitted:
        assert {"row", "X", "y"} <= {name for name in fitted if fitted[name].dtype.kind in "if"}
    assert np.load(runs.svgd / "start.npy", allow_pickle=False).dtype == np.float32


def test_missing_values_dropped():
    frame = pandas.concat([tables.numbers(), tables.numbers(10, seed=1)], ignore_index=True)
    frame.loc[60:, "a"] = np.nan
    frame.loc[69, "y"] = np.inf
    write(frame)
    done = steinflow_(*FIT, "--missing", "drop", "--output", "run")
    assert done.exit_code == 0, done.output
    assert "Left out 10 rows" in done.stderr
    data = json.loads(Path("run/run.json").read_text())["data"]
    assert data["num_rows"] + data["num_held_out"] == 60


@pytest.mark.slow
def test_a_million_rows_are_right():
    """From the command line, with nothing set: the posterior of Newton's method on the rows that were fitted."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1_000_000, 4)).astype(np.float32)
    X[:, 3] = generator.random(len(X)) < 0.01  # a rare category
    chance = 1 / (1 + np.exp(0.2 - X @ [1.0, -0.5, 0.0, 0.8]))
    write(pandas.DataFrame(X.round(4), columns=list("abcd")).assign(y=generator.random(len(X)) < chance))
    done = steinflow_("fit", "data.csv", "--target", "y", "--json", "--output", "run")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["verdict"]["light"] == "green", summary["verdict"]
    names = [*"abcd", "intercept"]
    with np.load("run/fitted.npz") as fitted:
        X, y = fitted["X"].astype(float), fitted["y"].astype(float)
    scales = np.where([True, True, True, False], X.std(axis=0), 1.0)  # a column of 0 and 1 is left as it is
    X = np.c_[(X - X.mean(axis=0)) / scales, np.ones(len(X))]
    mean = np.zeros(5)
    for _ in range(10):
        chance = 1 / (1 + np.exp(-X @ mean))
        precision = (X * (chance * (1 - chance))[:, None]).T @ X
        mean = mean + np.linalg.solve(precision, X.T @ (y - chance))
    sds = np.sqrt(np.diag(np.linalg.inv(precision)))
    found = [[summary["parameters"][name][key] for name in names] for key in ("mean", "sd")]
    np.testing.assert_allclose((found[0] - mean) / sds, 0, atol=0.1)
    np.testing.assert_allclose(found[1] / sds, 1, atol=0.05)


@pytest.mark.slow
def test_many_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(100_000, 3)).astype(np.float32)
    frame = pandas.DataFrame(X, columns=list("abc")).assign(y=X @ [1.0, -1.0, 0.0] + generator.normal(size=len(X)) > 0)
    frame.to_parquet("big.parquet")
    done = steinflow_("fit", "big.parquet", "--target", "y", *QUICK, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["settings"]["batch_size"] == 1000
    assert summary["held_out"]["metrics"]["accuracy"] > 0.75
    assert sum(path.stat().st_size for path in Path(summary["run"]).iterdir()) < 5e6


def test_huge_values_are_fitted():
    frame = tables.numbers()
    write(frame.assign(a=frame["a"] * 1e200, y=frame["y"] * 1e250))
    done = steinflow_(*FIT, "--json", "--output", "run")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["held_out"]["metrics"]["r2"] > 0.8
    assert steinflow_("report", "run").exit_code == 0


def test_remarks_about_columns():
    frame = tables.numbers().assign(c=1, d="always")
    frame.loc[0, "a"] = -9e12
    write(frame)
    done = steinflow_(*FIT)
    assert done.exit_code == 0
    assert "-9e+12" in done.stderr
    assert "because constant: 'c', 'd'" in done.stderr


def test_strict():
    write(tables.numbers())
    fit = ["fit", "data.csv", "--target", "y", "--steps", "2", "--particles", "20"]
    assert steinflow_(*fit).exit_code == 0
    assert steinflow_(*fit, "--strict").exit_code == 3


def test_a_model_that_does_not_fit_is_no_matter_of_the_inference():
    frame = tables.numbers()
    write(frame.assign(y=5 * frame["a"] ** 2 + 0.1 * frame["y"]))
    done = steinflow_("fit", "data.csv", "--target", "y", *QUICK, "--strict", "--json")
    values = json.loads(done.stdout)
    assert done.exit_code == 4
    assert values["verdict"]["light"] != "red"
    assert values["model_checks"]["light"] == "red"
    worst = values["model_checks"]["checks"][0]
    assert "'a', which is in the model" in worst["text"]
    assert "bs(a, df=5)" in worst["try"][0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--overwrite"], "add --output FOLDER"),
        (["--family", "gaussian"], "only for formulas"),
        (["--hidden", "10"], "add --model network"),
        (["--hidden", "10", "--model", "linear"], "add --model network"),
        (["--hidden", "ten", "--model", "network"], "such as 50 or 50,20"),
        (["--hidden", "10,0", "--model", "network"], "such as 50 or 50,20"),
        (["--method", "magic"], "magic"),
        (["--particles", "0"], "--particles"),
    ],
)
def test_wrong_usage_has_its_own_code(options, words):
    write(tables.numbers())
    done = steinflow_("fit", "data.csv", "--target", "y", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert [path.name for path in Path().iterdir()] == ["data.csv"]


@pytest.mark.parametrize("option", [["--decimal", ","], ["--separator", ";"], ["--missing-marker", "?"]])
def test_options_about_text_are_refused_for_parquet(option):
    tables.numbers().to_parquet("data.parquet")
    done = steinflow_("fit", "data.parquet", "--target", "y", *option)
    assert done.exit_code == 2
    assert f"Invalid value for {option[0]}" in done.stderr
    assert "only for CSV files" in done.stderr


def test_a_target_is_needed():
    write(tables.numbers())
    assert steinflow_("fit", "data.csv").exit_code == 2


def test_an_output_that_cannot_be_written_is_found_before_the_fit(monkeypatch):
    def run_fit(*args, **kwargs):
        raise AssertionError("the fit has begun")

    monkeypatch.setattr(command, "run_fit", run_fit)
    write(tables.numbers())
    done = steinflow_(*FIT, "--output", "data.csv/run")
    assert done.exit_code == 1
    assert "cannot be written to data.csv/run" in done.stderr
    assert "--output" in done.stderr


@pytest.mark.parametrize("full", [["here"], ["here", "temporary"], ["here", "temporary", "home"]])
def test_a_full_disk_loses_no_fit(runs, tmp_path, monkeypatch, full):
    places = {name: tmp_path / name for name in ("here", "temporary", "home")}
    for place in places.values():
        place.mkdir()
    monkeypatch.setattr(command, "run_fit", lambda *args, **settings: load_run(runs.svgd))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(places["temporary"]))
    monkeypatch.setenv("HOME", str(places["home"]))
    write_bytes = files.write_whole

    def write_where_there_is_space(path, content):
        if any(path.is_relative_to(places[name]) for name in full):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write_bytes(path, content)

    monkeypatch.setattr(files, "write_whole", write_where_there_is_space)
    folder = places["here"] / "run"
    done = steinflow_("fit", runs.data, "--target", "y", "--quiet", "--output", folder)
    assert done.exit_code == 1
    [message] = done.stderr.splitlines()
    assert message.startswith(f"Error: {folder}: No space left on device. ")
    assert not folder.exists()
    kept = [path.parent for path in tmp_path.rglob("result.nc")]
    if len(full) == 3:
        assert message.endswith(". Nothing was written.")
        assert kept == []
    else:
        [place] = kept
        where = f"it is in {place}; use it there, or free some space and move it"
        assert message.endswith(f". The fit is not lost: {where}.")
        assert load_run(place).result.info == load_run(runs.svgd).result.info
