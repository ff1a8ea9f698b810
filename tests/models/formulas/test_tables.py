"""Tables of any library as pandas, and the rows that can be used."""

import decimal

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.tables import as_frame, as_known, check_columns, complete_rows


def test_a_table_is_a_table():
    with pytest.raises(TypeError, match="table of pandas, Polars or Arrow"):
        sf.formula("y ~ x", np.zeros((3, 2)))


def test_missing_rows_are_dropped_and_said(table):
    gaps = table.assign(x=table["x"].where(table.index != 3), t=table["t"].where(table.index > 10, np.inf))
    with pytest.warns(UserWarning, match=r"Dropped 1 of 60 rows with missing or infinite values: 'x' \(1\)"):
        target = sf.formula("y ~ x", gaps)
    assert target.observations.labels().coords["row"] == [i for i in range(60) if i != 3]


def test_decimals_are_numbers(table):
    prices = table.assign(x=[decimal.Decimal(f"{value:.2f}") for value in table["x"]])
    target = sf.formula("y ~ x", prices)
    assert target.rows(prices[:2])["predictors"]["mu"]["X"].shape == (2, 1)


COLUMNS = {"a": [1.5, 2.5, 3.5], "b": ["u", "v", "u"]}
CODED = pyarrow.table(
    {"a": COLUMNS["a"], "b": pyarrow.array(COLUMNS["b"]).cast(pyarrow.dictionary(pyarrow.uint32(), pyarrow.string()))}
)


@pytest.mark.parametrize(
    "table",
    [COLUMNS, pandas.DataFrame(COLUMNS, index=[7, 8, 9]), polars.DataFrame(COLUMNS), pyarrow.table(COLUMNS), CODED],
    ids=["dict", "pandas", "polars", "arrow", "arrow with unsigned codes"],
)
def test_tables_of_all_libraries(table):
    frame = as_frame(table)
    assert frame.index.tolist() == [0, 1, 2]
    assert {name: frame[name].tolist() for name in frame} == COLUMNS


def test_two_columns_of_one_name():
    with pytest.raises(FormulaError, match="two columns named 'a'"):
        as_frame(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_unknown_columns():
    frame = pandas.DataFrame({f"c{k}": [0] for k in range(12)})
    check_columns(frame, ["c1", "f"], known=["f"])
    with pytest.raises(FormulaError, match=r"no column 'C3' in the table. Did you mean 'c3'\? .* 'c9', \.\.\.\.$"):
        check_columns(frame, ["C3"])


def test_rows_with_gaps_or_infinities_are_left_out():
    frame = pandas.DataFrame({"a": [1, np.nan, np.inf, 4, 5], "b": ["u", "v", "u", None, "v"], "c": [np.nan] * 5})
    used, rows, [note] = complete_rows(frame, ["a", "b"])
    np.testing.assert_array_equal(rows, [0, 4])
    assert used.to_dict("list") == {"a": [1, 5], "b": ["u", "v"]}
    assert note == "Dropped 3 of 5 rows with missing or infinite values: 'a' (2), 'b' (1)."
    assert complete_rows(frame.iloc[:1], ["a"])[2] == ()
    with pytest.raises(FormulaError, match="No row of the table is complete in the columns 'a', 'c'"):
        complete_rows(frame, ["a", "c"])


def test_columns_as_they_are_used():
    levels = pandas.Series(pandas.Categorical(["u", "v"], ["u", "v", "w"]))
    assert as_known(levels).cat.categories.tolist() == ["u", "v"]
    numbers = pandas.Series([1, 2.5], dtype=object)
    assert as_known(numbers).dtype == float
    for values in (["a", 1], [1j, 2j]):
        with pytest.raises(FormulaError, match="make all of them numbers, or all text"):
            as_known(pandas.Series(values))
