"""Design matrices: of the rows to fit and of others, and what there is to remark about them."""

import numpy as np
import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.design import collinear, column_names, far, names_of_columns, warn
from steinflow.models.formulas.predictors import Term

RNG = np.random.default_rng()


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


def test_collinear_columns_by_their_names():
    X = RNG.normal(size=(50, 4))
    X[:, 2] = 3 * X[:, 0] - X[:, 1] + 5
    [note] = collinear(X, list("abcd"))
    assert note.startswith("The columns of 'a', 'b', 'c' are linear")
    assert collinear(X, list("abcd"), centered=False) == ()  # without an intercept nothing takes up the 5
    assert collinear(X[:, [0, 1, 3]], list("abd")) == collinear(X[:, :0], []) == ()
    assert collinear(X[:3, [0, 1, 3]], list("abd")) == collinear(X[:2, [0, 1, 3]], list("abd")) != ()  # too few rows


def test_columns_are_far_in_units_of_their_sd():
    X = np.linspace(0, 1, 20)[:, None] + [0, 1e3, 1e6]
    [note] = far(X, list("abc"))
    assert note.startswith("'c' varies little")
    assert far(np.full((20, 1), 1e6), ["constant"]) == ()


def test_names_of_columns_are_those_of_their_terms():
    terms = Term("above", 1, False), Term("level", 2, True), Term("x", 1, False)
    assert names_of_columns(terms) == ["above", "level", "level", "x"]


def test_the_columns_of_a_table(table):
    target = sf.formula("y ~ x + z + offset(t) + (1 + x | g)", table)
    design, some = target.about.designs["mu"], table.iloc[[5, 50, 7]]
    arrays, notes = design.arrays(some)
    assert notes == ()
    np.testing.assert_array_equal(arrays.X, np.column_stack([some["x"], some["z"] == "b", some["z"] == "c"]))
    np.testing.assert_array_equal(arrays.offset, some["t"])
    [(index, Z)] = arrays.groups
    np.testing.assert_array_equal(index, some["g"])
    np.testing.assert_array_equal(Z, np.column_stack([np.ones(3), some["x"]]))
    fitted = design.fitted(60)
    np.testing.assert_array_equal(fitted.X[[5, 50, 7]], arrays.X)
    assert [column_names(term) for term in design.common] == [["0"], ["b", "c"]]


def test_levels_never_seen_come_last(table):
    design = sf.formula("y ~ 1 + (1 | g:h)", table).about.designs["mu"]
    arrays, [note] = design.arrays(table.iloc[[0, 1, 2]].assign(g=[0, 7, 8]))
    known = design.levels[0]
    np.testing.assert_array_equal(arrays.groups[0][0], [known.index("0:0"), len(known), len(known) + 1])
    assert "2 levels that the fit has not seen ('7:1', '8:2')" in note
    with pytest.warns(UserWarning, match="^once$"):
        warn(("once",))
