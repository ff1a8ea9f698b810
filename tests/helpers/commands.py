"""Commands as a person types them, called without a new process."""

from typer.testing import CliRunner

from steinflow.cli.app import app

# The same numbers of particles and steps wherever possible, so that most fits share their compiled code.
QUICK = ["--steps", "100", "--particles", "20"]


def steinflow_(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(frame, name="data.csv", **options):
    frame.to_csv(name, index=False, **options)
    return name
