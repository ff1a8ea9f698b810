"""The commands in one place, with the manual's first page."""

from typing import Annotated

import typer

import steinflow
from steinflow.caches import keep_compiled, user_cache
from steinflow.cli.console import out
from steinflow.cli.fit import fit
from steinflow.cli.predict import predict_rows
from steinflow.cli.review import compare, report
from steinflow.cli.tours import benchmark, demo, reproduce

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 verdict red with --strict, 130 interrupted.",
)
_TABLES, _MORE = "Tables", "More"
app.command(rich_help_panel=_TABLES)(fit)
app.command("predict", rich_help_panel=_TABLES)(predict_rows)
app.command(rich_help_panel=_TABLES)(report)
app.command(rich_help_panel=_TABLES)(compare)
app.command(rich_help_panel=_MORE)(demo)
app.command(rich_help_panel=_MORE)(reproduce)
app.command(rich_help_panel=_MORE)(benchmark)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        out.print(f"steinflow {steinflow.__version__}")
        raise typer.Exit


@app.callback()
def manual(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _print_version(wanted=wanted),
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
) -> None:
    """Bayesian regression from the command line, by Stein variational gradient descent.

    A posterior is a set of particles that move until they stand for it; a verdict tells whether they do.

      steinflow fit houses.csv --target price     [dim]fit, test on rows held out, save the run[/dim]
      steinflow report runs/houses-price          [dim]one HTML file about it, opens offline[/dim]
      steinflow predict runs/houses-price new.csv [dim]predictions with their uncertainty[/dim]
    """
    keep_compiled(user_cache() / "compiled")
