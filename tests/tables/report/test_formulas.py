"""What a report says about a formula."""

import example_tables as tables
import numpy as np
import pytest

import steinflow as sf
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem
from steinflow.tables.report.formulas import effects_of, groups_of, in_words, margin_charts, margins_of


def words(formulas, family="gaussian", **options):
    problem = FormulaProblem(formulas, family, **options)
    return " ".join(in_words(FormulaFit(problem, problem.target(tables.mixed()))))


@pytest.mark.parametrize(
    ("formula", "family", "expected"),
    [
        ("y ~ x + z", "gaussian", "y follows a distribution of the family gaussian; its mean is a sum of effects."),
        ("y ~ x + z", "gaussian", "the same in all rows: x, z."),
        ("count ~ x", "poisson", "its mean, on the scale of the link log, is"),
        ("count ~ x", "hurdle_poisson", "the mean of its count part, on the scale of the link log, is"),
        ("grade ~ x", "cumulative", "the log-odds of a higher class are"),
        ("grade ~ x", "categorical", "the score of each class but the first"),
        (
            "y ~ (1 + x | g)",
            "gaussian",
            "Each of 6 levels of g has its own intercept, x, drawn from a correlated normal",
        ),
        ("y ~ (1 + x || g)", "gaussian", "drawn from a normal distribution"),
        ("count ~ offset(log(trials))", "poisson", "Terms with a fixed slope of 1: offset(log(trials))."),
    ],
)
def test_the_model_in_words(formula, family, expected):
    assert expected in words((formula,), family)


def test_priors_and_other_parameters_in_words():
    assert "those of x were given, the others are weakly informative" in words(("y ~ x",), priors={"x": "Normal(0, 1)"})
    assert "The parameter sigma has its own predictors." in words(("y ~ x", "sigma ~ x"))


def test_effects_and_groups_as_numbers(of_formula):
    fitted = of_formula.estimator
    [effect] = effects_of(fitted)
    assert (effect["first"], effect["second"], effect["response"]) == ("a", "y", "count")
    assert [curve["label"] for curve in effect["curves"]] == ["no", "yes"]
    [group] = groups_of(fitted)
    assert group["title"] == "1|g"
    assert group["mean"] == sorted(group["mean"], reverse=True)
    assert len(group["names"]) == 3
    result = fitted.result_
    means = result.probabilities @ np.asarray(result.particles["1|g"], float)
    np.testing.assert_allclose(group["mean"], np.sort(means)[::-1], rtol=1e-3, atol=1e-4)


def test_codes_are_drawn_as_points(of_flags):
    effects = {effect["first"]: effect for effect in effects_of(of_flags.estimator)}
    assert effects["code"]["levels"] == ["1", "2", "3"]
    assert effects["a"]["levels"] is None
    assert effects["a"]["response"] == "P(y = 1)"


def test_means_and_contrasts_are_those_of_python(of_flags):
    found = margins_of(of_flags.estimator)
    assert set(found["contrasts"]) == {"a", "code", "color"}
    assert set(found["marginal_means"]) == {"code", "color"}
    assert list(found["contrasts"]["code"]) == ["2 - 1", "3 - 1"]
    assert found["contrasts"]["code"] == sf.contrasts(of_flags.result, "code").to_dict("index")
    assert found["marginal_means"]["code"] == sf.marginal_means(of_flags.result, "code").to_dict("index")
    charts = margin_charts(of_flags.estimator)
    assert [chart["title"] for chart in charts[:2]] == ["P(y = 1) by code", "Differences by code"]
    assert [chart["fromZero"] for chart in charts] == [False, True] * 2
    assert charts[0]["names"] == ["1", "2", "3"]
