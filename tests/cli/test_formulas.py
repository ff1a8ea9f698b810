"""`steinflow fit --formula` and `steinflow predict` on its run."""

import json

import numpy as np
import pandas
import pytest
import typer
from commands import QUICK, steinflow_, write

from steinflow.cli.formulas import problem_name, problem_of

FORMULA = "count ~ age + treated + (1 | school)"


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    school, age = rng.integers(0, 5, 60), rng.normal(40, 10, 60).round(1)
    treated = rng.choice(["no", "yes"], 60)
    counts = rng.poisson(np.exp(0.5 + 0.02 * age))
    return pandas.DataFrame({"age": age, "treated": treated, "school": [f"s{k}" for k in school], "count": counts})


@pytest.mark.slow
def test_fit_shows_priors_and_predict_says_what_is_new(frame, tmp_path):
    data, folder = write(frame, tmp_path / "data.csv"), tmp_path / "run"
    options = ["--formula", FORMULA, "--family", "poisson", "--prior", "Intercept=Normal(0, 5)", *QUICK]
    done = steinflow_("fit", data, *options, "--output", folder)
    assert done.exit_code == 0, done.output
    assert "Normal(0, 5)" in done.stdout
    assert "5 effects of groups" in " ".join(done.stdout.split())
    assert "On 12 held-out rows" in done.stdout
    new = write(frame.drop(columns="count").assign(school="other").iloc[:3], tmp_path / "new.csv")
    done = steinflow_("predict", folder, new, "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "not seen ('other')" in done.stderr
    table = pandas.read_csv(tmp_path / "out.csv")
    assert list(table) == ["row", "prediction", "5%", "95%"]
    done = steinflow_("predict", folder, new, "--output", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "--overwrite" in done.stderr
    assert np.all((table["5%"] <= table["prediction"]) & (table["prediction"] <= table["95%"]))
    done = steinflow_("predict", folder, data, "--output", tmp_path / "again.csv", "--json")
    assert json.loads(done.stdout)["compared"]["num_rows"] == 60
    held_out = pandas.read_csv(folder / "held_out.csv")
    again = pandas.read_csv(tmp_path / "again.csv")["prediction"].to_numpy()[held_out["row"] - 1]
    np.testing.assert_allclose(again, held_out["prediction"], rtol=1e-4)
    done = steinflow_("compare", folder, folder, "--evidence", "--json")
    evidence, again = json.loads(done.stdout)["evidence"]
    assert evidence == again
    assert evidence["reason"] is None
    assert -5 * 48 < evidence["value"] < -48  # of 48 rows: counts around 4 have a mass of 0.2 at most
    done = steinflow_("report", folder)
    assert done.exit_code == 0, done.output
    assert "Each of 5 levels of school has its own intercept" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_codes_are_remarked_upon_and_may_be_categories(frame, tmp_path):
    codes = frame.assign(school=frame["school"].str[1:].astype(int) + 1)
    data, folder = write(codes, tmp_path / "data.csv"), tmp_path / "run"
    options = ["--formula", "count ~ school", "--family", "poisson", *QUICK, "--json", "--test-fraction", "0"]
    done = steinflow_("fit", data, *options, "--output", tmp_path / "slope")
    assert "--categorical school" in done.stderr
    assert set(json.loads(done.stdout)["parameters"]) == {"Intercept", "school"}
    done = steinflow_("fit", data, *options, "--output", folder, "--categorical", "school")
    parameters = json.loads(done.stdout)["parameters"]
    assert {"school[2]", "school[5]"} <= set(parameters)
    assert set(parameters["school[2]"]) == {"mean", "sd", "5%", "50%", "95%", "mean_per_unit"}
    done = steinflow_("predict", folder, data, "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--formula", "count ~ agee"], "Did you mean 'age'", 1),
        (["--formula", "count ~ age + "], "error at its end", 1),
        (["--formula", FORMULA, "--family", "beta"], "strictly between 0 and 1", 1),
        (["--formula", "count ~ price"], "add --decimal ','", 1),
        (["--formula", "count ~ visit"], "holds dates or times", 1),
        (["--formula", FORMULA, "--prior", "age"], "NAME=DISTRIBUTION", 1),
        (["--formula", FORMULA, "--target", "count"], "either --target COLUMN", 2),
        (["--formula", FORMULA, "--drop", "age"], "the formula chooses the columns", 2),
        (["--formula", "count ~ age", "--missing", "mean"], "there is no --missing mean", 2),
        (["--formula", "count ~ age", "--categorical", "school"], "The formula does not use 'school'", 1),
        (["--target", "count", "--prior", "age=Normal(0, 1)"], "only for formulas", 2),
        (["--target", "count", "--family", "poisson"], "only for formulas", 2),
        ([], "either --target COLUMN", 2),
    ],
)
def test_misuse_ends_with_a_sentence_and_writes_nothing(frame, tmp_path, options, message, code):
    frame = frame.assign(price=[f"{k},5" for k in range(60)], visit="2020-01-05")
    data, folder = write(frame, tmp_path / "data.csv"), tmp_path / "run"
    done = steinflow_("fit", data, *options, "--output", folder)
    assert done.exit_code == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not folder.exists()


def test_missing_values_of_new_rows(frame, tmp_path):
    data, folder = write(frame, tmp_path / "data.csv"), tmp_path / "run"
    formula = "count ~ age + treated"
    done = steinflow_("fit", data, "--formula", formula, "--family", "poisson", *QUICK, "-o", folder, "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert (about["formula"], about["family"], about["link"]) == ([formula], "poisson", "log")
    assert set(about["priors"]) == {"Intercept", "age", "treated[yes]"}
    assert [effect["first"] for effect in about["conditional_effects"]] == ["age", "treated"]
    assert list(about["contrasts"]["treated"]) == ["yes - no"]
    assert list(about["marginal_means"]["treated"]) == ["no", "yes"]
    assert about["prior_predictive"]["kind"] == "counts"
    new = frame.iloc[:5].copy()
    new.loc[1, "age"], new.loc[2, "treated"], new.loc[3, "count"] = None, None, None
    predict = ["predict", folder, write(new, tmp_path / "new.csv"), "--overwrite", "-o", tmp_path / "out.csv", "--json"]
    assert "Add --missing mean" in steinflow_(*predict).stderr
    for missing, gaps, known in (("drop", [1, 2], 2), ("mean", [], 4)):
        done = steinflow_(*predict, "--missing", missing)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["compared"]["num_rows"] == known
        assert pandas.read_csv(tmp_path / "out.csv")["prediction"].isna().to_numpy().nonzero()[0].tolist() == gaps
    write(new.iloc[1:3].assign(age=None), tmp_path / "new.csv")
    assert "No row of new.csv is complete" in steinflow_(*predict, "--missing", "drop").stderr


def test_missing_text_as_a_level(frame, tmp_path):
    gaps = frame.assign(treated=frame["treated"].where(np.arange(60) % 4 > 0, None))
    gaps.loc[1, "age"] = None
    data, folder = write(gaps, tmp_path / "data.csv"), tmp_path / "run"
    options = ["--formula", "count ~ age + treated", "--family", "poisson", "--missing", "level", *QUICK]
    done = steinflow_("fit", data, *options, "-o", folder, "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["data"]["num_rows"] + about["data"]["num_held_out"] == 59
    assert {"treated[yes]", "treated[missing]"} <= set(about["parameters"])
    assert any("'treated' are a level of their own" in note for note in about["notes"])
    done = steinflow_("predict", folder, data, "-o", tmp_path / "out.csv", "--missing", "drop", "--json")
    assert done.exit_code == 0, done.output
    assert pandas.read_csv(tmp_path / "out.csv")["prediction"].isna().to_numpy().nonzero()[0].tolist() == [1]
    held_out = pandas.read_csv(folder / "held_out.csv")
    again = pandas.read_csv(tmp_path / "out.csv")["prediction"].to_numpy()[held_out["row"] - 1]
    np.testing.assert_allclose(again, held_out["prediction"], rtol=1e-4)


def test_options_of_a_formula():
    assert problem_of(None, None, None, None, None, None, None) is None
    problem = problem_of(["y ~ x", "sigma ~ x"], "t", "log", ["x=Normal(0, 1)"], "w", ["g"], "level")
    assert problem.formulas == ("y ~ x", "sigma ~ x")
    assert (problem.family, problem.link, problem.weights, problem.missing) == ("t", "log", "w", "level")
    assert problem_of(["y ~ x"], None, None, None, None, None, None).missing == "drop"
    assert (problem.priors, problem.categorical) == ({"x": "Normal(0, 1)"}, ("g",))
    assert problem_name(problem) == "y"
    assert problem_name(None) == ""


@pytest.mark.parametrize(
    "options", [("t", None, None, None), ("gaussian", "log", None, None), ("gaussian", None, None, "w")]
)
def test_options_that_are_only_for_formulas(options):
    family, link, priors, weights = options
    with pytest.raises(typer.BadParameter, match="only for formulas"):
        problem_of(None, family, link, priors, weights, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("test_fraction", ["0.2", "0"])
def test_classes_may_be_numbers(frame, tmp_path, test_fraction):
    classes = frame.assign(count=frame["count"] % 4)
    data, folder = write(classes, tmp_path / "data.csv"), tmp_path / "run"
    options = ["--formula", "count ~ age", "--family", "cumulative", *QUICK, "--test-fraction", test_fraction]
    done = steinflow_("fit", data, *options, "--output", folder)
    assert done.exit_code == 0, done.output
    other = write(classes.assign(count=classes["count"].where(frame.index > 1, 9)), tmp_path / "other.csv")
    done = steinflow_("predict", folder, other, "--output", tmp_path / "out.csv", "--json")
    assert json.loads(done.stdout)["compared"]["num_rows"] == 58  # two of a class never seen
    assert list(pandas.read_csv(tmp_path / "out.csv"))[2:] == ["P(0)", "P(1)", "P(2)", "P(3)"]
    assert steinflow_("report", folder).exit_code == 0
