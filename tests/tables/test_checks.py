"""Checks of the model: silent where it is right, in every one of several draws, and clear where it is wrong."""

import numpy as np
import pandas
import pytest

from steinflow.tables.checks import Drawn, model_checks, worst


def _drawn(y, means, sample, *, kind="numbers", family="gaussian", seed=0, **columns):
    """Fitted rows whose model has known means: `sample(rng, means)` draws one data set."""
    rng = np.random.default_rng(seed + 100)
    draws = np.stack([sample(rng, means) for _ in range(400)])
    frame = pandas.DataFrame({"x": np.linspace(-1, 1, len(y)), **columns})
    return Drawn(kind, y, means, draws.std(axis=0), draws, frame, frozenset({"x"}), family)


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


def test_advice_can_be_typed():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 15, 300)
    y = rng.normal(size=15)[codes] + rng.normal(size=300)
    drawn = _drawn(y, 0 * y, lambda r, m: r.normal(m, 1.4), **{"subject no": codes})
    [advice] = _found(model_checks(drawn, None))["residuals"].remedies
    assert "--formula '... + (1 | `subject no`)'" in advice  # a shell would run `subject no` in double quotes


def test_only_numbers_are_to_be_made_categories():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 15, 300)
    y = rng.normal(size=15)[codes] + rng.normal(size=300)
    for values, told in ((codes, True), (codes.astype(str), False)):  # of text, --categorical says nothing new
        drawn = _drawn(y, 0 * y, lambda r, m: r.normal(m, 1.4), shop=values)
        [advice] = _found(model_checks(drawn, None))["residuals"].remedies
        assert advice.endswith("--categorical") == told


def test_positive_numbers_and_counts_taken_for_real_ones():
    rng = np.random.default_rng(3)
    prices = np.exp(rng.normal(size=300))
    found = _found(model_checks(_drawn(prices, np.full(300, 1.6), lambda r, m: r.normal(m, 1.5)), None))
    assert "below zero" in found["below zero"].text
    assert "lognormal" in found["below zero"].remedies[0]
    counts = rng.poisson(3, 300).astype(float)
    found = _found(model_checks(_drawn(counts, np.full(300, 3.0), lambda r, m: r.normal(m, 1.7)), None))
    assert "--model poisson" in found["below zero"].remedies[0]


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
