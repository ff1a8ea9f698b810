"""Tables of any library as pandas, which formulae works on, and the rows that can be used."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from steinflow.models.columns import MISSING_LEVEL, nearest
from steinflow.models.formulas.syntax import FormulaError

# What pandas calls a DataFrame; its own types help no checker.
Frame = Any


def as_frame(table: Any) -> Frame:
    """Return a table of pandas, Polars or Arrow, or a dict of columns, as a pandas table with rows 0, 1, 2, ..."""
    import pandas

    if isinstance(table, Mapping):
        table = pandas.DataFrame({name: np.asarray(column) for name, column in table.items()})
    elif type(table).__module__.startswith("pyarrow"):
        table = _with_plain_levels(table).to_pandas()
    elif hasattr(table, "to_pandas"):  # Polars
        table = table.to_pandas()
    if not isinstance(table, pandas.DataFrame):
        raise TypeError(
            "data must be a table of pandas, Polars or Arrow, or a dict of columns; "
            f"got {type(table).__module__}.{type(table).__name__}."
        )
    if table.columns.duplicated().any():
        raise FormulaError(f"The table has two columns named {table.columns[table.columns.duplicated()][0]!r}.")
    return table.reset_index(drop=True)


def _with_plain_levels(table: Any) -> Any:
    """Return an Arrow table with text in place of categories with unsigned codes, which Polars writes.

    Few versions of pyarrow turn these into pandas.
    """
    import pyarrow

    def plain(kind):
        coded = pyarrow.types.is_dictionary(kind) and pyarrow.types.is_unsigned_integer(kind.index_type)
        return kind.value_type if coded else kind

    return table.cast(pyarrow.schema([field.with_type(plain(field.type)) for field in table.schema]))


def check_columns(frame: Frame, names: Collection[str], known: Collection[str] = ()) -> None:
    """Refuse names that are neither columns nor known otherwise, with the nearest column."""
    for name in sorted(set(map(str, names)) - set(frame.columns) - set(known)):
        guess = nearest(name, map(str, frame.columns))
        hint = f" Did you mean {guess!r}?" if guess else ""
        some = ", ".join(repr(str(column)) for column in frame.columns[:10])
        more = ", ..." if frame.shape[1] > 10 else ""
        raise FormulaError(f"There is no column {name!r} in the table.{hint} Its columns are {some}{more}.")


def complete_rows(frame: Frame, names: Collection[str]) -> tuple[Frame, np.ndarray, tuple[str, ...]]:
    """Return the rows without missing or infinite values in these columns, which they are, and what was dropped."""
    used = frame[[name for name in frame.columns if name in set(names)]]
    missing = {}
    for name in used.columns:
        gaps = used[name].isna().to_numpy(bool)
        if used[name].dtype.kind == "f":
            gaps = gaps | np.isinf(used[name].to_numpy(float, na_value=np.nan))
        missing[name] = gaps
    dropped = np.logical_or.reduce(list(missing.values())) if missing else np.zeros(len(frame), bool)
    if dropped.all():
        raise FormulaError(f"No row of the table is complete in the columns {', '.join(map(repr, missing))}.")
    if not dropped.any():
        return used, np.arange(len(frame)), ()
    where = ", ".join(f"{name!r} ({gaps.sum():,})" for name, gaps in missing.items() if gaps.any())
    note = f"Dropped {dropped.sum():,} of {len(frame):,} rows with missing or infinite values: {where}."
    return used[~dropped].reset_index(drop=True), np.flatnonzero(~dropped), (note,)


def text_with_gaps(frame: Frame) -> tuple[str, ...]:
    """Return the columns of text, categories or truth values in which values are missing."""
    from pandas.api.types import infer_dtype

    gaps = [name for name in frame.columns if frame[name].isna().any() and frame[name].notna().any()]
    kinds = ("string", "boolean", "categorical")
    return tuple(name for name in gaps if infer_dtype(frame[name], skipna=True) in kinds)


def with_missing_level(values: Any) -> Any:
    """Return a column of text whose missing values are a level, the last one, and not the reference."""
    import pandas

    text = values.astype(object).map(str, na_action="ignore")
    order = map(str, values.cat.categories) if hasattr(values, "cat") else sorted(set(text.dropna()))
    levels = [level for level in order if level != MISSING_LEVEL]
    return pandas.Series(
        pandas.Categorical(text.fillna(MISSING_LEVEL), [*levels, MISSING_LEVEL], ordered=True), name=values.name
    )


def as_levels(names: Collection[str]) -> str:
    """Return the remark about columns whose missing values are a level."""
    return f"Missing values of {', '.join(map(repr, names))} are a level of their own, {MISSING_LEVEL!r}."


def as_known(values: Any) -> Any:
    """Return a column with its unused levels left out; decimals become floats, dates and mixtures are refused."""
    from pandas.api.types import infer_dtype

    kind = infer_dtype(values) if values.dtype.kind == "O" and not hasattr(values, "cat") else ""
    if kind in ("decimal", "integer", "floating", "mixed-integer-float"):
        return values.astype(float)
    if kind.startswith("mixed") or values.dtype.kind == "c":
        some = ", ".join(sorted({type(value).__name__ for value in values}))
        raise FormulaError(f"Column {values.name!r} holds {some} values; make all of them numbers, or all text.")
    if values.dtype.kind in "Mm" or kind in ("date", "datetime", "datetime64", "time", "timedelta", "period"):
        raise FormulaError(
            f"Column {values.name!r} holds dates or times; turn it into numbers first, such as days since the first."
        )
    return values.cat.remove_unused_categories() if hasattr(values, "cat") else values
