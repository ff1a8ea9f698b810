"""From columns to a matrix."""

import example_tables as tables
import numpy as np
import pandas

from steinflow.estimators.features import Category, Features, Number


def test_numbers_stay_as_they_are():
    frame = pandas.DataFrame({"t": 1.7e9 + np.arange(50.0), "n": np.arange(50), "b": [True, False] * 25})
    features = Features.learn(frame)
    X, notes = features.matrix(frame)
    np.testing.assert_array_equal(X, frame.astype(float))
    assert features.columns == (
        Number("t", 1.7e9 + 24.5, limits=(1.7e9, 1.7e9 + 49)),
        Number("n", 24.5, limits=(0, 49)),
        Number("b", 0.5, is_flag=True, limits=(0, 1)),
    )
    assert notes == []


def test_categories_are_compared_with_the_most_frequent_one():
    frame = pandas.DataFrame({"color": ["red"] * 3 + ["blue"] * 5 + ["green"] * 2})
    features = Features.learn(frame)
    assert features.columns == (Category("color", "blue", ("green", "red")),)
    assert features.labels == ["color = green", "color = red"]
    X, notes = features.matrix(pandas.DataFrame({"color": ["green", "blue", "red", None, "pink"]}))
    np.testing.assert_array_equal(X, [[1, 0], [0, 0], [0, 1], [np.nan, np.nan], [0, 0]])
    assert "'pink'" in notes[0]


def test_missing_values_are_filled():
    features = Features((Number("a", 2.5), Category("b", "u", ("v", "w"))))
    X = features.filled(np.array([[np.nan, 1.0, 0.0], [1.0, np.nan, np.nan]]))
    np.testing.assert_array_equal(X, [[2.5, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(features.are_numbers, [True, False, False])


def test_features_survive_json():
    features = Features.learn(tables.two_classes().drop(columns="y"))
    assert Features.from_json(features.to_json()).columns == features.columns
