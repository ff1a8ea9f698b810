"""Reading files; what can be wrong with them is in tests/cli/test_misuse.py."""

import example_tables as tables

from steinflow.tables.tables import read_table, shown


def test_the_index_of_pandas_is_no_feature(tmp_path):
    tables.numbers().to_csv(tmp_path / "data.csv")
    assert list(read_table(tmp_path / "data.csv").columns) == ["a", "b", "y"]


def test_names_from_files_cannot_control_the_terminal():
    assert "\x1b" not in shown("\x1b[31mred")
    assert len(shown("x" * 1000)) == 60
