"""The command line: it fits, predicts, compares and explains; whatever is wrong ends in a sentence and an exit code."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pandas
import pytest
import tables
import typer
from typer.testing import CliRunner

import steinflow
from steinflow.caches import compiled_folder
from steinflow.cli import main
from steinflow.cli.app import app
from steinflow.cli.console import clear_errors
from steinflow.cli.predict import _shown
from steinflow.result import Result
from steinflow.tabular import fitting

# The same numbers of rows and particles wherever possible, so that most fits share their compiled code.
QUICK = ["--steps", "150", "--particles", "40"]
BRIEF = ["--steps", "5", "--particles", "40"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def steinflow_(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(frame, name="data.csv", **options):
    frame.to_csv(name, index=False, **options)
    return name


@pytest.fixture(scope="module")
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


# ---- what it does ----


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


# ---- what can be wrong ----


def with_text(**columns):
    return lambda: write(tables.numbers().assign(**columns))


def raw(content, name="data.csv"):
    return lambda: (Path(name).write_bytes(content), name)[1]


def missing():
    frame = tables.numbers()
    frame.loc[:6, "a"] = np.nan
    frame.loc[5, "b"] = np.inf
    return write(frame)


MISUSE = {
    "no file": (lambda: "nowhere.csv", [], "There is no file nowhere.csv"),
    "a folder": (lambda: ".", [], "is a folder"),
    "empty": (raw(b""), [], "is empty"),
    "header only": (raw(b"a,b,y\n"), [], "no rows"),
    "spreadsheet": (raw(b"PK\0\0", "data.xlsx"), [], "neither CSV nor Parquet"),
    "not parquet": (raw(b"hello", "data.parquet"), [], "not a Parquet file"),
    "ragged": (raw(b"a,b,y\n1,2,3\n1,2,3,4,5\n"), [], "line 3"),
    "latin-1": (raw("a,y\né,1\n".encode("latin-1")), [], "byte 0xe9 in line 2"),
    "utf-16": (raw("a,y\n1,1\n".encode("utf-16")), [], "--encoding utf-16"),
    "wrong encoding": (with_text(), ["--encoding", "klingon"], "no encoding 'klingon'"),
    "wrong column": (with_text(), ["--target", "Y"], "Did you mean 'y'?"),
    "wrong drop": (with_text(), ["--drop", "q"], "no column 'q'"),
    "free text": (with_text(name=[f"n{k}" for k in range(60)]), [], "--drop 'name'"),
    "numbers with odd cells": (with_text(a=["?", *map(str, range(59))]), [], "--missing-marker '?'"),
    "decimal commas": (with_text(a=[f"{k},5" for k in range(60)]), [], "--decimal ','"),
    "dates": (with_text(d=[f"2020-01-{k % 28 + 1:02}" for k in range(60)]), [], "dates or times"),
    "missing values": (missing, [], "7 of 60 rows have missing or infinite values, in 'a' (7), 'b' (1)"),
    "one row": (lambda: write(tables.numbers(1)), [], "has 1 row;"),
    "constant features": (with_text(a=1, b=2), [], "constant: 'a', 'b'"),
    "constant target": (with_text(y=3), ["--model", "linear"], "nothing to predict"),
    "one class": (with_text(y="yes"), [], "one class, 'yes'"),
    "too many classes": (with_text(y=[f"c{k}" for k in range(60)]), [], "too many for classes"),
    "classes of numbers": (with_text(), ["--model", "logistic"], "--model linear"),
    "text for linear": (with_text(y=["u", "v"] * 30), ["--model", "linear"], "--model logistic"),
    "negative counts": (with_text(), ["--model", "poisson"], "predicts counts"),
    "too huge": (with_text(a=[1e305, *range(59)]), [], "beyond 1e+300"),
    "same name twice": (raw(b"a,a ,y\n1,2,3\n"), [], "several columns of the same name"),
    "hidden": (with_text(), ["--model", "network", "--hidden", "ten"], "--hidden lists"),
    "test fraction": (with_text(), ["--test-fraction", "2"], "between 0 and 0.9"),
    "target dropped": (with_text(), ["--drop", "y"], "cannot be left out"),
    "taken folder": (with_text(), ["--output", "."], "exists already"),
    "never replaced": (with_text(), ["--output", ".", "--overwrite"], "is not replaced"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_ends_in_a_sentence(case):
    make, options, words = MISUSE[case]
    data = make()
    before = sorted(Path().rglob("*"))
    target = [] if "--target" in options else ["--target", "y"]
    done = steinflow_("fit", data, *target, *options)
    assert done.exit_code == 1, done.output
    assert words in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.output
    assert sorted(Path().rglob("*")) == before  # nothing written


def test_wrong_usage_has_its_own_code():
    write(tables.numbers())
    assert steinflow_("fit", "data.csv").exit_code == 2
    assert steinflow_("fit", "data.csv", "--target", "y", "--method", "magic").exit_code == 2
    assert steinflow_("fit", "data.csv", "--target", "y", "--particles", "0").exit_code == 2


@pytest.mark.parametrize("command", ["report", "predict", "compare"])
def test_what_is_not_a_run(command):
    write(tables.numbers())
    Path("broken").mkdir()
    Path("broken/run.json").write_text("{}")
    Path("broken/result.nc").write_text("")
    for folder, words in (("nowhere", "There is no run"), (".", "is not a run"), ("broken", "is damaged")):
        more = {"predict": ["data.csv"], "compare": [folder]}.get(command, [])
        done = steinflow_(command, folder, *more)
        assert done.exit_code == 1
        assert words in done.stderr


def test_debug_shows_the_traceback():
    done = steinflow_("fit", "nowhere.csv", "--target", "y", "--debug")
    assert isinstance(done.exception, ValueError)


def test_strict():
    write(tables.numbers())
    fit = ["fit", "data.csv", "--target", "y", "--steps", "2", "--particles", "40"]
    assert steinflow_(*fit).exit_code == 0
    assert steinflow_(*fit, "--strict").exit_code == 3


# ---- interrupted ----


def test_interrupted_fit_keeps_the_particles(monkeypatch):
    def interrupt(history):
        if len(history["step"]) >= 5:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(fitting, "_settled", interrupt)
    write(tables.numbers())
    done = steinflow_("fit", "data.csv", "--target", "y", "--steps", "200", "--particles", "40", "--output", "run")
    assert done.exit_code == 130
    assert "Interrupted at step 5 of 200" in done.stderr
    assert steinflow_("report", "run").exit_code == 0  # the run is whole


@pytest.mark.parametrize("place", ["reading", "saving"])
def test_interrupted_elsewhere_writes_nothing(monkeypatch, place):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    if place == "reading":
        monkeypatch.setattr(pandas, "read_csv", interrupt)
    else:
        monkeypatch.setattr(Result, "save", interrupt)
    write(tables.numbers())
    done = steinflow_("fit", "data.csv", "--target", "y", *BRIEF, "--output", "out/run")
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr
    assert [path for path in Path().rglob("*") if path.is_file()] == [Path("data.csv")]


def test_a_failed_replacement_leaves_the_old_run(runs, monkeypatch):
    folder, _ = runs
    before = {path.name: path.read_bytes() for path in (folder / "other").iterdir()}

    def fail(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Result, "save", fail)
    fit = ["fit", folder / "data.csv", "--target", "y", *BRIEF]
    done = steinflow_(*fit, "--output", folder / "other", "--overwrite")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert {path.name: path.read_bytes() for path in (folder / "other").iterdir()} == before
    assert not list(folder.glob(".*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_in_a_real_process():
    write(tables.numbers())
    command = [sys.executable, "-m", "steinflow.cli", "fit", "data.csv", "--target", "y", "--output", "run"]
    with subprocess.Popen(
        [*command, "--steps", "100000000", "--method", "sgld"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(steinflow.__file__).parents[1])},
    ) as process:
        assert process.stderr is not None
        while "held out" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, out + err
    assert "Interrupted" in err
    assert "Traceback" not in err
    names = {path.name for path in Path().iterdir()}
    assert names in ({"data.csv"}, {"data.csv", "run"})


# ---- the rest ----


def test_help_reads_like_a_manual():
    text = steinflow_("--help").stdout
    for command in ("fit", "predict", "report", "compare", "demo", "reproduce", "benchmark"):
        assert command in text
        assert steinflow_(command, "--help").exit_code == 0
    assert "Exit codes" in text
    assert steinflow_("--version").stdout.strip() == f"steinflow {steinflow.__version__}"


def test_help_flows_with_the_terminal():
    text = CliRunner(env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"}).invoke(app, ["fit", "--help"]).stdout
    assert "<bool>" not in text  # options without a value do not ask for one
    words = " ".join(text.split())
    assert "A part of the rows is held out, and the posterior" in words
    short = [line for line in text.splitlines() if line.strip() == "the rows is held"]
    assert short == []


@pytest.fixture
def cache_of_jax():
    """Set where JAX keeps compiled code; put back at the end."""
    before = compiled_folder()
    yield lambda folder: jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_compilation_cache_dir", before)


def test_compiled_code_is_kept_in_the_cache_of_the_user(cache_of_jax, monkeypatch, here):
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    cache_of_jax(None)
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() == str(here / "steinflow" / "compiled")


def test_compiled_code_is_kept_where_the_user_says(cache_of_jax, here):
    cache_of_jax(str(here / "mine"))  # what JAX_COMPILATION_CACHE_DIR does
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() == str(here / "mine")


def test_a_user_without_a_home(cache_of_jax, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache_of_jax(None)
    assert steinflow_("reproduce", "--list").exit_code == 0
    assert compiled_folder() is None


def test_nothing_is_pickled(runs):
    folder, _ = runs
    assert sorted(path.name for path in (folder / "svgd").iterdir()) == [
        "held_out.csv",
        "result.nc",
        "run.json",
        "start.npy",
    ]
    assert np.load(folder / "svgd" / "start.npy", allow_pickle=False).dtype == np.float32


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


def test_without_typer_it_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "steinflow.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=re.escape("pip install 'steinflow[cli]'")):
        main()


def test_demo_types_commands_that_exist(monkeypatch):
    called = []
    monkeypatch.setattr("steinflow.cli.tours._called", lambda app, arguments: called.append(arguments) and 0)
    assert steinflow_("demo", "--output", "demo").exit_code == 0
    assert [arguments[0] for arguments in called] == ["fit", "report"]
    assert {"radius", "texture", "diagnosis"} <= set(pandas.read_csv("demo/tumours.csv").columns)


@pytest.mark.parametrize(("error", "code"), [(typer.Exit(3), 3), (KeyboardInterrupt(), 130), (RuntimeError("x"), 1)])
def test_every_end_has_its_code(error, code):
    def end():
        raise error

    one = typer.Typer()
    one.command()(clear_errors(end))
    done = CliRunner().invoke(one, [])
    assert done.exit_code == code
    assert "Traceback" not in done.output
