"""A formula and a table as a run."""

import example_tables as tables
import numpy as np
import pandas
import pytest

from steinflow.models.columns import TableError
from steinflow.models.formulas import FormulaError
from steinflow.tables.formula_problems import FormulaProblem
from steinflow.tables.formulas import (
    _events,
    _held_out,
    _remarks,
    evaluate_formula,
    fit_formula,
    prediction_table,
    priors_from,
)


def test_priors_of_the_command_line():
    assert priors_from(["a = Normal(0, 5)", "b=StudentT(df=3, loc=0, scale=1)"]) == {
        "a": "Normal(0, 5)",
        "b": "StudentT(df=3, loc=0, scale=1)",
    }
    with pytest.raises(FormulaError, match="NAME=DISTRIBUTION"):
        priors_from(["Normal(0, 5)"])


def test_no_text_is_held_out_that_was_never_fitted():
    frame = pandas.DataFrame({"x": np.arange(100.0), "g": ["once"] + ["often"] * 99})
    whole = FormulaProblem(("x ~ g",), "gaussian").target(frame)
    held_out = [_held_out(whole, frame, 0.5, seed)[0] for seed in range(20)]
    assert not any(0 in rows for rows in held_out)
    assert all(49 <= len(rows) <= 50 and np.all(np.diff(rows) > 0) for rows in held_out)
    assert not np.array_equal(held_out[0], held_out[1])


def test_a_run_knows_its_rows_and_its_predictions(of_formula):
    fitted, table = of_formula.estimator, of_formula.held_out
    assert of_formula.data["num_rows"] == 96
    assert len(table) == of_formula.data["num_held_out"] == of_formula.evaluation["num_rows"] == 24
    metrics = of_formula.evaluation["metrics"]
    np.testing.assert_allclose(
        metrics["rmse"], np.sqrt(np.mean((table["truth"] - table["prediction"]) ** 2)), rtol=1e-6
    )
    np.testing.assert_allclose(metrics["log_likelihood"], table["log_likelihood"].mean(), rtol=1e-6)
    assert 0 <= metrics["coverage_90"] <= 1
    rows = fitted.target.about.frame
    again = prediction_table(fitted, rows)
    np.testing.assert_allclose(
        again["prediction"], fitted.target.predict(fitted.result_.particles, weights=fitted.result_.weights), rtol=1e-5
    )
    assert np.all((again["5%"] <= again["prediction"]) & (again["prediction"] <= again["95%"]))
    assert evaluate_formula(fitted, rows)["num_rows"] == 96


@pytest.mark.parametrize(
    ("problem", "changes", "error", "message"),
    [
        (FormulaProblem(("y ~ a",), "gaussian", categorical=("q",)), {}, TableError, "no column 'q'"),
        (FormulaProblem(("y ~ a",), "gaussian"), {"test_fraction": 2.0}, ValueError, "between 0 and 0.9"),
        (FormulaProblem(("b ~ a",), "poisson"), {}, FormulaError, "needs counts"),
        (FormulaProblem(("when ~ a",), "gaussian"), {}, TableError, "dates or times"),
    ],
)
def test_what_is_wrong_is_said_before_the_fit(monkeypatch, problem, changes, error, message):
    monkeypatch.setattr("steinflow.tables.formulas.fit", None)
    frame = tables.numbers().assign(when=[f"2020-01-{k % 28 + 1:02}" for k in range(60)])
    with pytest.raises(error, match=message):
        fit_formula(frame, problem, **changes)


def test_censored_times_are_checked_too():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"x": rng.normal(size=80), "w": rng.integers(1, 3, 80)})
    times, cut_off = rng.exponential(np.exp(frame["x"])), rng.exponential(2, 80)
    frame["t"], frame["event"] = np.minimum(times, cut_off), times <= cut_off
    problem = FormulaProblem(("Surv(t, event) ~ x",), "exponential", weights="w")
    run = fit_formula(frame, problem, num_particles=20, num_steps=60, test_fraction=0, progress=False)
    assert {check["name"] for check in run.checks} == {"events", "residuals"}
    assert run.predictive["kind"] == "times"
    fitted, particles = run.estimator, run.result.particles
    events = _events(fitted, fitted.target.about.frame)
    np.testing.assert_array_equal(events.happened, frame["event"])
    mean = np.exp(np.asarray(particles["Intercept"])[:, None] + np.outer(particles["x"], frame["x"]))
    np.testing.assert_allclose(events.expected, run.result.probabilities @ (frame["t"].to_numpy() / mean), rtol=1e-3)


def test_classes_without_an_order_say_nothing_about_codes():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, 400)
    frame = pandas.DataFrame({"x": x, "y": np.array(["p", "q", "r"])[(x * 5 + (rng.random(400) < 0.1)) % 3]})
    assert _remarks(FormulaProblem(("y ~ x",), "categorical").target(frame)) == []


def test_tables_of_counts_are_fitted_whole_and_checked_by_the_cases():
    """Which an unweighted look would call a misfit: there are as many rows of each class."""
    cells = pandas.DataFrame({"g": list("aabbcc"), "y": [0, 1] * 3, "n": [90, 10, 30, 70, 0, 50], "x": range(6)})
    problem = FormulaProblem(("y ~ g",), "bernoulli", weights="n")
    run = fit_formula(cells, problem, num_particles=20, num_steps=60, progress=False)
    assert (run.data["num_rows"], run.data["num_held_out"]) == (5, 0)
    assert any("No rows are held out" in note for note in run.notes)
    assert any("Left out 1 row of weight 0" in note for note in run.notes)
    assert [(check["name"], check["level"]) for check in run.checks] == [("residuals", "good")]
    evaluation = evaluate_formula(run.estimator, cells[cells["n"] > 0])
    assert evaluation["num_rows"] == 250
    np.testing.assert_allclose(evaluation["metrics"]["accuracy"], (90 + 70 + 50) / 250)


def test_rows_with_other_weights_are_held_out():
    frame = tables.numbers().assign(w=np.linspace(0.5, 1.5, 60))
    run = fit_formula(
        frame, FormulaProblem(("y ~ a",), "gaussian", weights="w"), num_particles=20, num_steps=60, progress=False
    )
    assert run.data["num_held_out"] == 12


def test_many_rows_are_drawn_in_parts(of_formula, monkeypatch):
    fitted = of_formula.estimator
    rows = fitted.target.about.frame
    whole, evaluation = prediction_table(fitted, rows), evaluate_formula(fitted, rows)
    monkeypatch.setattr("steinflow.tables.formulas._BLOCK", 50)
    parts = prediction_table(fitted, rows)
    np.testing.assert_allclose(parts["prediction"], whole["prediction"], rtol=1e-5)
    np.testing.assert_allclose(parts[["5%", "95%"]], whole[["5%", "95%"]], atol=1)
    again = evaluate_formula(fitted, rows)["metrics"]
    assert again["coverage_90"] == pytest.approx(evaluation["metrics"]["coverage_90"], abs=0.02)
