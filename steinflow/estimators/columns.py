"""Columns in words, under the name by which the command line knows them."""

from steinflow.models.columns import (
    Column,
    Frame,
    TableError,
    as_text,
    check_column,
    counted,
    in_formula,
    label_of,
    listed,
    shown,
)

__all__ = [
    "Column",
    "Frame",
    "TableError",
    "as_text",
    "check_column",
    "counted",
    "in_formula",
    "label_of",
    "listed",
    "shown",
]
