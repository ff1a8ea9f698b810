"""Which rows are fitted and which are held out."""

import example_tables as tables
import jax
import numpy as np
import pandas
import pytest

from steinflow.devices.keys import as_key
from steinflow.estimators import base
from steinflow.models.columns import TableError
from steinflow.models.families import Gaussian
from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.tables.fitting import prepare, run_fit


def test_every_class_is_held_out_by_its_share():
    frame = pandas.DataFrame({"a": np.arange(1000.0), "y": ["rare"] * 20 + ["often"] * 980})
    prepared = prepare(frame, "y", test_fraction=0.2)
    _, codes, rows = prepared.held_out
    assert len(codes) == 200
    assert np.sum(codes == 1) == 4
    assert len(np.unique(rows)) == 200
    assert len(prepared.y) == 800


@pytest.mark.parametrize("test_fraction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("counts", [[1, 30], [2, 2, 2], [1, 1, 1, 9], [3, 4], [1] * 10 + [12]])
def test_every_class_is_fitted(counts, test_fraction):
    labels = np.repeat([f"c{k}" for k in range(len(counts))], counts)
    prepared = prepare(
        pandas.DataFrame({"a": np.arange(float(len(labels))), "y": labels}), "y", test_fraction=test_fraction
    )
    assert set(prepared.y) == set(range(len(counts)))
    assert len(prepared.y) + len(prepared.held_out[1]) == len(labels)
    assert len(prepared.held_out[1]) >= 1


def test_the_split_keeps_rows_apart():
    frame = tables.numbers(100)
    prepared = prepare(frame, "y", seed=3)
    X, y, rows = prepared.held_out
    np.testing.assert_array_equal(y, frame["y"][rows - 1])
    np.testing.assert_array_equal(X, frame[["a", "b"]].iloc[rows - 1])
    np.testing.assert_array_equal(prepared.X, frame[["a", "b"]].drop(index=rows - 1))
    assert len(X) == 20
    assert not np.array_equal(rows, prepare(frame, "y", seed=4).held_out[2])


def test_nothing_held_out():
    prepared = prepare(tables.two_classes(), "y", test_fraction=0)
    assert len(prepared.y) == 120
    assert len(prepared.held_out[1]) == 0


def test_missing_values_are_filled_with_the_mean():
    frame = tables.numbers()
    frame.loc[:9, "a"] = np.nan
    frame.loc[10, "y"] = np.nan
    prepared = prepare(frame, "y", missing="mean")
    assert len(prepared.y) + len(prepared.held_out[1]) == 59
    values = np.concatenate([prepared.X[:, 0], prepared.held_out[0][:, 0]])
    assert np.sum(values == prepared.problem.features.columns[0].mean) == 10
    assert any("Filled in the mean" in note for note in prepared.notes)


def test_missing_text_may_be_a_level():
    frame = tables.two_classes()
    frame["color"] = frame["color"].where(np.arange(120) % 5 > 0, None)
    frame.loc[1:3, "a"] = np.nan
    prepared = prepare(frame, "y", missing="level")
    assert len(prepared.y) + len(prepared.held_out[1]) == 117
    [color] = [column for column in prepared.problem.features.columns if column.name == "color"]
    assert "missing" in color.values
    assert any("'color' are a level of their own, 'missing'" in note for note in prepared.notes)
    again, _ = prepared.problem.features.matrix(frame.assign(a=0.0))
    assert np.isfinite(again).all()
    column = prepared.problem.features.labels.index("color = missing")
    np.testing.assert_array_equal(again[:, column], frame["color"].isna())


def test_no_rows_left():
    frame = tables.numbers().assign(a=[np.nan, 1.0] * 30, b=[1.0, np.nan] * 30)
    with pytest.raises(TableError, match="has 0 rows left"):
        prepare(frame, "y", missing="drop")


def test_what_a_run_knows(of_classes, of_numbers):
    assert of_classes.settings["method"] == "svgd"
    assert of_classes.settings["num_particles"] == 20
    assert of_classes.settings["num_steps"] == 60
    assert of_classes.settings["batch_size"] is None
    assert of_classes.data["num_rows"] == 96
    assert of_classes.evaluation["num_rows"] == len(of_classes.held_out) == of_classes.data["num_held_out"] == 24
    assert of_numbers.start.shape == (20, 5)
    assert of_numbers.result.history["parameters"].shape[1:] == (20, 5)
    np.testing.assert_array_equal(of_numbers.held_out["truth"], tables.numbers()["y"][of_numbers.held_out["row"] - 1])


def test_start_and_run_have_keys_of_their_own(monkeypatch):
    seen = {}

    def fit(target, method, *, particles, key, **others):
        seen.update(particles=particles, key=as_key(key))
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "fit", fit)
    prepared = prepare(tables.numbers(), "y")
    with pytest.raises(KeyboardInterrupt):
        run_fit(prepared, num_particles=20, seed=3)
    model = GeneralizedLinear(prepared.X, prepared.y, Gaussian())
    for key in (seen["key"], as_key(3)):
        from_the_key = jax.vmap(model.sample_prior)(jax.random.split(key, 20))
        # Of precisions alone, whose prior does not depend on where the estimator expects the intercept.
        assert not np.array_equal(from_the_key["log_alpha"], seen["particles"]["log_alpha"])
    assert not np.array_equal(jax.random.key_data(seen["key"]), jax.random.key_data(as_key(3)))


def test_unknown_method():
    with pytest.raises(ValueError, match="no method 'magic'"):
        run_fit(prepare(tables.numbers(), "y"), method="magic")


def test_codes_become_categories_where_asked_for():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"zip": rng.integers(10_001, 10_031, 120), "a": rng.normal(size=120)}).assign(
        y=rng.normal(size=120)
    )
    prepared = prepare(frame, "y")
    assert prepared.problem.features.labels == ["zip", "a"]
    assert any("--categorical zip" in note for note in prepared.notes)
    prepared = prepare(frame, "y", categorical=["zip"])  # more than text may have without being asked for
    features = prepared.problem.features
    assert len(features.columns[0].values) == frame["zip"].nunique() - 1
    assert not any("--categorical" in note for note in prepared.notes)
    # A gap turns the column of a new table into floats; the codes stay the same.
    block = features.matrix(pandas.DataFrame({"zip": [10_005.0, np.nan], "a": [0.0, 0.0]}))[0]
    assert block[0, features.labels.index("zip = 10005")] == 1


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (pandas.date_range("2020-01-01", periods=60).astype(str), "dates or times"),
        ([f"${k},000" for k in range(60)], "without signs of currency"),
        (pandas.date_range("2020-01-01", periods=60).strftime("%Y%m%d").astype(int), "dates written as numbers"),
    ],
)
def test_a_target_that_no_regression_takes(y, words):
    with pytest.raises(TableError, match=words):
        prepare(tables.numbers().assign(y=y), "y")


def test_counts_and_collinear_columns_are_remarked_upon():
    frame = tables.counts()
    assert "--model poisson" in prepare(frame.assign(y=3 * frame["y"]), "y").reason
    notes = prepare(frame.assign(c=frame["a"] - frame["b"]), "y", model="poisson").notes
    assert any("'a', 'b', 'c'" in note and "linear combinations" in note for note in notes)


def test_separation_is_said_of_classes():
    frame = tables.counts()
    apart = frame.assign(y=np.where(frame["a"] + 2 * frame["b"] > 0, "high", "low"))
    assert any("'a', 'b' together separate" in note for note in prepare(apart, "y").notes)
    assert not any("separate" in note for note in prepare(apart, "y", model="network").notes)
