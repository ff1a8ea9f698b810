"""A table beside data sets that were drawn, as plain values."""

import numpy as np
import pandas
import pytest

import steinflow as sf
from steinflow.tables.alternatives import Model
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem
from steinflow.tables.residuals import Drawn, Events
from steinflow.tables.shapes import predictive_shape, prior_shape

RNG = np.random.default_rng(0)
ROWS = 60
FRAME = pandas.DataFrame(
    {"x": RNG.normal(size=ROWS), "time": RNG.exponential(size=ROWS), "event": np.arange(ROWS) % 3 > 0}
)
FRAME["number"], FRAME["count"] = 50 + 10 * FRAME["x"], RNG.poisson(200, ROWS)
FRAME["kind"] = RNG.choice(["a", "b", "c"], ROWS)


def _drawn(y, kind="numbers", draws=None, events=None, used=(), **columns):
    draws = RNG.normal(size=(400, len(y))) if draws is None else draws
    model = Model("formula", "gaussian", ("y ~ x",), float(np.min(y)), are_whole=False)
    frame = pandas.DataFrame(columns, index=range(len(y)))
    return Drawn(kind, y, draws.mean(axis=0), draws.std(axis=0), draws, frame, frozenset(used), model, events=events)


def _prior(formula, family):
    problem = FormulaProblem((formula,), family)
    return prior_shape(FormulaFit(problem, problem.target(FRAME)))


def _are_finite(shape):
    names = ("observed", "low", "middle", "high")
    return all(np.isfinite(shape[name]).all() and len(shape[name]) == len(shape["observed"]) for name in names)


def test_means_by_group():
    codes = RNG.integers(0, 4, 200)
    text = pandas.Series(["b", "a", None, "c"])[codes].reset_index(drop=True)
    y = codes + RNG.normal(size=200)
    shape = predictive_shape(_drawn(y, town=text, code=codes, lists=[[k] for k in range(200)], used={"code"}))
    assert [(group["column"], group["levels"]) for group in shape["groups"]] == [
        ("code", ["0", "1", "2", "3"]),  # of the model
        ("town", ["a", "b", "c", "missing"]),
    ]
    np.testing.assert_allclose(shape["groups"][0]["observed"], [y[codes == k].mean() for k in range(4)])
    assert shape["groups"][0]["high"][3] < 1 < shape["groups"][0]["observed"][3]


@pytest.mark.parametrize("mean", [3, 400])
def test_bars_of_counts_hold_as_many_counts_each(mean):
    y, draws = RNG.poisson(mean, 200).astype(float), RNG.poisson(mean, (400, 200)).astype(float)
    shape = predictive_shape(_drawn(y, "counts", draws))
    widths = np.diff(shape["edges"])
    assert len(set(widths)) == 1
    assert widths[0] == np.round(widths[0])
    assert sum(shape["observed"]) == 200
    assert np.mean((shape["observed"] >= np.array(shape["low"])) & (shape["observed"] <= np.array(shape["high"]))) > 0.8


def test_censored_times_are_shares_without_the_event():
    times, cut_off = RNG.exponential(size=400), RNG.exponential(size=400)
    events = Events(times <= cut_off, np.minimum(times, cut_off))
    shape = predictive_shape(_drawn(np.minimum(times, cut_off), "times", RNG.exponential(size=(400, 400)), events))
    true = np.exp(-np.array(shape["times"]))
    np.testing.assert_allclose(shape["middle"], true, atol=0.01)
    early = true > 0.2
    np.testing.assert_allclose(np.array(shape["observed"])[early], true[early], atol=0.08)
    assert shape["groups"] == []


def test_what_priors_expect_is_shown_near_the_table():
    shape = _prior("number ~ x", "gaussian")
    assert shape["kind"] == "numbers"
    assert -60 < shape["edges"][0] < FRAME["number"].min() < FRAME["number"].max() < shape["edges"][-1] < 160
    assert sum(shape["observed"]) == ROWS
    assert 0 <= shape["beyond"] < 0.5
    wide = _prior("count ~ x", "poisson")
    assert 0 < wide["beyond"] < 1
    assert wide["edges"][0] >= -0.5
    assert _are_finite(wide)


def test_what_priors_expect_of_classes_and_of_times():
    shape = _prior("kind ~ x", "categorical")
    assert (shape["kind"], shape["levels"]) == ("classes", ["a", "b", "c"])
    np.testing.assert_allclose(shape["observed"], [np.mean(FRAME["kind"] == level) for level in "abc"])
    assert _prior("event ~ x", "bernoulli")["levels"] == ["False", "True"]
    shape = _prior("Surv(time, event) ~ x", "weibull")
    assert shape["kind"] == "times"
    assert shape["observed"][0] == 1
    assert _are_finite(shape)


def test_what_priors_expect_is_what_the_plot_of_python_shows():
    """The same draws as `sf.plots.prior_check`."""
    figure = sf.plots.prior_check(sf.formula("kind ~ x", FRAME, family="categorical"))
    bars = np.array([bar.get_height() for bar in figure.axes[0].patches]) ** 2
    np.testing.assert_allclose(bars / ROWS, _prior("kind ~ x", "categorical")["observed"])
    [line] = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(line.get_ydata() ** 2 / ROWS, _prior("kind ~ x", "categorical")["middle"], atol=0.01)
