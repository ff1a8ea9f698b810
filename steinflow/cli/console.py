"""What all commands share: how they print, how they end, and the options that many of them have.

Results go to standard output, remarks and progress to standard error, so that `--json` can be piped.
"""

import functools
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steinflow.models.columns import shown
from steinflow.results.files import json_text
from steinflow.tables.advice import MODEL_WORDS, WORDS, advice, sentence
from steinflow.tables.predictions import METRICS
from steinflow.tables.runs import Run

FAILED, DISTRUSTED, MISFIT, INTERRUPTED = 1, 3, 4, 130

_GAP, _NARROWEST = 2, 8  # of columns of a table, in characters

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Output")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel="Output")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no remarks.", rich_help_panel="Output")]


def clear_errors(command: Callable) -> Callable:
    """Let a command end with a sentence and an exit code instead of a traceback."""

    @functools.wraps(command)
    def run(*args, **kwargs):
        if kwargs.get("debug"):
            return command(*args, **kwargs)
        try:
            with warnings.catch_warnings(action="ignore"):  # of internals; what a user should know is said in words
                return command(*args, **kwargs)
        except (typer.Exit, typer.BadParameter):  # typer prints the latter, with the usage, and ends with exit code 2
            raise
        except KeyboardInterrupt:
            fail("Interrupted; nothing was written.", INTERRUPTED)
        except BrokenPipeError:  # `steinflow ... | head`
            sys.stderr.close()
            raise typer.Exit(FAILED) from None
        except (ValueError, ImportError) as error:
            fail(str(error))
        except MemoryError as error:
            fail(f"There is not enough memory. {error or 'Use fewer --particles or a smaller --batch-size.'}")
        except OSError as error:
            fail(f"{reason(error)}. Nothing was written.")
        except Exception as error:  # noqa: BLE001
            fail(f"This is a bug in steinflow: {type(error).__name__}: {error} (add --debug to see where).")

    return run


def reason(error: OSError) -> str:
    """Return what the system says, without a full stop."""
    what = f"{shown(error.filename, 200)}: {error.strerror}" if error.filename else str(error)
    return what.removesuffix(".")


def fail(message: str, code: int = FAILED) -> None:
    """Print what went wrong and end."""
    err.print(Text.assemble(("Error: " if code == FAILED else "", "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)


def remark(message: str, *, quiet: bool = False) -> None:
    """Tell something that is not the result."""
    if not quiet:
        err.print(Text(message), style="dim", soft_wrap=True)


def print_json(values: Any) -> None:
    """Print plain values, and nothing else, on standard output."""
    sys.stdout.write(json_text(values))


def print_verdict(run: Run) -> None:
    """Print the traffic light of the inference, its reasons, and what to do."""
    verdict, light = run.result.verdict, run.light
    words = f"inference {verdict.level}: {WORDS[light].lower()}"
    out.print(Text.assemble(("●", light), " ", (words, f"bold {light}")))
    for reason in verdict.reasons:
        out.print(Text(f"  {sentence(reason)}"), soft_wrap=True)
    for remedy in advice(run):
        out.print(Text(f"  → {sentence(remedy)}"), soft_wrap=True)


def print_checks(run: Run) -> None:
    """Print the traffic light of the model, what was found, and what to try."""
    light = run.model_light
    if light is None:
        out.print(Text("○ model: not checked, since there are too few rows", style="dim"))
        return
    out.print(Text.assemble(("●", light), " ", (MODEL_WORDS[light], f"bold {light}")))
    found = [check for check in run.checks if check["level"] != "good"]
    for check in found:
        out.print(Text(f"  {sentence(check['text'])}"), soft_wrap=True)
    fine = [check["name"] for check in run.checks if check["level"] == "good"]
    if fine:
        out.print(Text(f"  As the model expects: {', '.join(fine)}."), soft_wrap=True)
    for remedy in dict.fromkeys(remedy for check in found for remedy in check["try"]):
        out.print(Text(f"  → Try {remedy.removesuffix('.')}."), soft_wrap=True)


def print_metrics(title: str, evaluation: dict[str, Any] | None) -> None:
    """Print how good predictions are, where that is known; the title gets the number of rows."""
    if evaluation is not None:
        rows = [[METRICS[name].name, METRICS[name].text(value)] for name, value in evaluation["metrics"].items()]
        out.print()
        out.print(table(title.format(f"{evaluation['num_rows']:,}"), ["", ""], rows))


def light_text(light: str) -> Text:
    """Return a traffic light for a cell of a table."""
    return Text.assemble(("●", light), f" {light}")


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], *, numbers_from: int = 1) -> Table:
    """Return a table whose cells are shown as they are, however hostile; columns of numbers are aligned right."""
    grid = Table(
        title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, _GAP)
    )
    headers = [shown(column, 40) for column in columns]
    cells = [[cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row] for row in rows]
    # Half a number on the next line would be read as another number: the other columns are wrapped before, and where
    # that is not enough, the end of a number is an ellipsis.
    whole = [i for i in range(numbers_from, len(headers)) if not any(" " in row[i].plain for row in cells)]
    widths = {i: max([*(row[i].cell_len for row in cells), *map(len, headers[i].split()), 1]) for i in whole}
    headers = [textwrap.fill(text, widths.get(i, 40)) for i, text in enumerate(headers)]
    needed = sum(widths.values()) + _NARROWEST * (len(headers) - len(whole)) + 2 * _GAP * (len(headers) - 1)
    fits = needed <= out.width
    for row in cells:
        for i in whole:
            row[i].no_wrap, row[i].overflow = True, "ellipsis"
    for i, header in enumerate(headers):
        justify = "right" if i >= numbers_from else "left"
        grid.add_column(Text(header), justify=justify, overflow="fold", no_wrap=fits and i in whole)
    for row in cells:
        grid.add_row(*row)
    return grid


def show_progress(*, quiet: bool) -> bool:
    """Say whether a moving bar makes sense."""
    return not quiet and sys.stderr.isatty()
