"""Print the lowest version that pyproject.toml allows of every package it names, as constraints for pip."""

import itertools
import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
del project["optional-dependencies"]["dev"]  # tools that a user does not install
for requirement in itertools.chain(project["dependencies"], *project["optional-dependencies"].values()):
    if bound := re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", requirement):
        print(f"{bound[1]}=={bound[2]}")  # noqa: T201
