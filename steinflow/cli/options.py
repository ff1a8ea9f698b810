"""Options about files that several commands share, and reading a table with them."""

from pathlib import Path
from typing import Annotated

import typer

from steinflow.models.formulas import FAMILIES
from steinflow.tables.tables import Frame, read_table

_PANEL = "Reading the file"

Data = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV or Parquet file with a header.", show_default=False)]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that `steinflow fit` wrote.", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file of --output if it exists.")]
Encoding = Annotated[
    str, typer.Option(help="Encoding of a CSV file, such as latin-1 or cp1252.", rich_help_panel=_PANEL)
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="Separator of the fields of a CSV file; detected if not given.", show_default=False, rich_help_panel=_PANEL
    ),
]
Decimal = Annotated[
    str, typer.Option(help="Decimal point or comma in the numbers of a CSV file.", rich_help_panel=_PANEL)
]
Thousands = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What separates groups of three digits in the numbers of a CSV file, such as the comma in 1,250.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Markers = Annotated[
    list[str] | None,
    typer.Option(
        "--missing-marker",
        metavar="TEXT",
        help="Text that marks a missing value, such as '?'; may be repeated.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def read(
    data: Path,
    encoding: str,
    separator: str | None,
    decimal: str,
    thousands: str | None,
    markers: list[str] | None,
) -> Frame:
    """Read a table with these options."""
    # Some programs write a byte order mark at the beginning of UTF-8 files.
    encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    separator = "\t" if separator in ("\\t", "tab") else separator
    return read_table(
        data,
        encoding=encoding,
        separator=separator,
        decimal=decimal,
        thousands=thousands,
        missing_markers=markers or (),
    )


Formulas = Annotated[
    list[str] | None,
    typer.Option(
        "--formula",
        "-f",
        metavar="FORMULA",
        help="What to predict from what, such as 'y ~ x + (1 | g)', in place of --target; repeated, a formula for "
        "another parameter of the family, such as 'sigma ~ x'.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Family = Annotated[
    str,
    typer.Option(help=f"Of the response: {', '.join(FAMILIES)}.", rich_help_panel="Formula"),
]
Link = Annotated[
    str | None,
    typer.Option(help="Of the mean; the usual one if not given.", show_default=False, rich_help_panel="Formula"),
]
Priors = Annotated[
    list[str] | None,
    typer.Option(
        "--prior",
        metavar="NAME=PRIOR",
        help="Of a parameter, such as 'Intercept=Normal(0, 5)'; may be repeated.",
        show_default=False,
        rich_help_panel="Formula",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="How often a row counts.", show_default=False, rich_help_panel="Formula"),
]
