"""Data sets of different lengths in one array."""

import numpy as np
import pytest

from steinflow.targets.data import grouped, padded
from steinflow.targets.padding import rows_by_group


def test_rows_stay_and_the_rest_has_no_weight():
    sets = [{"x": np.arange(6.0).reshape(3, 2), "y": np.array([1, 2, 3])}, {"x": np.ones((1, 2)), "y": np.array([7])}]
    data, weights = padded(sets)
    assert data["x"].shape == (2, 3, 2)
    np.testing.assert_array_equal(weights, [[1, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(data["y"], [[1, 2, 3], [7, 7, 7]])
    np.testing.assert_array_equal(data["x"][0], sets[0]["x"])


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([], "no data sets"),
        ([np.ones(3), np.ones(0)], "set 1 has no rows"),
        ([(np.ones(3), np.ones(2))], "in set 0"),
        ([np.ones((3, 2)), np.ones((3, 4))], "set 1 has the structure"),
    ],
)
def test_sets_that_cannot_be_padded(sets, expected):
    with pytest.raises(ValueError, match=expected):
        padded(sets)


def test_groups_of_a_table_are_data_sets_with_names():
    data, weights, names = grouped({"y": np.arange(5.0)}, by=[2, 10, 2, 2, 10])
    assert names == ["2", "10"]
    np.testing.assert_array_equal(weights, [[1, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(data["y"], [[0, 2, 3], [1, 4, 1]])


def test_several_columns_make_a_group_together():
    found = rows_by_group(np.array([[2.0, "b"], [10.0, "a"], [2.0, "b"], [2.0, "a"]], dtype=object))
    assert {name: rows.tolist() for name, rows in found.items()} == {"2, a": [3], "2, b": [0, 2], "10, a": [1]}
    assert list(rows_by_group(np.array(["x", 3], dtype=object))) == ["3", "x"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["a", "b"], "2 groups"),
        (["a", None, "b"], "1 rows have no group, the first is row 1"),
        ([1, 2, np.nan], "row 2"),
    ],
)
def test_rows_without_a_group(by, expected):
    with pytest.raises(ValueError, match=expected):
        grouped(np.zeros(3), by)
