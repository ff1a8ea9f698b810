"""Cells that no regression can use as they are, and the option that reads them."""

import numpy as np
import pandas
import pytest

from steinflow.models.cells import check_cells, check_kinds, describe_missing, missing_rows
from steinflow.models.columns import TableError
from steinflow.tables.remedies import OPTIONS


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["3,5", "12,25", "0,5"], "add --decimal ','."),
        (["1,250.50", "31,000.25", "999,111.00"], "add --thousands ','."),
        (["1,250", "31,000", "999,111"], "--thousands ',' if the comma separates thousands, or add --decimal ','"),
        (["1,250,000", "31,000", "999,111"], "add --thousands ','."),
        (["1.250,50", "31.000,25"], "add --thousands '.' --decimal ','."),
        (["1 250", "31 000"], "add --thousands ' '."),
        (["$1,250", "$31", "$9.50"], "without signs of currency"),
        (["12 €", "13 €"], "without signs of currency"),
        (["45%", "50%"], "without signs of currency"),
        (["12.5 kg", "13 kg"], "units"),
        (["50\N{NO-BREAK SPACE}126", "49\N{NARROW NO-BREAK SPACE}868"], "separators"),
        (["(1,250.50)", "31,000.25"], "without signs of currency"),
        (["2020-01-05", "2020-02-06"], "dates or times"),
        (["2020/01/05", "2020/02/06"], "dates or times"),
        (["2020-01", "2020-12"], "dates or times"),
        (["05-Jan-2020", "6 February 2020"], "dates or times"),
        (["January 08, 2020", "Feb. 9 2020"], "dates or times"),
        (["05:00", "23:15:07"], "dates or times"),
        (["1", "2", "?"], "--missing-marker '?'"),
    ],
)
def test_numbers_that_are_written_for_people(cells, advice):
    with pytest.raises(TableError) as error:
        check_cells("price", pandas.Series(cells), OPTIONS, "leave it out")
    assert advice in str(error.value)
    assert "'price'" in str(error.value)


@pytest.mark.parametrize(
    "cells",
    [
        ["red", "5 red", "blue"],
        ["18-25", "26-35"],
        ["A1", "B,2", "C"],
        ["1", "2"],
        ["1st", "2nd"],
        ["2013-14", "2014-15"],
    ],
)
def test_text_stays_text(cells):
    check_cells("a", pandas.Series(cells), OPTIONS, "leave it out")


def test_text_of_many_values_is_offered_as_a_group():
    frame = pandas.DataFrame({"g": [f"s{k % 30}" for k in range(60)]})
    with pytest.raises(TableError, match=r"\(1 \| g\)"):
        check_kinds(frame, OPTIONS)
    check_kinds(frame, OPTIONS, free=frozenset({"g"}))


def test_missing_and_infinite():
    frame = pandas.DataFrame({"a": [1.0, np.nan, np.inf, 4.0], "b": ["x", "y", None, "z"], "c": [1, 2, 3, 4]})
    assert missing_rows(frame).tolist() == [False, True, True, False]
    assert describe_missing(frame) == "2 of 4 rows have missing or infinite values, in 'a' (2), 'b' (1)"
