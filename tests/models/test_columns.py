"""Columns of tables: names, cells and counts in words."""

import numpy as np
import pandas
import pytest

from steinflow.models.columns import (
    TableError,
    as_text,
    check_column,
    counted,
    in_formula,
    label_of,
    listed,
    nearest,
    shown,
)


def test_names_from_files_cannot_control_the_terminal():
    assert "\x1b" not in shown("\x1b[31mred")
    assert len(shown("x" * 1000)) == 60


def test_codes_have_one_name_whatever_the_type_of_the_column():
    whole, with_gap = pandas.DataFrame({"zip": [1, 2]}), pandas.DataFrame({"zip": [1.0, np.nan]})
    assert as_text(whole, ["zip"])["zip"].tolist() == ["1", "2"]
    assert as_text(with_gap, ["zip"])["zip"].iloc[0] == "1"
    assert as_text(with_gap, ["zip"])["zip"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", "x"),
        ("x.1", "x.1"),
        ("größe", "größe"),
        ("a b", "`a b`"),
        ("1st", "`1st`"),
        ("_x", "`_x`"),
        ("a\n", "`a�`"),
    ],
)
def test_names_in_formulas(name, expected):
    assert in_formula(name) == expected


def test_lists_and_counts():
    assert listed(["a", 1]) == "'a', '1'"
    assert listed("abcde", most=3) == "'a', 'b', 'c' and 2 more"
    assert counted(1, "row") == "1 row"
    assert counted(1200, "row") == "1,200 rows"
    assert counted(0, "row") == "0 rows"


@pytest.mark.parametrize(("value", "label"), [(1, "1"), (1.0, "1"), (np.float32(2), "2"), (1.5, "1.5"), ("a", "a")])
def test_labels_do_not_depend_on_the_type(value, label):
    assert label_of(value) == label


def test_a_column_that_is_not_there():
    frame = pandas.DataFrame({"Age": [1], "price": [2]})
    check_column(frame, "price", "data.csv")
    for name, guess in (("age", "Age"), ("prize", "price")):
        with pytest.raises(TableError, match=rf"no column '{name}' in data.csv. Did you mean '{guess}'\?"):
            check_column(frame, name, "data.csv")
    with pytest.raises(TableError, match=r"in data.csv\. Its columns are 'Age', 'price'"):
        check_column(frame, "zzz", "data.csv")


def test_the_nearest_name():
    assert nearest("AGE", ["cage", "age"]) == "age"
    assert nearest("heigth", ["weight", "height"]) == "height"
    assert nearest("q", ["weight", "height"]) is None
