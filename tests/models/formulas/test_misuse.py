"""What can be wrong with a formula, a table or a family: one clear sentence each."""

import numpy as np
import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y ~ X + (1 | g)", {}, "no column 'X' in the table. Did you mean 'x'"),
        ("y ~ x + ", {}, "error at its end"),
        ("y ~ x) + z", {}, "error at position 6: this does not belong here"),
        ("y ~ (x + z", {}, "error at its end: Expect '\\)'"),
        ("y x", {}, "one '~'"),
        ("y ~ x", {"family": "gausian"}, "no family 'gausian'. Did you mean 'gaussian'"),
        ("y ~ x", {"family": "poisson"}, "needs counts"),
        ("grade ~ x", {"family": "bernoulli"}, "two values; 'grade' has 1, 2, 3, 4"),
        ("y ~ x", {"family": "beta"}, "strictly between 0 and 1"),
        ("y ~ x", {"family": "categorical"}, "needs three classes or more"),
        ("z ~ x", {}, "needs numbers; 'z' holds text such as 'a'"),
        ("y ~ x", {"family": "gamma", "link": "logit"}, "takes the links log, identity"),
        ("y ~ x + (1 | constant)", {}, "one level only"),
        ("y ~ x", {"weights": "negative"}, "Weights must be positive"),
        ("Surv(positive, grade) ~ x", {"family": "weibull"}, "1 where it happened and 0"),
        ("Surv(positive, event) ~ x", {"family": "poisson"}, "does not allow censored values"),
        ("y ~ x", {"priors": {"X": "Normal(0, 1)"}}, "no parameter 'X' to give a prior. Did you mean 'x'"),
        ("y ~ x", {"priors": {"x": "Norml(0, 1)"}}, "no distribution 'Norml'. Did you mean 'Normal'"),
        ("y ~ x", {"priors": {"sigma": "Normal(0, 1)"}}, "'sigma' is positive"),
        ("y ~ x", {"priors": {"x": "Normal(0, -1)"}}, "does not work"),
        (["y ~ x", "nu ~ x"], {}, "no further parameter of the family 'gaussian'"),
        ("y ~ when", {}, "holds dates or times"),
    ],
)
def test_one_clear_sentence_each(table, formula, options, message):
    table = table.assign(constant="a", negative=-1.0, when=np.datetime64("2020-01-01"))
    with pytest.raises(FormulaError, match=message):
        sf.formula(formula, table, **options)


def test_missing_rows_are_dropped_and_said(table):
    gaps = table.assign(x=table["x"].where(table.index != 3), t=table["t"].where(table.index > 10, np.inf))
    with pytest.warns(UserWarning, match=r"Dropped 1 of 60 rows with missing or infinite values: 'x' \(1\)"):
        target = sf.formula("y ~ x", gaps)
    assert target.observations.labels().coords["row"] == [i for i in range(60) if i != 3]


def test_collinear_columns_are_said(table):
    with pytest.warns(UserWarning, match="'x', 'twice' are linear combinations"):
        sf.formula("y ~ x + twice + t", table.assign(twice=2 * table["x"]))


@pytest.mark.parametrize("formula", ["above ~ x + t", "above ~ level + t"])
def test_separation_is_said(table, formula):
    above = (table["x"] > 20).astype(int)
    level = np.where(above & (table["z"] == "a"), "high", "low")
    with pytest.warns(UserWarning, match="'(x|level)' separates the two values"):
        sf.formula(formula, table.assign(above=above, level=level), family="bernoulli")


def test_new_tables_need_the_columns_and_no_gaps(table):
    target = sf.formula("y ~ x", table)
    with pytest.raises(FormulaError, match="no column 'x'"):
        target.rows({"z": [1.0]})
    with pytest.raises(FormulaError, match="1 missing values"):
        target.rows({"x": [1.0, np.nan]})


def test_a_table_is_a_table():
    with pytest.raises(TypeError, match="table of pandas, Polars or Arrow"):
        sf.formula("y ~ x", np.zeros((3, 2)))
