"""Predictions as tables, and how good they are, for particles that are known."""

from types import SimpleNamespace

import example_tables as tables
import numpy as np
import pandas
import pytest
from scipy import stats

import steinflow as sf
from steinflow.tables.formulas import prediction_table
from steinflow.tables.predictions import METRICS, about_far_rows, evaluate, prediction_frame
from steinflow.tables.responses import Response


def known(estimator, particles, *, shift=0.0, scale=1.0, **learned):
    """An estimator with these particles, whose features are as the model wants them."""
    num_particles, num_weights = particles["w"].shape
    result = SimpleNamespace(
        particles=particles, probabilities=np.full(num_particles, 1 / num_particles), info={"num_steps": 0}
    )
    features = {"shift_": [0.0] * (num_weights - 1), "scale_": [1.0] * (num_weights - 1)}
    response = {"response_shift_": shift, "response_scale_": scale, "n_features_in_": num_weights - 1}
    return estimator.restore(result, {**features, **response, **learned})


def test_predictions_of_numbers_are_those_of_the_mixture():
    generator = np.random.default_rng(0)
    w, log_gamma = generator.normal(size=(50, 3)), generator.normal(size=50) * 0.2
    estimator = known(sf.SteinRegressor(), {"w": w, "log_gamma": log_gamma}, shift=100.0, scale=10.0)
    X = generator.normal(size=(7, 2))
    frame = prediction_frame(Response("y", "numbers"), estimator, X)
    means = np.column_stack([X, np.ones(7)]) @ w.T

    def cdf(y):
        return np.mean(stats.norm.cdf(((y - 100) / 10)[:, None], means, np.exp(-log_gamma / 2)), axis=1)

    np.testing.assert_allclose(frame["prediction"], 100 + 10 * means.mean(axis=1))
    np.testing.assert_allclose(cdf(frame["5%"].to_numpy()), 0.05, atol=1e-6)
    np.testing.assert_allclose(cdf(frame["95%"].to_numpy()), 0.95, atol=1e-6)


def test_what_comes_from_the_model_is_calibrated_under_it():
    generator = np.random.default_rng(0)
    w, log_gamma = generator.normal(size=(50, 3)), generator.normal(size=50) * 0.2
    estimator = known(sf.SteinRegressor(), {"w": w, "log_gamma": log_gamma}, shift=100.0, scale=10.0)
    X, which = generator.normal(size=(4000, 2)), generator.integers(50, size=4000)
    y = np.sum(np.column_stack([X, np.ones(4000)]) * w[which], axis=1)
    y = 100 + 10 * (y + np.exp(-log_gamma[which] / 2) * generator.normal(size=4000))
    evaluation = evaluate(estimator, X, y)
    assert all(abs(expected - seen) < 0.03 for expected, seen, _ in evaluation["calibration"])
    error = y - estimator.predict(X)
    assert evaluation["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert evaluation["metrics"]["r2"] == pytest.approx(1 - np.mean(error**2) / np.var(y))


@pytest.mark.parametrize("rate", [0.2, 0.7, 3.0])
def test_intervals_of_few_counts_are_calibrated_under_the_model(rate):
    """Of rare events, nearly all lie in intervals that end at a count."""
    rng = np.random.default_rng(0)
    estimator = known(sf.SteinPoissonRegressor(), {"w": np.full((2, 2), np.log(rate)) * [0, 1]})
    y = rng.poisson(rate, 20_000).astype(float)
    evaluation = evaluate(estimator, np.zeros((len(y), 1)), y)
    assert evaluation["metrics"]["coverage_90"] == pytest.approx(0.9, abs=0.005)
    for level, inside, count in evaluation["calibration"]:
        assert inside == pytest.approx(level, abs=0.01)
        assert count == len(y)


def test_one_row_has_no_variance_to_explain():
    estimator = known(sf.SteinRegressor(), {"w": np.zeros((2, 2)), "log_gamma": np.zeros(2)})
    metrics = evaluate(estimator, np.zeros((1, 1)), np.ones(1))["metrics"]
    assert metrics["r2"] is None
    assert metrics["rmse"] == 1


def test_metrics_of_classes():
    always_three_to_one = {"w": np.array([[0.0, np.log(3.0)]])}
    estimator = known(sf.SteinClassifier(), always_three_to_one, classes_=[0, 1])
    y = np.array([1.0] * 6 + [0.0] * 4)
    evaluation = evaluate(estimator, np.zeros((10, 1)), y)
    metrics = evaluation["metrics"]
    assert metrics["accuracy"] == metrics["accuracy_of_guessing"] == pytest.approx(0.6)
    assert metrics["calibration_error"] == pytest.approx(0.15)
    assert metrics["log_likelihood"] == pytest.approx(0.6 * np.log(0.75) + 0.4 * np.log(0.25))
    assert evaluation["calibration"] == [[pytest.approx(0.75), pytest.approx(0.6), 10]]
    assert evaluation["confusion"] == [[0, 4], [0, 6]]
    frame = prediction_frame(Response("y", "classes", ("no", "yes")), estimator, np.zeros((1, 1)))
    assert frame.to_dict("list") == {
        "prediction": ["yes"],
        "P(no)": [pytest.approx(0.25)],
        "P(yes)": [pytest.approx(0.75)],
    }


def test_calibration_of_many_classes_is_about_the_first_guess():
    generator = np.random.default_rng(0)
    w = np.array([[[2.0, 0.0, -2.0], [0.0, 1.0, 0.0]]])
    X = generator.normal(size=(5000, 1))
    result = SimpleNamespace(particles={"w": w}, probabilities=np.ones(1), info={"num_steps": 0})
    learned = {"shift_": [0.0], "scale_": [1.0], "response_shift_": 0.0, "response_scale_": 1.0}
    estimator = sf.SteinClassifier().restore(result, {**learned, "classes_": [0, 1, 2], "n_features_in_": 1})
    y = np.array([generator.choice(3, p=p) for p in estimator.predict_proba(X)], float)
    evaluation = evaluate(estimator, X, y)
    assert evaluation["metrics"]["calibration_error"] < 0.03
    assert sum(count for _, _, count in evaluation["calibration"]) == np.sum(evaluation["confusion"]) == 5000
    # Confidences from a naive loop over the bins.
    confidence = estimator.predict_proba(X).max(axis=1)
    for mean, _, count in evaluation["calibration"]:
        bin_ = [c for c in confidence if np.ceil(10 * c) == np.ceil(10 * mean)]
        assert len(bin_) == count
        assert np.mean(bin_) == pytest.approx(mean)


def test_metrics_as_text():
    assert METRICS["accuracy"].text(0.5) == "50.0%"
    assert METRICS["rmse"].text(0.123456) == "0.1235"
    assert METRICS["r2"].text(None) == "–"


def test_zero_and_one_are_classes(of_flags):
    table = of_flags.held_out
    assert list(table) == ["row", "truth", "prediction", "P(0)", "P(1)", "log_likelihood"]
    assert set(table["truth"]) == {"0", "1"}
    np.testing.assert_array_equal(table["prediction"] == "1", table["P(1)"] > 0.5)
    likelihood = np.where(table["truth"] == "1", table["P(1)"], table["P(0)"])
    np.testing.assert_allclose(np.log(likelihood), table["log_likelihood"], rtol=1e-4)


def test_what_takes_the_place_of_missing_values(of_flags):
    fitted = of_flags.estimator
    known = fitted.target.about.frame
    gaps = pandas.DataFrame({"a": [np.nan, np.inf, 1.0], "code": [1, np.nan, 2], "color": ["red", None, "green"]})
    filled = fitted.filled(gaps)
    np.testing.assert_allclose(filled["a"], [known["a"].mean()] * 2 + [1.0])
    assert filled["code"].tolist() == [1, known["code"].mode()[0], 2]  # the mean of codes would be no code
    assert filled["color"].tolist() == ["red", known["color"].mode()[0], "green"]
    assert len(prediction_table(fitted, filled)) == 3


def test_rows_far_outside_are_named(of_numbers, of_flags):
    limits = of_numbers.limits
    frame = tables.numbers()
    assert about_far_rows(frame, limits) == []
    frame.loc[3, "b"] = 500.0
    [remark] = about_far_rows(frame, limits)
    assert remark.startswith("Row 4 lies far outside of the fitted rows: 'b' is 500, which was")
    frame.loc[7, "a"] = np.nan
    frame.loc[8, "a"] = -1e6
    assert "2 rows lie far outside of the fitted rows: in row 9, 'a' is -1" in about_far_rows(frame, limits)[0]
    assert set(of_flags.limits) == {"a"}  # a code has no range
