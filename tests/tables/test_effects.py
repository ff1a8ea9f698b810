"""What coefficients are effects on."""

import example_tables as tables
import pytest

from steinflow.tables.effects import about_effects, about_others
from steinflow.tables.fitting import prepare
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem


class Unfitted:
    """A run, as far as its model goes."""

    def __init__(self, problem, target=None):
        self.regression = (problem, None)
        self.estimator = FormulaFit(problem, target) if isinstance(problem, FormulaProblem) else None


@pytest.mark.parametrize(
    ("frame", "model", "expected"),
    [
        (tables.numbers, None, "'y'"),
        (tables.counts, "poisson", "the logarithm of the mean of 'y'"),
        (tables.two_classes, None, "the log-odds of 'y' being 'yes'"),
        (tables.three_classes, None, "the score of each class of 'y'"),
    ],
)
def test_effects_on_columns(frame, model, expected):
    assert about_effects(Unfitted(prepare(frame(), "y", model=model).problem)) == expected


@pytest.mark.parametrize(
    ("formula", "family", "link", "expected"),
    [
        ("y ~ x", "gaussian", None, "'y'"),
        ("positive ~ x", "gaussian", "log", "the logarithm of the mean of 'positive'"),
        ("positive ~ x", "lognormal", None, "the logarithm of 'positive'"),
        ("positive ~ x", "gamma", "identity", "'positive'"),
        ("count ~ x", "poisson", None, "the logarithm of the mean of 'count'"),
        ("count ~ x", "zero_inflated_poisson", None, "the logarithm of the mean of the count part of 'count'"),
        ("count ~ x", "hurdle_negbinomial", None, "the logarithm of the mean of the count part of 'count'"),
        ("yes ~ x", "bernoulli", None, "the log-odds of 'yes'"),
        ("z['b'] ~ x", "bernoulli", "probit", "the probit of 'z' being 'b'"),
        ("yes ~ x", "bernoulli", "cloglog", "the cloglog of 'yes'"),
        ("p(yes, trials) ~ x", "binomial", None, "the log-odds of success in 'p(yes, trials)'"),
        ("grade ~ x", "cumulative", None, "the log-odds of a higher class of 'grade'"),
        ("grade ~ x", "categorical", None, "the score of each class of 'grade', against the first one"),
    ],
)
def test_effects_in_formulas(formula, family, link, expected):
    problem = FormulaProblem((formula,), family, link)
    assert about_effects(Unfitted(problem, problem.target(tables.mixed()))) == expected


@pytest.mark.parametrize(
    ("formulas", "family", "expected"),
    [
        (("y ~ x",), "gaussian", ""),
        (("y ~ x", "sigma ~ x"), "gaussian", "; sigma_... on the logarithm of sigma"),
        (("count ~ x", "zi ~ x"), "zero_inflated_poisson", "; zi_... on the log-odds of zi"),
    ],
)
def test_effects_on_further_parameters(formulas, family, expected):
    problem = FormulaProblem(formulas, family)
    assert about_others(Unfitted(problem, problem.target(tables.mixed()))) == expected
