"""Tables with columns of text: the same features as on the command line, levels remembered, words about them."""

import json
import pickle

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import steinflow as sf
from steinflow.estimators.rows import checked_data
from steinflow.tables.fitting import prepare

generator = np.random.default_rng(0)
ROWS = 120
TABLE = pandas.DataFrame(
    {
        "size": generator.normal(size=ROWS),
        "color": generator.choice(["blue", "green", "red"], size=ROWS, p=[0.5, 0.3, 0.2]),
        "grade": pandas.Categorical(generator.choice(["a", "b"], size=ROWS, p=[0.7, 0.3]), categories=["a", "b", "c"]),
        "new": generator.random(ROWS) < 0.4,
    }
)
Y = TABLE["size"] + 2 * (TABLE["color"] == "red") - 3 * (TABLE["grade"] == "b") + TABLE["new"]
Y += 0.3 * generator.normal(size=ROWS)
LABELS = ["size", "color = green", "color = red", "grade = b", "new"]
ENCODED = np.column_stack(
    [TABLE["size"], TABLE["color"] == "green", TABLE["color"] == "red", TABLE["grade"] == "b", TABLE["new"]]
).astype(float)
EASY = {"num_particles": 20, "num_steps": 200, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return sf.SteinRegressor(**EASY).fit(TABLE, Y)


def test_text_is_encoded_as_by_hand(fitted):
    by_hand = sf.SteinRegressor(**EASY).fit(ENCODED, Y)
    np.testing.assert_array_equal(fitted.predict(TABLE), by_hand.predict(ENCODED))
    assert list(fitted.feature_names_in_) == ["size", "color", "grade", "new"]
    assert fitted.n_features_in_ == 4
    found = fitted.coefficients()
    assert list(found.index) == ["intercept", *LABELS]
    np.testing.assert_allclose(found["mean"], [0, 1, 0, 2, -3, 1], atol=0.3)
    np.testing.assert_array_equal(fitted.features_.matrix(TABLE)[0], ENCODED)


def test_the_command_line_sees_the_same_features(fitted):
    prepared = prepare(TABLE.assign(y=Y), "y", test_fraction=0)
    assert prepared.problem.features == fitted.features_
    np.testing.assert_array_equal(prepared.X, ENCODED)


def test_polars(fitted):
    table = polars.from_pandas(TABLE)
    np.testing.assert_array_equal(fitted.predict(table), fitted.predict(TABLE))
    assert np.shape(fitted.predict(table.to_arrow())) == (ROWS,)
    learned = sf.SteinRegressor()
    np.testing.assert_array_equal(checked_data(learned, table, Y, reset=True)[0], ENCODED)
    assert list(learned.feature_names_in_) == list(TABLE.columns)


def test_one_row_with_one_level_only(fitted):
    np.testing.assert_allclose(fitted.predict(TABLE[7:8]), fitted.predict(TABLE)[7:8])


def test_kept_in_files(fitted):
    back = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(back.predict(TABLE), fitted.predict(TABLE))
    restored = clone(fitted).restore(fitted.result_, json.loads(json.dumps(fitted.learned())))
    np.testing.assert_array_equal(restored.predict(TABLE), fitted.predict(TABLE))
    assert list(restored.coefficients().index) == ["intercept", *LABELS]


def test_a_level_that_was_never_seen_counts_as_the_most_frequent_one(fitted):
    with pytest.warns(UserWarning, match=r"never seen, 'pink': they are treated as 'blue'"):
        mean = fitted.predict(TABLE[:3].assign(color="pink"))
    np.testing.assert_array_equal(mean, fitted.predict(TABLE[:3].assign(color="blue")))


def test_other_tables_are_refused(fitted):
    with pytest.raises(ValueError, match=r"needs a table with the same columns; got numpy\.ndarray"):
        fitted.predict(ENCODED)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(TABLE.rename(columns={"size": "length"}))
    with pytest.raises(ValueError, match=r"1 of 3 rows have missing or infinite values, in 'color' \(1\)"):
        fitted.predict(TABLE[:3].assign(color=["red", None, "blue"]))
    with pytest.raises(ValueError, match="held numbers when the model was fitted"):
        fitted.predict(TABLE[:3].assign(size="large"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"n{k}" for k in range(ROWS)], r"sf\.formula\(.*\(1 \| given\)"),
        (["1,5", "2,25"] * (ROWS // 2), "read the file with decimal=','"),
        (["?", *map(str, range(ROWS - 1))], r"na_values='\?'"),
        (pandas.date_range("2020-01-01", periods=ROWS), "dates or times"),
        (["a", None] * (ROWS // 2), r"In X, 60 of 120 rows have missing"),
    ],
    ids=["names", "decimal comma", "marker", "dates", "missing"],
)
def test_columns_that_cannot_be_used_are_said_in_words_of_python(column, message):
    with pytest.raises(ValueError, match=message) as error:
        sf.SteinClassifier().fit(TABLE.assign(given=column), Y > 0)
    assert "--" not in str(error.value)


def test_dates_are_nothing_to_predict():
    y = np.arange("2020-01-01", "2020-01-21", dtype="datetime64[D]")
    with pytest.raises(ValueError, match="y holds dates or times"):
        sf.SteinRegressor().fit(np.arange(20.0)[:, None], y)


def test_a_constant_column_of_text_is_left_out():
    estimator = sf.SteinRegressor()
    with pytest.warns(UserWarning, match="Left out because constant: 'land'"):
        rows, _ = checked_data(estimator, TABLE.assign(land="CH"), Y, reset=True)
    np.testing.assert_array_equal(rows, ENCODED)
    assert estimator.n_features_in_ == 5


def test_numbers_in_columns_of_objects_and_with_gaps_stay_numbers():
    estimator = sf.SteinRegressor()
    table = pandas.DataFrame({1: pandas.Series([1, 2.5, 3], dtype=object), 2: pandas.array([1, 2, 3], dtype="Int64")})
    np.testing.assert_array_equal(checked_data(estimator, table, Y[:3], reset=True)[0], [[1, 1], [2.5, 2], [3, 3]])
    assert not hasattr(estimator, "features_")
    checked_data(estimator, table.assign(t=["u", "v", "u"]).rename(columns=str), Y[:3], reset=True)
    assert estimator.features_.labels == ["1", "2", "t = v"]
    checked_data(estimator, table, Y[:3], reset=True)  # a new fit forgets the old one
    assert not hasattr(estimator, "features_")


@pytest.mark.slow
def test_classes_more_rows_and_cross_validation():
    classes = np.where(Y > 0, "up", "down")
    scores = cross_val_score(sf.SteinClassifier(**EASY), TABLE, classes, cv=3)
    assert scores.mean() > 0.8
    parts = sf.SteinRegressor(random_state=0)
    for rows in (slice(0, 60), slice(60, ROWS)):
        parts.partial_fit(TABLE[rows], Y[rows])
    whole = sf.SteinRegressor(random_state=0).fit(TABLE, Y)
    np.testing.assert_allclose(parts.coefficients()["mean"], whole.coefficients()["mean"], atol=0.1)
