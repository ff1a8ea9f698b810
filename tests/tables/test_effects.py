"""What coefficients are effects on, in words."""

from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from steinflow.tables.effects import about_effects, about_others
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame({"x": RNG.normal(size=40), "y": RNG.poisson(2, 40), "z": RNG.normal(size=40)})


@pytest.mark.parametrize(
    ("formulas", "family", "effects", "others"),
    [
        (("z ~ x",), "gaussian", "'z'", ""),
        (("z ~ x", "sigma ~ x"), "gaussian", "'z'", "; sigma_... on the logarithm of sigma"),
        (("y ~ x",), "poisson", "the logarithm of the mean of 'y'", ""),
        (
            ("y ~ x", "zi ~ x"),
            "zero_inflated_poisson",
            "the logarithm of the mean of the count part of 'y'",
            "; zi_... on the log-odds of zi",
        ),
        (("y ~ x",), "hurdle_negbinomial", "the logarithm of the mean of the count part of 'y'", ""),
    ],
)
def test_in_words(formulas, family, effects, others):
    problem = FormulaProblem(formulas, family)
    run = SimpleNamespace(estimator=FormulaFit(problem, problem.target(FRAME)))
    assert about_effects(run) == effects
    assert about_others(run) == others
