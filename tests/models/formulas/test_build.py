"""What can be wrong with a formula, a table or a family: one clear sentence each."""

import numpy as np
import pandas
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
        ("grade ~ x", {"family": "bernoulli"}, "two texts; 'grade' has 1, 2, 3, 4: for more classes"),
        ("y ~ x", {"family": "beta"}, "strictly between 0 and 1"),
        ("yes ~ x", {"family": "categorical"}, "needs three classes or more; 'yes' has '0', '1'"),
        ("z ~ x", {}, "needs numbers; 'z' holds text such as 'a'.*family='bernoulli'"),
        ("y ~ x", {"family": "gamma", "link": "logit"}, "takes the links log, identity"),
        ("y ~ x + (1 | constant)", {}, "one level only"),
        ("y ~ x", {"weights": "negative"}, "Weights must be positive"),
        ("Surv(positive, grade) ~ x", {"family": "weibull"}, "1 where it happened and 0"),
        ("Surv(positive, event) ~ x", {"family": "poisson"}, "does not allow censored values"),
        ("y ~ x", {"priors": {"X": "Normal(0, 1)"}}, "no parameter 'X' to give a prior. Did you mean 'x'"),
        ("y ~ x", {"priors": {"x": "Norml(0, 1)"}}, "no distribution 'Norml'. Did you mean 'Normal'"),
        ("y ~ x", {"priors": {"sigma": "Normal(1, 1)"}}, "'sigma' is positive.*HalfStudentT"),
        ("count ~ x", {"family": "hurdle_poisson", "priors": {"hu": "HalfNormal(1)"}}, "'hu' lies between 0 and 1"),
        ("y ~ z", {"priors": {"z[d]": "Normal(0, 1)"}}, "no parameter 'z\\[d\\]'.*Did you mean 'z\\["),
        ("y ~ z", {"priors": {"z[b]": "Laplace(0, 1)"}}, "one kind of distribution, Normal.*lists for numbers"),
        ("y ~ x", {"priors": {"x": "Normal(0, -1)"}}, "does not work"),
        (["y ~ x", "nu ~ x"], {}, "no further parameter of the family 'gaussian'"),
        ("y ~ when", {}, "holds dates or times"),
        ("y ~ day", {}, "holds dates or times"),
        ("y ~ mixture", {}, "'mixture' holds int, str values"),
        ("mixture ~ x", {"family": "bernoulli"}, "'mixture' holds int, str values"),
        ("y ~ x + constant", {}, "'constant' has one value only"),
        ("y ~ log(negative)", {}, r"'log\(negative\)' is not a finite number in 60 of 60 rows"),
        ("y ~ (log(negative) | g)", {}, r"'log\(negative\)' is not a finite number in 60 of 60 rows"),
        ("log(negative) ~ x", {}, r"response 'log\(negative\)' is not a finite number in 60 of 60 rows"),
        ("y ~ sigma", {}, "Two parameters would have the name 'sigma'"),
        (["y ~ sigma_x", "sigma ~ x"], {}, "Two parameters would have the name 'sigma_x'"),
        ("y ~ f(x)", {}, "there is no function 'f'"),
        ("y ~ x^2", {}, "arithmetic in braces"),
        ("y ~ x", {"weights": "z"}, "Weights are numbers; column 'z'"),
        ("coded ~ x", {"family": "bernoulli"}, r"'coded' has 1, 2: write coded\['2'\] ~"),
        ("x ~ t", {"family": "cumulative"}, "60 different values in 60 rows, too many for classes"),
        ("z ~ x", {"family": "bernoulli"}, "'z' has 'a', 'b', 'c'"),
        ("constant ~ x", {"family": "bernoulli"}, "two values; 'constant' has 'a'"),
        ("yes ~ x", {"family": "binomial"}, "family='bernoulli'"),
        ("p(negative, trials) ~ x", {"family": "binomial"}, "60 of 60 rows have others, such as -1 of 9"),
        ("p(grade, yes) ~ x", {"family": "binomial"}, "between 0 and the number of trials"),
        ("p(yes, trials) ~ x", {}, r"'p\(yes, trials\)', need family='binomial'"),
        ("yes / trials ~ x", {}, r"one function such as log\(y\) or p\(successes, trials\)"),
        ("Surv(positive, z) ~ x", {"family": "weibull"}, r"got 'a', 'b', 'c'. .*Surv\(time, event == 'c'\)"),
        ("censored(positive, z) ~ x", {"family": "weibull"}, r"got 'a', 'b', 'c'. "),
        ("negative ~ x", {}, "'negative' is -1 in every row"),
        ("y ~ commas", {}, "'commas' holds numbers that are written as text"),
        ("y ~ x * log(commas)", {}, "read the file with decimal=','"),
        ("y ~ (commas | g)", {}, "read the file with decimal=','"),
        ("y ~ gap", {}, r"1 of its 60 cells are text such as '\?'"),
        ("y ~ monday", {}, r"'monday' holds dates or times.*C\(monday\) makes each value a level"),
        (["y ~ x", "sigma ~ monday"], {}, "'monday' holds dates or times"),
        ("y ~ name", {}, r"'name' holds text with 60 different values in 60 rows.*: \(1 \| name\)"),
    ],
)
def test_one_clear_sentence_each(table, formula, options, message):
    table = table.assign(
        constant="a",
        negative=-1.0,
        sigma=table["x"],
        sigma_x=table["x"],
        when=np.datetime64("2020-01-01"),
        day=pandas.Period("2020", "D"),
        mixture=pandas.Series([1, "a"] * 30),
        coded=table["yes"] + 1.0,
        commas=[f"{k},5" for k in range(60)],
        gap=["?", *map(str, range(59))],
        monday=[f"2020-{k % 12 + 1:02}-06" for k in range(60)],
        name=[f"n{k}" for k in range(60)],
    )
    with np.errstate(invalid="ignore"), pytest.raises(FormulaError, match=message):
        sf.formula(formula, table, **options)


def test_what_the_data_cannot_say(table):
    with pytest.warns(UserWarning, match="'one' is the same in every row"):
        sf.formula("y ~ x + one", table.assign(one=3.0))
    with pytest.warns(UserWarning, match="All values of the response 'none' are the same"):
        sf.formula("none ~ x", table.assign(none=0), family="poisson")
    with pytest.warns(UserWarning, match="No event was observed"):
        sf.formula("Surv(positive, none) ~ x", table.assign(none=0), family="weibull")


def test_combinations_without_rows_are_said(table):
    half = np.where((table["z"] == "a") | (table["x"] > 20), "low", "high")
    with pytest.warns(UserWarning, match="1 combination of 'half' and 'z' has no rows") as said:
        sf.formula("y ~ z * half", table.assign(half=half))
    assert len(said) == 1
    with pytest.warns(UserWarning, match="2 combinations of 'half' and 'z' have no rows"):
        sf.formula("y ~ z / half", table.assign(half=np.where(table["z"] == "a", "high", "low"))[table["z"] != "b"])


def test_an_alphabetical_order_of_classes_is_said(table):
    size = pandas.Series(["low", "high", "medium"] * 20)
    with pytest.warns(UserWarning, match="'high' < 'low' < 'medium'"):
        sf.formula("size ~ x", table.assign(size=size), family="cumulative")
    ordered = pandas.Categorical(size, ["low", "medium", "high"], ordered=True)
    assert sf.formula("size ~ x", table.assign(size=ordered), family="cumulative").notes == ()


@pytest.mark.parametrize(("formula", "family"), [("y ~ x + y", "gaussian"), ("log(count) ~ x + count", "gaussian")])
def test_a_response_among_its_predictors_is_said(table, formula, family):
    with pytest.warns(UserWarning, match="predicted from its own column"):
        sf.formula(formula, table.assign(count=1.0 + np.arange(len(table))), family=family)


def test_new_tables_need_the_columns_and_no_gaps(table):
    target = sf.formula("y ~ x", table)
    with pytest.raises(FormulaError, match="no column 'x'"):
        target.rows({"z": [1.0]})
    with pytest.raises(FormulaError, match="1 missing values"):
        target.rows({"x": [1.0, np.nan]})


def test_rows_of_weight_zero_are_left_out(table):
    times = np.arange(len(table)) % 3
    with pytest.warns(UserWarning, match="Left out 20 rows of weight 0"):
        target = sf.formula("y ~ x", table.assign(times=times), weights="times")
    np.testing.assert_array_equal(target.about.row_numbers, np.flatnonzero(times))
    np.testing.assert_array_equal(target.about.response.y, table["y"][times > 0])
