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
