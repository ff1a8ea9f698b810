"""Tables: reading, encoding, choosing a model, predicting, saving; nothing here runs inference."""

import dataclasses
import re
from types import SimpleNamespace

import example_tables as tables
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from scipy import stats

from steinflow.results.verdict import Finding, Remedy, Verdict
from steinflow.tables.advice import ADVICE, advice
from steinflow.tables.features import Category, Features, Number
from steinflow.tables.fitting import prepare
from steinflow.tables.parameters import Parameters
from steinflow.tables.predictions import evaluate, predict
from steinflow.tables.problems import Problem
from steinflow.tables.responses import Response, choose_kind
from steinflow.tables.runs import RunError, free_folder, write_whole
from steinflow.tables.tables import TableError, read_table, shown


def test_numbers_are_standardised_in_double_precision():
    # Seconds since 1970: single precision would lose all of their spread.
    frame = pandas.DataFrame({"t": 1.7e9 + np.arange(50.0), "n": np.arange(50), "b": [True, False] * 25})
    X, notes = Features.learn(frame).matrix(frame)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(X.std(axis=0), 1, rtol=1e-7)
    assert notes == []


def test_categories_are_compared_with_the_most_frequent_one():
    frame = pandas.DataFrame({"color": ["red"] * 3 + ["blue"] * 5 + ["green"] * 2})
    features = Features.learn(frame)
    assert features.columns == (Category("color", "blue", ("green", "red")),)
    assert features.labels == ["color = green", "color = red"]
    X, _ = features.matrix(pandas.DataFrame({"color": ["green", "blue", "red", None, "pink"]}))
    np.testing.assert_array_equal(X, [[1, 0], [0, 0], [0, 1], [np.nan, np.nan], [0, 0]])


def test_features_survive_json():
    features = Features.learn(tables.two_classes().drop(columns="y"))
    assert Features.from_json(features.to_json()).columns == features.columns


def test_a_feature_may_have_any_name():
    frame = tables.numbers().rename(columns={"a": "intercept", "b": "noise sd"})
    problem = prepare(frame, "y").problem
    assert problem.parameter_names() == ["intercept", "noise sd", "intercept", "prior sd of weights", "noise sd"]
    shift, scale = problem.response.shift, problem.response.scale
    np.testing.assert_allclose(
        problem.in_units(np.ones((1, 5))), [[scale, scale, scale + shift, 1.0, scale]], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", "c"], "classes"),
        ([True, False, True], "classes"),
        ([-1.5, 2.5, -1.5], "classes"),
        ([3, 4, 5], "classes"),
        ([0.1, 0.2, 0.3], "numbers"),
        (list(range(50)), "numbers"),
    ],
)
def test_the_model_follows_from_the_target(values, kind):
    assert choose_kind(pandas.Series(values, name="y"), None)[0] == kind


def test_labels_of_classes_do_not_depend_on_the_type():
    response = Response.learn(pandas.Series([2, 1, 10] * 2, name="y"), "classes")
    assert response.labels == ("1", "2", "10")
    np.testing.assert_array_equal(response.encode(pandas.Series([10.0, 1.0, 7.0, None])), [2, 0, np.nan, np.nan])


def test_every_class_is_held_out_by_its_share():
    frame = pandas.DataFrame({"a": np.arange(1000.0), "y": ["rare"] * 20 + ["often"] * 980})
    prepared = prepare(frame, "y", test_fraction=0.2)
    _, codes, rows = prepared.held_out
    assert len(codes) == 200
    assert np.sum(codes == 1) == 4
    assert len(np.unique(rows)) == 200
    assert len(prepared.y) == 800


def test_the_split_keeps_rows_apart():
    frame = tables.numbers(100)
    prepared = prepare(frame, "y", seed=3)
    X, y, rows = prepared.held_out
    response = prepared.problem.response
    np.testing.assert_allclose(y * response.scale + response.shift, frame["y"][rows - 1], rtol=1e-9)
    assert len(X) == 20
    assert len(prepared.X) == 80


def test_missing_values_are_filled_with_the_mean():
    frame = tables.numbers()
    frame.loc[:9, "a"] = np.nan
    frame.loc[10, "y"] = np.nan
    prepared = prepare(frame, "y", missing="mean")
    assert len(prepared.y) + len(prepared.held_out[1]) == 59
    assert np.sum(prepared.X == 0) + np.sum(prepared.held_out[0] == 0) == 10
    assert any("Filled in the mean" in note for note in prepared.notes)


def test_no_rows_left():
    frame = tables.numbers().assign(a=[np.nan, 1.0] * 30, b=[1.0, np.nan] * 30)
    with pytest.raises(TableError, match="has 0 rows left"):
        prepare(frame, "y", missing="drop")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    tables.numbers().to_csv(tmp_path / "data.csv")
    assert list(read_table(tmp_path / "data.csv").columns) == ["a", "b", "y"]


def test_names_from_files_cannot_control_the_terminal():
    assert "\x1b" not in shown("\x1b[31mred")
    assert len(shown("x" * 1000)) == 60


def linear(num_features=2, shift=100.0, scale=10.0):
    columns = tuple(Number(f"x{k}", 0.0, 1.0) for k in range(num_features))
    return Problem(Features(columns), Response("y", "numbers", (), shift, scale))


def test_predictions_of_numbers_are_those_of_the_mixture():
    generator = np.random.default_rng(0)
    w, log_gamma = generator.normal(size=(50, 3)), generator.normal(size=50) * 0.2
    particles = {"w": jnp.asarray(w), "log_alpha": jnp.zeros(50), "log_gamma": jnp.asarray(log_gamma)}
    X = generator.normal(size=(7, 2))
    predictions = predict(linear(), particles, X)
    means = np.column_stack([X, np.ones(7)]) @ w.T

    def cdf(y):
        return np.mean(stats.norm.cdf(((y - 100) / 10)[:, None], means, np.exp(-log_gamma / 2)), axis=1)

    np.testing.assert_allclose(predictions.mean, 100 + 10 * means.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(cdf(predictions.low), 0.05, atol=1e-4)
    np.testing.assert_allclose(cdf(predictions.high), 0.95, atol=1e-4)
    # What was drawn from the model is calibrated under it.
    X = generator.normal(size=(4000, 2))
    which = generator.integers(50, size=4000)
    y = np.sum(np.column_stack([X, np.ones(4000)]) * w[which], axis=1)
    y += np.exp(-log_gamma[which] / 2) * generator.normal(size=4000)
    evaluation = evaluate(linear(), particles, X, y)
    assert all(abs(expected - seen) < 0.03 for expected, seen, _ in evaluation["calibration"])
    error = 100 + 10 * y - predict(linear(), particles, X).mean
    assert evaluation["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)


def test_intervals_of_counts():
    problem = dataclasses.replace(linear(), response=Response("y", "counts"))
    particles = {"w": jnp.tile(jnp.array([0.5, 0.0, 1.0]), (3, 1)), "log_alpha": jnp.zeros(3)}
    X = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0]])
    predictions = predict(problem, particles, X)
    rates = np.exp(1 + 0.5 * X[:, 0])
    np.testing.assert_allclose(predictions.mean, rates, rtol=1e-4)
    np.testing.assert_array_equal(predictions.low, stats.poisson.ppf(0.05, rates))
    np.testing.assert_array_equal(predictions.high, stats.poisson.ppf(0.95, rates))


def test_figures_of_classes():
    problem = dataclasses.replace(linear(1), response=Response("y", "classes", ("no", "yes")))
    particles = {"w": jnp.array([[0.0, np.log(3.0)]]), "log_alpha": jnp.zeros(1)}  # always 3 to 1
    y = np.array([1.0] * 6 + [0.0] * 4)
    evaluation = evaluate(problem, particles, np.zeros((10, 1)), y)
    figures = evaluation["metrics"]
    assert figures["accuracy"] == pytest.approx(0.6)
    assert figures["calibration_error"] == pytest.approx(0.15, abs=1e-6)
    assert figures["log_likelihood"] == pytest.approx(0.6 * np.log(0.75) + 0.4 * np.log(0.25), abs=1e-5)
    assert evaluation["confusion"] == [[0, 4], [0, 6]]


def test_parameters_in_numbers():
    values = np.array([[1.0, 1e300], [3.0, 3e300]])
    parameters = Parameters(["a", "b"], values, np.array([0.25, 0.75]), 2)
    np.testing.assert_allclose(parameters.mean, [2.5, 2.5e300])
    np.testing.assert_allclose(parameters.sd, [np.sqrt(0.75), np.sqrt(0.75) * 1e300])
    np.testing.assert_allclose(parameters.quantiles((0.0, 1.0)), values)


def test_advice_is_about_commands():
    assert set(ADVICE) == set(Remedy)
    assert not any(re.search(r"result\.|sf\.", words) for words in ADVICE.values() if words is not None)
    verdict = Verdict("bad", (Finding("bad", "x", (Remedy.MORE_STEPS, Remedy.WEIGHTS, Remedy.MORE_STEPS)),), {})
    settings = {"method": "svgd", "num_steps": 1000, "num_particles": 100, "batch_size": None, "seed": 0}
    problem = prepare(tables.numbers(), "y").problem
    run = SimpleNamespace(settings=settings, result=SimpleNamespace(verdict=verdict), problem=problem)
    assert advice(run) == ["take more steps: --steps 4000"]


def test_nobody_is_sent_to_the_method_that_they_have():
    verdict = Verdict("bad", (Finding("bad", "x", (Remedy.DEFAULT_METHOD,)),), {})
    settings = {"num_steps": 1000, "num_particles": 100, "batch_size": None, "seed": 0}

    def advised(method, model):
        problem = prepare(tables.numbers(), "y", model=model).problem
        result = SimpleNamespace(verdict=verdict)
        return advice(SimpleNamespace(settings={**settings, "method": method}, result=result, problem=problem))

    assert advised("svgd-paper", None) == ["use the default method: leave out --method"]
    assert advised("svgd", None) == []
    assert "rows held out" in advised("svgd-network", "network")[0]


def test_files_appear_whole(tmp_path):
    write_whole(tmp_path / "deep" / "file.txt", "text")
    assert (tmp_path / "deep" / "file.txt").read_text() == "text"
    assert len(list((tmp_path / "deep").iterdir())) == 1
    with pytest.raises(RunError, match="is a folder"):
        write_whole(tmp_path, "text")


def test_free_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = free_folder("a/../b c")
    assert first.parts == ("runs", "a-..-b-c")
    first.mkdir(parents=True)
    assert free_folder("a/../b c").name == "a-..-b-c-2"
