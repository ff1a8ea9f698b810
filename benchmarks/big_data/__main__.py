"""Minibatches at the accuracy of all rows: `python -m benchmarks.big_data [accuracy|rivals|resources ...] [--page]`.

- `accuracy`: from prior draws, 100 particles and 1,000 steps, on every problem, with anchors and without;
- `rivals`: time and rows read of other ways to the same accuracy, in one run;
- `resources`: time per step at 10^4 to 10^7 mapped rows, and memory, for which a process of its own is started.

`--page` writes the tables into docs/big-data.md; `--problems NAME ...` takes others than all of them. What is measured
is kept in benchmarks/results/big_data, line by line: a run that was stopped goes on, and to measure anew, delete files.
"""

import argparse

from benchmarks.big_data.accuracy import accuracy
from benchmarks.big_data.problems import PROBLEMS, SMALL
from benchmarks.big_data.resources import resources
from benchmarks.big_data.rivals import rivals
from benchmarks.pages import put

PARTS = {  # heading on the page, table, problems by default
    "accuracy": ("big data", accuracy, list(PROBLEMS)),
    "rivals": ("big data: rivals", rivals, ["logistic, 10^5 rows", "logistic, 10^6 rows"]),
    "resources": ("big data: resources", resources, [str(10**4), str(10**6), str(10**7)]),
}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_data", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--problems", nargs="+", help=f"of {', '.join([*PROBLEMS, *SMALL])}; of resources, rows")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/big-data.md")
    arguments = parser.parse_args()
    for part in arguments.parts:
        heading, table, names = PARTS[part]
        text = "\n".join(table(arguments.problems or names)) + "\n"
        print(text)
        if arguments.page:
            put("docs/big-data.md", heading, text)


if __name__ == "__main__":
    main()
