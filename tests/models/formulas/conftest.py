"""The table that most tests share."""

import example_tables
import pytest


@pytest.fixture(scope="session")
def table():
    """Numbers, classes, counts and groups, all of them with the same 60 rows."""
    return example_tables.mixed()
