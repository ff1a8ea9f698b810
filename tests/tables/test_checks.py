"""Checks of the model: silent where it is right, in every one of several draws, and clear where it is wrong."""

import dataclasses

import numpy as np
import pandas
import pytest
from scipy import stats

from steinflow.tables.alternatives import Model
from steinflow.tables.checks import model_checks, worst
from steinflow.tables.residuals import Drawn, Events


def _model(y, family="gaussian", form="formula"):
    formulas = ("y ~ x",)
    return Model(
        form, family, formulas, float(np.min(y)), bool(np.all(y == np.round(y))), frozenset({"x"}), hidden=(50,)
    )


def _drawn(y, means, sample, *, kind="numbers", family="gaussian", form="formula", seed=0, **columns):
    """Fitted rows whose model has known means: `sample(rng, means)` draws one data set."""
    rng = np.random.default_rng(seed + 100)
    draws = np.stack([sample(rng, means) for _ in range(400)])
    frame = pandas.DataFrame({"x": np.linspace(-1, 1, len(y)), **columns})
    return Drawn(kind, y, means, draws.std(axis=0), draws, frame, frozenset({"x"}), _model(y, family, form))


def _normal(rng, means):
    return rng.normal(means, 1.0)


def _found(checks):
    return {check.name: check for check in checks if check.level != "good"}


def test_a_right_model_raises_few_alarms():
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.linspace(-1, 1, 200)
        g = rng.integers(0, 20, 200).astype(str)
        alarms += bool(_found(model_checks(_drawn(_normal(rng, 2 * x), 2 * x, _normal, seed=seed, g=g), None)))
        y = rng.poisson(np.exp(x))
        drawn = _drawn(y, np.exp(x), lambda r, m: r.poisson(m), kind="counts", family="poisson", seed=seed, g=g)
        alarms += bool(_found(model_checks(drawn, None)))
    assert alarms <= 3  # of 80 models, each with six checks


def test_counts_that_vary_too_much():
    rng = np.random.default_rng(1)
    means = np.full(300, 4.0)
    y = rng.negative_binomial(0.8, 0.8 / 4.8, 300).astype(float)
    drawn = _drawn(y, means, lambda r, m: r.poisson(m), kind="counts", family="poisson")
    evaluation = {"num_rows": 100, "metrics": {"coverage_90": 0.53}}
    found = _found(model_checks(drawn, evaluation))
    assert {"coverage", "spread", "zeros", "largest"} <= set(found)
    assert found["coverage"].level == found["spread"].level == "bad"
    assert "negbinomial" in found["spread"].remedies[0]
    assert "53% of 100" in found["coverage"].text


def test_a_group_that_was_left_out_and_a_curve():
    rng = np.random.default_rng(2)
    x, codes = np.linspace(-1, 1, 300), rng.integers(0, 15, 300)
    y = 2 * x + rng.normal(size=15)[codes] + rng.normal(size=300)
    found = _found(model_checks(_drawn(y, 2 * x, lambda r, m: r.normal(m, 1.4), subject=codes), None))
    assert "'subject', which is not in the model" in found["residuals"].text
    assert "(1 | subject)" in found["residuals"].remedies[0]
    bent = 4 * x**2 - 4 / 3 + rng.normal(size=300)
    checks = model_checks(_drawn(bent, 0 * x, lambda r, m: r.normal(m, 1.5)), None)
    assert "bs(x, df=5)" in _found(checks)["residuals"].remedies[0]


def test_an_amount_of_few_values_may_be_a_factor():
    rng = np.random.default_rng(2)
    dose = rng.choice([0.5, 1.0, 2.0], 300)
    y = np.where(dose == 1, 3.0, 0.0) + rng.normal(size=300)
    drawn = _drawn(y, 0 * y + 1, lambda r, m: r.normal(m, 1.7), dose=dose)
    for formula, better in (("y ~ x + dose", "y ~ x + C(dose)"), ("y ~ x * dose", "y ~ x * C(dose)")):
        model = dataclasses.replace(drawn.model, formulas=(formula,), amounts=frozenset({"x", "dose"}))
        found = _found(model_checks(dataclasses.replace(drawn, used=frozenset({"x", "dose"}), model=model), None))
        assert found["residuals"].remedies == (f"an effect for each value of 'dose': --formula \"{better}\"",)


def test_an_amount_that_was_left_out_is_no_group():
    rng = np.random.default_rng(2)
    weeks = rng.integers(5, 25, 300)
    y = 0.3 * weeks + rng.normal(size=300)
    advice = _found(model_checks(_drawn(y, 0 * y + y.mean(), lambda r, m: r.normal(m, 2), weeks=weeks), None))
    assert advice["residuals"].remedies == ("'weeks' as a predictor: --formula \"y ~ x + weeks\"",)
    assert advice["residuals"].level == "doubtful"


def test_advice_can_be_typed():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 15, 300)
    y = rng.normal(size=15)[codes] + rng.normal(size=300)
    drawn = _drawn(y, 0 * y, lambda r, m: r.normal(m, 1.4), **{"subject no": codes})
    [advice] = _found(model_checks(drawn, None))["residuals"].remedies
    assert "--formula 'y ~ x + (1 | `subject no`)'" in advice  # a shell would run `subject no` in double quotes


def test_only_numbers_are_to_be_made_categories():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 15, 300)
    y = rng.normal(size=15)[codes] + rng.normal(size=300)
    for values, told in ((codes, True), (codes.astype(str), False)):  # of text, --categorical says nothing new
        drawn = _drawn(y, 0 * y, lambda r, m: r.normal(m, 1.4), form="target", shop=values)
        model = dataclasses.replace(drawn.model, amounts=frozenset({"x", "shop"} if told else {"x"}))
        drawn = dataclasses.replace(drawn, used=frozenset({"x", "shop"}), model=model)
        assert (
            any("--categorical shop" in advice for advice in _found(model_checks(drawn, None))["residuals"].remedies)
            == told
        )


def test_positive_numbers_and_counts_taken_for_real_ones():
    rng = np.random.default_rng(3)
    prices = np.exp(rng.normal(size=300))
    found = _found(model_checks(_drawn(prices, np.full(300, 1.6), lambda r, m: r.normal(m, 1.5)), None))
    assert "below zero" in found["below zero"].text
    assert "lognormal" in found["below zero"].remedies[0]
    counts = rng.poisson(3, 300).astype(float)
    found = _found(model_checks(_drawn(counts, np.full(300, 3.0), lambda r, m: r.normal(m, 1.7)), None))
    assert "--family poisson" in found["below zero"].remedies[0]


@pytest.mark.parametrize(("share", "level"), [(0.5, "good"), (0.75, "bad")])
def test_probabilities_that_do_not_come_true(share, level):
    bins = [[0.5, share, 200], [0.9, 0.9, 100]]
    evaluation = {"num_rows": 300, "metrics": {}, "calibration": bins, "confusion": [[1]]}
    [check] = model_checks(None, evaluation)
    assert check.level == level


def test_the_worst_counts():
    assert worst([]) is None
    assert worst([{"level": "good"}, {"level": "bad"}, {"level": "doubtful"}]) == "bad"


def test_gaps_in_a_column_that_is_not_in_the_model():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, 300)
    y = np.where(codes == 4, 3.0, 0.0) + rng.normal(size=300)
    text = pandas.Series([None, "a", "b", "c", "d"])[codes].reset_index(drop=True)
    assert not _found(model_checks(_drawn(rng.normal(size=300), 0 * y, _normal, sex=text), None))


def test_counts_without_zeros_are_not_sent_to_zero_inflation():
    rng = np.random.default_rng(1)
    means = np.full(500, 3.0)
    y = np.maximum(rng.poisson(3.0, 500), 1)
    found = _found(model_checks(_drawn(y, means, lambda r, m: r.poisson(m), kind="counts", family="poisson"), None))
    assert found["zeros"].remedies[0].endswith("--family hurdle_poisson")
    for family in ("zero_inflated_poisson", "negbinomial"):  # neither has a sigma, nor heavier tails
        drawn = _drawn(3 * y, means, lambda r, m: r.poisson(m), kind="counts", family=family)
        said = [advice for check in model_checks(drawn, None) for advice in check.remedies]
        assert said
        assert not any("sigma" in advice or "--family t" in advice or "lognormal" in advice for advice in said)


def test_draws_that_reach_too_low_have_no_need_of_heavier_tails():
    rng = np.random.default_rng(3)
    prices = 1 + rng.gamma(1.0, size=500)
    found = _found(model_checks(_drawn(prices, np.full(500, 2.0), lambda r, m: r.normal(m, 1.0)), None))
    assert not any("heavier" in advice for advice in found["smallest"].remedies)
    assert any("--family lognormal" in advice for advice in found["smallest"].remedies)
    outliers = rng.standard_t(1.5, 500) - 10
    found = _found(model_checks(_drawn(outliers, np.full(500, -10.0), lambda r, m: r.normal(m, 1.0)), None))
    assert any("--family t" in advice for advice in found["smallest"].remedies)


def test_a_small_sd_is_red_where_it_is_sure():
    for num_rows, level in ((120, "doubtful"), (800, "bad")):
        y = np.round(stats.norm.ppf((np.arange(num_rows) + 0.5) / num_rows, 20.0, 1.29 * 20**0.5))
        drawn = _drawn(y, np.full(num_rows, 20.0), lambda r, m: r.poisson(m), kind="counts", family="poisson")
        assert _found(model_checks(drawn, None))["spread"].level == level


def test_counts_that_vary_too_much_around_their_means():
    """The sd of all rows is right: what the mean explains makes up for what is left."""
    rng = np.random.default_rng(1)
    means = np.exp(np.linspace(0, 3, 300))
    y = rng.negative_binomial(5, 5 / (5 + 0.8 * means)).astype(float)
    drawn = _drawn(y, means, lambda r, m: r.poisson(m), kind="counts", family="poisson")
    np.testing.assert_allclose(np.std(y), np.median(np.std(drawn.draws, axis=1)), rtol=0.1)
    assert "negbinomial" in _found(model_checks(drawn, None))["spread"].remedies[0]


def test_shrinkage_is_no_misfit():
    """More features than rows: the prior pulls slopes towards zero, and leaves a line in the residuals."""
    rng = np.random.default_rng(2)
    x, y = np.linspace(-1, 1, 80), 0.1 * rng.normal(size=80)
    y = y + 2 * x
    drawn = _drawn(y, 1.2 * x, lambda r, m: r.normal(m, 0.5))
    assert not _found(model_checks(drawn, None)).get("residuals")
    bent = dataclasses.replace(drawn, y=y + 4 * x**2)
    assert "bs(x, df=5)" in _found(model_checks(bent, None))["residuals"].remedies[0]


def test_separation_is_no_misfit():
    rng = np.random.default_rng(2)
    sides = rng.choice(["left", "right"], 200)
    happened = (sides == "right").astype(float)
    mean = np.where(happened == 1, 0.97, 0.03)
    frame = pandas.DataFrame({"side": sides})
    model = _model(happened, "bernoulli")
    drawn = Drawn("classes", happened, mean, np.sqrt(mean * (1 - mean)), None, frame, frozenset({"side"}), model)
    assert not _found(model_checks(drawn, None))
    wrong = dataclasses.replace(drawn, mean=np.full(200, 0.5), sd=np.full(200, 0.5), used=frozenset())
    assert "side" in _found(model_checks(wrong, None))["residuals"].text


def test_noise_that_depends_on_a_column_is_named():
    rng = np.random.default_rng(2)
    x = np.linspace(-1, 1, 400)
    drawn = _drawn(rng.normal(0, np.exp(2 * x)), 0 * x, lambda r, m: r.normal(m, 0.5))
    assert any('--formula "sigma ~ x"' in advice for advice in _found(model_checks(drawn, None))["spread"].remedies)
    evaluation = {"num_rows": 100, "metrics": {"coverage_90": 0.7}}
    even = _drawn(rng.normal(0, 1, 400), 0 * x, lambda r, m: r.normal(m, 0.5))
    assert not any("sigma" in advice for advice in _found(model_checks(even, evaluation))["coverage"].remedies)


def _times(happened_at, cut_off, expected_at, **columns):
    """Times that are cut off, under a model whose cumulative hazard at any time is known."""
    y, happened = np.minimum(happened_at, cut_off), happened_at <= cut_off
    frame = pandas.DataFrame({"x": np.linspace(-1, 1, len(y)), **columns})
    events = Events(happened, expected_at(y))
    model = _model(y, "exponential")
    return Drawn("times", y, 0 * y + 1, 0 * y + 1, None, frame, frozenset({"x"}), model, events=events)


def test_events_that_happen_when_the_model_expects_them_raise_few_alarms():
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        times, cut_off = rng.exponential(size=150), rng.uniform(0.2, 3, 150)
        drawn = _times(times, cut_off, lambda y: y, g=rng.integers(0, 5, 150).astype(str))
        alarms += bool(_found(model_checks(drawn, None)))
    assert alarms <= 1


def test_events_that_do_not_happen_when_the_model_expects_them():
    rng = np.random.default_rng(0)
    times, cut_off = rng.weibull(3, 200), rng.uniform(0.5, 2, 200)
    rate = np.sum(times <= cut_off) / np.sum(np.minimum(times, cut_off))
    found = _found(model_checks(_times(times, cut_off, lambda y: rate * y), None))["events"]
    assert found.level == "bad"
    assert found.text.startswith("events come later than the model expects: ")
    assert "--family weibull" in found.remedies[0]
    x = np.linspace(-1, 1, 200)
    times = rng.exponential(np.exp(2 * x))
    found = _found(model_checks(_times(times, cut_off, lambda y: y, z=x), None))
    assert "'z', which is not in the model" in found["residuals"].text


def test_a_few_events_are_enough_to_look_at():
    rng = np.random.default_rng(0)
    drawn = _times(rng.exponential(50, 40), np.ones(40), lambda y: y / 50)
    assert {check.name for check in model_checks(drawn, None)} == {"events", "residuals"}
    none = dataclasses.replace(drawn, events=Events(np.zeros(40, bool), drawn.events.expected))
    assert model_checks(none, None)
