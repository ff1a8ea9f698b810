"""Reading a CSV or Parquet file, with an error in one sentence for everything that can be wrong with it."""

import collections
import re
from collections.abc import Sequence
from pathlib import Path

from steinflow.models.columns import Frame, TableError, counted, listed, shown

_SEPARATORS = (",", ";", "\t", "|")
_CSV = (".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".zip")
_PARQUET = (".parquet", ".pq")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet computes
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_PEEK = 2**16  # bytes that tell what kind of file this is


def read_table(
    path: str | Path,
    *,
    encoding: str = "utf-8-sig",
    separator: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    missing_markers: Sequence[str] = (),
) -> Frame:
    """Read a CSV or Parquet file. Column names become text, and a column that only numbers the rows is left out.

    What there is to say about how it was read is in `frame.attrs["notes"]`.

    Args:
        path: of the file; compressed CSV files may end in .gz, .bz2, .xz or .zip.
        encoding: of a CSV file.
        separator: between the fields of a CSV file; detected from its first line if not given.
        decimal: the point or comma in the numbers of a CSV file.
        thousands: the thousands separator in these numbers, such as the comma in 1,250.
        missing_markers: cells that mean a missing value, in addition to empty cells, NA, NaN, null and the like.
    """
    pandas = _pandas()
    path = Path(path)
    _check_file(path)
    if is_parquet(path):
        frame = _read_parquet(pandas, path)
    elif path.suffix.lower() in _CSV or _looks_like_text(path):
        frame = _read_csv(pandas, path, encoding, separator, decimal, thousands, list(missing_markers))
    else:
        raise TableError(
            f"{shown(path)} is neither CSV nor Parquet, judging by its name and content; save it as a .csv file."
        )
    frame.columns = [str(name).strip() for name in frame.columns]
    _refuse_repeated(frame.columns, path)
    if frame.empty:
        raise TableError(f"{shown(path.name)} has no rows below its header.")
    return _without_row_numbers(frame.reset_index(drop=True))


def is_parquet(path: Path) -> bool:
    """Say whether a file is read as Parquet."""
    return path.suffix.lower() in _PARQUET


def csv_text(frame: Frame) -> str:
    """Return a table as CSV whose cells no spreadsheet reads as formulas: an apostrophe precedes text such as =1+1.

    `read_cells` reads it back.
    """
    safe = frame.rename(columns=_disarmed)
    texts = [name for name in safe.columns if safe[name].dtype.kind not in "iufb"]
    return safe.assign(**{name: safe[name].map(_disarmed, na_action="ignore") for name in texts}).to_csv(index=False)


def read_cells(path: Path) -> Frame:
    """Read what `csv_text` wrote, all cells as text: "NA" or "1.0" may be the name of a class."""
    frame = _pandas().read_csv(path, keep_default_na=False, dtype=str).rename(columns=_armed)
    return frame.map(_armed)


def _disarmed(value):
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else value


def _armed(text):
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{shown(path)} is a folder; give a CSV or Parquet file in it.")
    if not path.exists():
        raise TableError(f"There is no file {shown(path, 200)}; check the name and the current folder.")
    if path.stat().st_size == 0:
        raise TableError(f"{shown(path)} is empty.")


def _read_parquet(pandas, path):
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading Parquet needs pyarrow: pip install 'steinflow[cli]'. CSV files work without it.", name=error.name
        ) from error
    try:
        # Only the columns: the file may describe an index, which is not part of the table.
        return pyarrow.parquet.read_table(path).to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{shown(path)} cannot be read as a Parquet file ({shown(error, 120)}).") from error


def _refuse_repeated(names, path) -> None:
    counts = collections.Counter(names)
    if repeated := sorted(name for name in counts if counts[name] > 1):
        raise TableError(f"{shown(path.name)} has several columns with the same name, {listed(repeated)}; rename them.")


def _read_csv(pandas, path, encoding, separator, decimal, thousands, missing_markers):
    try:
        "".encode(encoding)
    except LookupError as error:
        raise TableError(f"There is no encoding '{shown(encoding)}'; try utf-8, latin-1, cp1252 or utf-16.") from error
    if len(decimal) != 1:
        raise TableError(f"--decimal must be one character, a point or a comma; got '{shown(decimal)}'.")
    if thousands is not None and (len(thousands) != 1 or thousands == decimal):
        raise TableError(f"--thousands must be one character, different from --decimal; got '{shown(thousands)}'.")
    separator = separator or _separator(path, encoding)
    same = {"sep": separator, "encoding": encoding, "skipinitialspace": True}
    try:
        frame = pandas.read_csv(path, decimal=decimal, thousands=thousands, na_values=missing_markers or None, **same)
        # pandas would call the second "y" of a header "y.1", which would predict the first one perfectly.
        header = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **same)
    except UnicodeError as error:
        raise TableError(_not_in_this_encoding(path, encoding)) from error
    except pandas.errors.EmptyDataError as error:
        raise TableError(
            f"{shown(path)} has no columns: its first line, which should be the header, is blank."
        ) from error
    except (pandas.errors.ParserError, OSError, EOFError, ValueError) as error:
        reason = shown(str(error).strip().removeprefix("Error tokenizing data. C error: "), 160)
        raise TableError(
            f"{shown(path)} cannot be read as a table with fields separated by {separator!r}: {reason}. "
            "Give the right --separator, or correct the line."
        ) from error
    _refuse_repeated([name.strip() for name in header.iloc[0] if name.strip()], path)
    if frame.index.equals(pandas.RangeIndex(len(frame))):
        return frame
    # The lines have more fields than the header: pandas takes the first ones for the index.
    first = pandas.read_csv(path, header=None, skiprows=1, nrows=1, dtype=str, keep_default_na=False, **same)
    return _without_extra_fields(frame, first.iloc[0].tolist(), path)


def _without_extra_fields(frame, first_line, path):
    """Return a table of lines with one field more than the header: row names of R, or an empty field at the end.

    Args:
        frame: as pandas reads it, with the first field as the index.
        first_line: the fields of the first line below the header.
        path: of the file.
    """
    names = frame.index
    if names.nlevels == 1 and first_line[-1] == "" and frame.iloc[:, -1].isna().all():
        shifted = frame.reset_index().iloc[:, :-1].set_axis(frame.columns, axis=1)
        return _noted(shifted, "Every line ends with a separator; the empty field behind it was left out.")
    numbered = names.dtype.kind in "iu" and names.tolist() == list(range(1, len(names) + 1))
    if names.nlevels == 1 and (numbered or (names.dtype.kind not in "iufb" and names.is_unique)):
        some = f"{listed(names[:2].tolist())}, ..."
        return _noted(frame, f"The first field has no name in the header: names of rows ({some}), which were left out.")
    raise TableError(
        f"In {shown(path.name)}, the header has {counted(frame.shape[1], 'field')} and the line below it "
        f"{len(first_line):,}, so it is not known which column is which; correct the header."
    )


def _noted(frame, note):
    frame.attrs["notes"] = [note]
    return frame


def _separator(path, encoding):
    """Return the separator that is most frequent in the first line."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    if path.suffix.lower() in (".gz", ".bz2", ".xz", ".zip"):
        return ","
    start = path.read_bytes()[:_PEEK] if path.stat().st_size <= _PEEK else _first_bytes(path)
    line = start.decode(encoding, errors="replace").lstrip("\r\n").split("\n", 1)[0]
    return max(_SEPARATORS, key=line.count)  # the first of them where no one occurs


def _first_bytes(path):
    with path.open("rb") as file:
        return file.read(_PEEK)


def _looks_like_text(path):
    return b"\0" not in _first_bytes(path)


def _not_in_this_encoding(path, encoding):
    start = _first_bytes(path)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{shown(path)} is UTF-16 and not {_plain(encoding)}; add --encoding utf-16."
    if path.suffix.lower() in _CSV[3:]:
        return f"{shown(path)} is not {_plain(encoding)} text; say what it is, as in --encoding latin-1."
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeError as error:
                start = getattr(error, "start", 0)
                byte = f"byte 0x{line[start]:02x}" if start < len(line) else "a byte"
                return (
                    f"{shown(path)} is not {_plain(encoding)} text: {byte} in line {number:,}. Files from Excel and "
                    "older programs are often in another encoding: add --encoding cp1252 (or latin-1)."
                )
    return f"{shown(path)} is not {_plain(encoding)} text; say what it is, as in --encoding latin-1."


def _plain(encoding):
    return "UTF-8" if encoding.lower().startswith("utf-8") else encoding


def _without_row_numbers(frame):
    """Leave out a nameless first column 0, 1, 2, ...: the index that pandas and R write, which is no feature."""
    first = frame.columns[0]
    if first in ("", "Unnamed: 0", "__index_level_0__") and frame.shape[1] > 1:
        numbers = frame[first]
        if numbers.dtype.kind in "iu" and (numbers.diff().iloc[1:] == 1).all():
            return frame.drop(columns=first)
    return frame


def _pandas():
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Tables need pandas: pip install 'steinflow[cli]'.", name="pandas") from error
    return pandas
