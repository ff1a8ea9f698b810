"""Commands as a person types them, called without a new process."""

from typer.testing import CliRunner

from steinflow.cli.app import app

# The same numbers of rows and particles wherever possible, so that most fits share their compiled code.
QUICK = ["--steps", "150", "--particles", "40"]
BRIEF = ["--steps", "5", "--particles", "40"]


def steinflow_(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(frame, name="data.csv", **options):
    frame.to_csv(name, index=False, **options)
    return name
