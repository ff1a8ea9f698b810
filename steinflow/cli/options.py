"""Options that several commands share, and reading a table with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from steinflow.cli import console
from steinflow.estimators.features import Missing
from steinflow.models.columns import Frame
from steinflow.models.families import FAMILIES
from steinflow.tables.responses import ModelName
from steinflow.tables.runs import check_free, check_new, check_writable, free_folder
from steinflow.tables.tables import is_parquet, read_table

_PANEL = "Reading the file"

Data = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV or Parquet file with a header.", show_default=False)]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that `steinflow fit` wrote.", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the --output file if it exists.")]
Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.", show_default=False)
]
Model = Annotated[
    ModelName | None,
    typer.Option("--model", "-m", help="Kind of model. Default: chosen to suit the target.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same run.")]
NewRun = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the run. Default: runs/NAME.", show_default=False),
]
ReplaceRun = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in the --output folder.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column to leave out, such as a name or a row number. May be repeated.",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column whose numbers are codes, such as districts: each code becomes a category. May be repeated.",
        show_default=False,
        rich_help_panel="Data",
    ),
]
MissingCells = Annotated[
    Missing | None,
    typer.Option(
        help="What to do about missing values: stop (error), drop the row, fill in the mean of the column, or make "
        "those of text a level of their own (level). Default: error; for a formula drop.",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Encoding = Annotated[
    str, typer.Option(help="Encoding of a CSV file, such as latin-1 or cp1252.", rich_help_panel=_PANEL)
]
Separator = Annotated[
    str | None,
    typer.Option(help="Field separator of a CSV file. Default: detected.", show_default=False, rich_help_panel=_PANEL),
]
Decimal = Annotated[
    str, typer.Option(help="Decimal point or comma in the numbers of a CSV file.", rich_help_panel=_PANEL)
]
Thousands = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="Thousands separator in the numbers of a CSV file, such as the comma in 1,250.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Markers = Annotated[
    list[str] | None,
    typer.Option(
        "--missing-marker",
        metavar="TEXT",
        help="Text that marks a missing value, such as '?'. May be repeated.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def refuse(given: Mapping[str, object], why: str) -> None:
    """Refuse the first of these options that was given, rather than ignore it."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(why, param_hint=option)


def check_new_file(output: Path | None, *, overwrite: bool) -> None:
    """Refuse an --output file that exists, before the work, unless it may be replaced."""
    refuse(
        {"--overwrite": overwrite and output is None},
        "this option replaces the --output file; add --output FILE.",
    )
    check_new(output, overwrite=overwrite)


def new_folder(output: Path | None, usual: str, *, overwrite: bool) -> Path:
    """Return the folder of a new run; fail before the work starts if nothing can be written there."""
    refuse(
        {"--overwrite": overwrite and output is None},
        "this option replaces the run in the --output folder; add --output FOLDER.",
    )
    folder = output or free_folder(usual)
    check_free(folder, overwrite=overwrite)
    check_writable(folder)
    return folder


def read(
    data: Path,
    encoding: str,
    separator: str | None,
    decimal: str,
    thousands: str | None,
    markers: list[str] | None,
    *,
    quiet: bool = False,
) -> Frame:
    """Read a table with these options, and say what there is to say about it."""
    if is_parquet(data):
        given = {"--encoding": encoding != "utf-8", "--decimal": decimal != ".", "--missing-marker": markers}
        refuse(
            {**given, "--separator": separator, "--thousands": thousands},
            "this option is only for CSV files: what a Parquet file holds has its type already. Correct the table, or "
            "save it as CSV.",
        )
    # Some programs write a byte order mark at the beginning of UTF-8 files.
    encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    separator = "\t" if separator in ("\\t", "tab") else separator
    frame = read_table(
        data,
        encoding=encoding,
        separator=separator,
        decimal=decimal,
        thousands=thousands,
        missing_markers=markers or (),
    )
    for note in frame.attrs.pop("notes", []):
        console.remark(note, quiet=quiet)
    return frame


Formulas = Annotated[
    list[str] | None,
    typer.Option(
        "--formula",
        "-f",
        metavar="FORMULA",
        help="What to predict from what, such as 'y ~ x + (1 | g)'; replaces --target. May be repeated, for another "
        "parameter of the family, such as 'sigma ~ x'.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Family = Annotated[
    str | None,
    typer.Option(
        help=f"Distribution of the response: {', '.join(FAMILIES)}. Default: gaussian.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Link = Annotated[
    str | None,
    typer.Option(
        help="Link function of the mean. Default: the usual one of the family.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Priors = Annotated[
    list[str] | None,
    typer.Option(
        "--prior",
        metavar="NAME=PRIOR",
        help="Prior of a parameter, such as 'Intercept=Normal(0, 5)'. May be repeated.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column that says how many times each row counts.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
