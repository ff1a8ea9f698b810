"""The left side of a formula."""

import jax
import numpy as np
import pandas
import pytest

import steinflow as sf
from steinflow.models.families import FAMILIES
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.build import _environment
from steinflow.models.formulas.response import censored, evaluate, for_family, response_columns, survived, trial_columns
from steinflow.models.formulas.syntax import parse


def response_of(left, **columns):
    return evaluate(parse(f"{left} ~ 1").response, pandas.DataFrame(columns), _environment({}))


def test_censored_rows_count_as_survivors(table):
    known = sf.formula("positive ~ x", table, family="weibull")
    both = [
        sf.formula(formula, table.assign(status=np.where(table["event"] == 1, "none", "right")), family="weibull")
        for formula in ("Surv(positive, event) ~ x", "censored(positive, status) ~ x")
    ]
    p = jax.tree.map(lambda leaf: leaf[None], known.sample_prior(jax.random.key(0)))
    exact, *bounded = (next(iter(t.observations.log_likelihoods(p).values()))[0] for t in (known, *both))
    np.testing.assert_array_equal(bounded[0], bounded[1])
    happened = table["event"].to_numpy() == 1
    np.testing.assert_allclose(bounded[0][happened], exact[happened], rtol=1e-6)
    assert np.all(np.asarray(bounded[0])[~happened] <= 0)
    assert any("right-censored" in note for note in both[0].notes)


def test_trials_may_be_a_number(table):
    target = sf.formula("p(count, 20) ~ x", table, family="binomial")
    assert target.about.response.trials.tolist() == [20] * 60
    assert target.rows(table[["x"]][:2])["trials"].tolist() == [20, 20]


def test_status_and_event_say_the_opposite():
    for status in (["none", "right", "right"], [0, 1, 1], [False, True, True], [0.0, 1.0, 1.0]):
        found = censored([1, 2, 3], status)
        np.testing.assert_array_equal(found.is_bound, [False, True, True])
    np.testing.assert_array_equal(survived([1, 2, 3], [1, 0, 0]).is_bound, found.is_bound)
    with pytest.raises(FormulaError, match="got 'left', 'maybe'"):
        censored([1, 2, 3], ["left", "none", "maybe"])
    with pytest.raises(FormulaError, match="got 0, 2"):
        survived([1, 2], [0, 2])


def test_numbers_text_and_levels():
    assert response_of("y", y=[2, 3]).y.tolist() == [2.0, 3.0]
    text = response_of("y", y=["u", "v", "u"])
    assert (text.y.tolist(), text.levels, text.is_sorted_text) == ([0, 1, 0], ("u", "v"), True)
    ordered = response_of("y", y=pandas.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True))
    assert (ordered.y.tolist(), ordered.levels, ordered.is_sorted_text) == ([0, 1], ("low", "high"), False)
    one = response_of("y['v']", y=["u", "v", "w"])
    assert (one.y.tolist(), one.levels) == ([0, 1, 0], ("other", "v"))
    with pytest.raises(FormulaError, match="no value 'q'; it has 'u', 'v'"):
        response_of("y['q']", y=["u", "v"])
    with pytest.raises(FormulaError, match="dates or times"):
        response_of("y", y=np.array(["2020-01-01"], "datetime64[ns]"))


def test_some_of_the_rows():
    response = response_of("p(y, n)", y=[1, 2, 3], n=[4, 5, 6]).selected(np.array([2, 0]))
    assert (response.y.tolist(), response.trials.tolist()) == ([3, 1], [6, 4])
    term = parse("p(y, n) ~ 1").response
    assert (response_columns(term), trial_columns(term)) == ({"y", "n"}, {"n"})
    assert trial_columns(parse("y ~ 1").response) == set()


def test_families_take_their_responses():
    family, response = for_family(response_of("y", y=[10, 30, 20, 30, 10, 20]), FAMILIES["cumulative"])
    assert (family.num_classes, response.levels) == (3, ("10", "20", "30"))
    assert response.y.tolist() == [0, 2, 1, 2, 0, 1]
    assert for_family(response_of("y", y=["no", "yes"]), FAMILIES["bernoulli"])[1].y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("left", "family", "message"),
    [
        ("y", "binomial", "is for successes of several trials"),
        ("p(y, n)", "poisson", "need family='binomial'"),
        ("Surv(y, e)", "gamma", "does not allow censored values"),
        ("text", "poisson", "needs numbers; 'text' holds text such as 'u'"),
        ("e", "categorical", "two classes use family='bernoulli'"),
    ],
)
def test_families_refuse_others(left, family, message):
    response = response_of(left, y=[1, 2, 3], n=[4, 5, 6], e=[0, 1, 1], text=["u", "v", "w"])
    with pytest.raises(FormulaError, match=message):
        for_family(response, FAMILIES[family])
