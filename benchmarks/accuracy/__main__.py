"""One command for all: what is done is not done again, so it can be stopped and started at any time.

    python -m benchmarks.accuracy                   # the table: all targets, all contenders
    python -m benchmarks.accuracy banana german     # some targets
    python -m benchmarks.accuracy verdicts          # how often the verdict is right
    python -m benchmarks.accuracy refinements       # weights, thinning and a check by NUTS afterwards
    python -m benchmarks.accuracy evaluations       # gradients and seconds to the accuracy of 1,000 draws of NUTS
    python -m benchmarks.accuracy dimensions        # sd ratio against dimension, docs/images/dimensions.png

The error of the mean is in posterior sds (root mean square over coordinates); the ratio is particle sd over true sd,
smallest to largest. Truth is exact where it is known, else 40,000 draws of BlackJAX's NUTS with fixed seeds. The
paper's SVGD gets the best of five step sizes, chosen with knowledge of the truth, which no user has; that of the
peers is 0.1.
"""

import collections
import sys

from benchmarks.accuracy import studies
from benchmarks.accuracy.contenders import CONTENDERS
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import RESULTS, row

STUDIES = {
    study.__name__: study for study in (studies.verdicts, studies.refinements, studies.evaluations, studies.dimensions)
}
HEADER = [
    "target",
    "n",
    "steinflow: mean error",
    "sd ratio",
    "correlations",
    "verdict",
    "float64: sd ratio",
    "paper's: mean error",
    "sd ratio",
    "BlackJAX's: sd ratio",
    "NumPyro's: sd ratio",
    "NUTS: mean error",
    "sd ratio",
]


def table(words):
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    print(*lines, sep="\n")
    # The rows with 100 particles first: if time is short they matter most.
    cells = [(name, size) for name, make in PROBLEMS.items() for size in make().sizes]
    for name, size in sorted(cells, key=lambda cell: cell[1] != 100):
        if words and not any(word in name for word in words):
            continue
        lines.append(_line(name, size))
        print(lines[-1], flush=True)
    if not words:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "table.md").write_text("\n".join([*lines[:2], *sorted(lines[2:])]) + "\n")
        print("\nVerdicts on these runs of steinflow, both precisions, and of the paper's SVGD:\n")
        studies.print_counts(_verdicts(cells))


def _verdicts(cells):
    """Count what the verdict says of every run of the table, against its true errors."""
    found = [row(name, PROBLEMS[name](), n, who) for name, n in cells for who in ("steinflow", "float64", "paper")]
    return collections.Counter((studies.answer(run), run["verdict"]) for run in found if run is not None)


def _line(name, size):
    problem = PROBLEMS[name]()
    found = {who: row(name, problem, 1000 if who == "NUTS" else size, who) for who in CONTENDERS}

    def error(who):
        return "" if found[who] is None else f"{found[who]['error']:.3f}"

    def ratio(who):
        return "" if found[who] is None else "{:.2f} .. {:.2f}".format(*found[who]["ratio"])

    ours = found["steinflow"]
    cells = [name, str(size), error("steinflow"), ratio("steinflow"), f"{ours['correlation']:.2f}", ours["verdict"]]
    cells += [ratio("float64"), error("paper"), ratio("paper"), ratio("BlackJAX"), ratio("NumPyro")]
    return "| " + " | ".join([*cells, error("NUTS"), ratio("NUTS")]) + " |"


def main():
    command, *words = sys.argv[1:] or [""]
    if command in STUDIES:
        STUDIES[command](words)
    else:
        table(sys.argv[1:])


if __name__ == "__main__":
    main()
