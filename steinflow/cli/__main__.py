"""`python -m steinflow.cli`, where the script is not on the path."""

from steinflow.cli import command_line

command_line()()
