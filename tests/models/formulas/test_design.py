"""Design matrices: of the rows to fit and of others, and what there is to remark about them."""

import numpy as np
import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError


@pytest.mark.parametrize("term", ["bs(t, df=4)", "poly(t, 2)", "{t / 2}", "np.where(t > 0.5, 1, 0)"])
def test_functions_take_numbers(table, term):
    target = sf.formula(f"y ~ {term} + x", table)
    assert target.rows(table[:2])["predictors"]["mu"]["X"].shape[0] == 2
    assert target.about.predictor_columns == ("t", "x")


def test_collinear_columns_are_said(table):
    with pytest.warns(UserWarning, match="'x', 'twice' are linear combinations"):
        sf.formula("y ~ x + twice + t", table.assign(twice=2 * table["x"]))


@pytest.mark.parametrize("formula", ["y ~ 0 + z", "y ~ 0 + one + x", "y ~ 0 + z:x"])
def test_columns_that_stand_for_the_intercept_are_not_collinear(table, formula):
    assert sf.formula(formula, table.assign(one=1.0)).notes == ()


def test_columns_far_from_zero_are_said(table):
    with pytest.warns(UserWarning, match="'seconds' varies little around a number far from zero"):
        sf.formula("y ~ x + seconds", table.assign(seconds=1.7e9 + 1000 * table["t"]))


@pytest.mark.parametrize("formula", ["above ~ x + t", "above ~ level + t"])
def test_separation_is_said(table, formula):
    above = (table["x"] > 20).astype(int)
    level = np.where(above & (table["z"] == "a"), "high", "low")
    with pytest.warns(UserWarning, match="'(x|level)' separates the two values"):
        sf.formula(formula, table.assign(above=above, level=level), family="bernoulli")


def test_new_rows_must_be_finite(table):
    with pytest.raises(FormulaError, match=r"'log\(x\)' is not a finite number in 1 of 2 rows"):
        sf.formula("y ~ log(x)", table).rows({"x": [1.0, np.inf]})
