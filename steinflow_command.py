"""The script `steinflow`: outside the package, since importing that takes the seconds in which Ctrl-C must work too."""

import os
import signal


def main() -> None:
    """Import the command line, which Ctrl-C ends with exit code 130 and no traceback, and run it."""
    usual = signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # nothing is under way yet that would need an end
    from steinflow.cli import command_line

    app = command_line()
    signal.signal(signal.SIGINT, usual)
    app()
