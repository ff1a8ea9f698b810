"""Reading files; what can be wrong with them is in tests/cli/test_misuse.py."""

import example_tables as tables
import numpy as np
import pandas
import pytest

from steinflow.models.columns import TableError
from steinflow.tables.tables import csv_text, read_cells, read_table


def test_the_index_of_pandas_is_no_feature(tmp_path):
    tables.numbers().to_csv(tmp_path / "data.csv")
    assert list(read_table(tmp_path / "data.csv").columns) == ["a", "b", "y"]


def test_the_options_read_such_numbers(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text('a,b\n"1,250.5",1\n"31,000",2\n')
    assert read_table(path, thousands=",")["a"].tolist() == [1250.5, 31000]
    with pytest.raises(TableError, match="one character"):
        read_table(path, thousands=".")


@pytest.mark.parametrize("header", ["a,y,y", "a, y ,y", '"y",a,y'])
def test_a_repeated_header_is_refused(header, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"{header}\n1,2,3\n4,5,6\n")
    with pytest.raises(TableError, match="several columns with the same name, 'y'"):
        read_table(path)


def test_columns_may_be_called_so_that_pandas_would_have_made_it_up(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,y,y.1\n1,2,3\n4,5,6\n")
    assert list(read_table(path).columns) == ["a", "y", "y.1"]


def test_no_cell_of_a_written_table_is_a_formula_and_all_come_back(tmp_path):
    cells = ["=1+1", "+2", "-2", "-x", "@sum", "'quoted", "plain", "1e5", "\tx"]
    frame = pandas.DataFrame({"=head": cells, "n": np.arange(len(cells)) - 4.0})
    path = tmp_path / "out.csv"
    path.write_text(csv_text(frame), "utf-8")
    raw = pandas.read_csv(path, dtype=str)
    assert raw["'=head"].tolist() == ["'=1+1", "+2", "-2", "'-x", "'@sum", "'quoted", "plain", "1e5", "'\tx"]
    back = read_cells(path)
    assert back["=head"].tolist() == cells
    assert back["n"].astype(float).tolist() == frame["n"].tolist()


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', "names of rows ('Mazda RX4', 'Datsun 710', ...)"),
        ('"mpg","cyl"\n"1",21,6\n"2",22.8,4\n', "names of rows"),
        ("mpg,cyl\n21,6,\n22.8,4,\n", "ends with a separator"),
    ],
)
def test_one_field_more_than_the_header(tmp_path, lines, note):
    path = tmp_path / "data.csv"
    path.write_text(lines)
    frame = read_table(path)
    assert frame.to_dict("list") == {"mpg": [21.0, 22.8], "cyl": [6, 4]}
    assert note in frame.attrs["notes"][0]


@pytest.mark.parametrize("lines", ["a,y\n0.5,2,3\n0.6,5,6\n", "a,y\n7,2,3\n7,5,\n", "a,y\n0,1,2,3\n0,4,5,6\n"])
def test_columns_are_not_shifted(tmp_path, lines):
    path = tmp_path / "data.csv"
    path.write_text(lines)
    with pytest.raises(TableError, match="the header has 2 fields and the line below it"):
        read_table(path)
