"""The commands in one place, with the manual's first page."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

import steinflow
from steinflow.cli.console import out
from steinflow.cli.fit import fit
from steinflow.cli.groups import fit_groups
from steinflow.cli.predict import predict_rows
from steinflow.cli.review import compare, report
from steinflow.cli.tours import benchmark, demo, reproduce
from steinflow.devices.caches import keep_compiled


def _plain(params):
    """Show an option without a value as such in the help, and not as one that wants a <bool>."""
    for param in params:
        if getattr(param, "is_bool_flag", False):
            param.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx):
        return _plain(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx):
        return _plain(super().get_params(ctx))


def _page(command: Callable) -> str:
    """Return a docstring whose paragraphs flow with the width of the terminal; indented lines stay."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else " ".join(p.splitlines()) for p in paragraphs)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. With --strict also 3 for a red verdict on "
    "the inference, and 4 for a red check of the model.",
)
_TABLES, _MORE = "Tables", "More"


def _add(command: Callable, panel: str, name: str | None = None) -> None:
    app.command(name, cls=_Command, help=_page(command), rich_help_panel=panel)(command)


_add(fit, _TABLES)
_add(fit_groups, _TABLES, "fit-groups")
_add(predict_rows, _TABLES, "predict")
_add(report, _TABLES)
_add(compare, _TABLES)
_add(demo, _MORE)
_add(reproduce, _MORE)
_add(benchmark, _MORE)


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

    Particles move until together they represent the posterior. A verdict says whether they succeeded.

      steinflow fit houses.csv --target price     [dim]fit, test on held-out rows, save the run[/dim]
      steinflow report runs/houses-price          [dim]one HTML file about it that opens offline[/dim]
      steinflow predict runs/houses-price new.csv [dim]predictions with their uncertainty[/dim]
    """
    with suppress(RuntimeError):  # a user without a home folder
        keep_compiled()
