"""The column to predict."""

import numpy as np
import pandas
import pytest

from steinflow.tables.responses import Response, choose_kind


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
    assert response.decode(np.array([2.0, 0.0])).tolist() == ["10", "1"]


def test_numbers_and_counts_stay_as_they_are():
    values = pandas.Series([3.0, 0.5, -1.0, np.nan])
    np.testing.assert_array_equal(Response("y", "numbers").encode(values), values)
    np.testing.assert_array_equal(Response("y", "counts").encode(values), [3.0, np.nan, np.nan, np.nan])
