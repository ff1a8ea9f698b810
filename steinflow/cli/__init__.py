"""The command line: `steinflow --help`."""


def main() -> None:
    """Run the command line; the script `steinflow` calls this."""
    try:
        from steinflow.cli.app import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("typer", "rich"):
            raise
        raise SystemExit("The command line needs typer and rich: pip install 'steinflow[cli]'.") from error
    app()
