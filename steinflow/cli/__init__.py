"""The command line: `steinflow --help`."""

from collections.abc import Callable


def command_line() -> Callable[[], None]:
    """Return the command line, a function without arguments.

    Raises:
        SystemExit: if a package that it needs is not installed.
    """
    try:
        from steinflow.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("rich", "sklearn", "typer"):
            raise
        raise SystemExit("The command line needs more packages: pip install 'steinflow[cli]'.") from error
    return app
