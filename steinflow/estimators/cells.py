"""Checks of cells, under the name by which the command line knows them."""

from steinflow.models.cells import check_cells, check_kinds, describe_missing, missing_rows

__all__ = ["check_cells", "check_kinds", "describe_missing", "missing_rows"]
