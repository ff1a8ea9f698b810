"""`python -m steinflow.experiments [names] [--quick] [--output DIR]`."""

import argparse
import sys
from pathlib import Path

from steinflow.experiments import NAMES, reproduce

parser = argparse.ArgumentParser(prog="python -m steinflow.experiments", description="Reproduce the paper.")
parser.add_argument("names", nargs="*", help=f"some of {', '.join(NAMES)}; all if not given")
parser.add_argument("--quick", action="store_true", help="a smaller version, in minutes")
parser.add_argument("--output", type=Path, default=Path("results"), help="the folder to write to")
parser.add_argument("--report", action="store_true", help="only write the pages, from what is finished")
arguments = parser.parse_args()
page = reproduce(arguments.names, output=arguments.output, quick=arguments.quick, compute=not arguments.report)
sys.stdout.write(f"{page}\n")
