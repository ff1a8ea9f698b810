"""One command for all: what is done is not done again, so it can be stopped and started at any time.

    python -m benchmarks.accuracy                   # all targets, all contenders, into docs/tuning-free.md
    python -m benchmarks.accuracy banana german     # some targets
    python -m benchmarks.accuracy verdicts          # how often the verdict is right
    python -m benchmarks.accuracy refinements       # weights, thinning and a check by NUTS afterwards
    python -m benchmarks.accuracy evaluations       # gradients and seconds to the accuracy of 1,000 draws of NUTS
    python -m benchmarks.accuracy dimensions        # sd ratio against dimension, docs/images/dimensions.png
    python -m benchmarks.accuracy exploration       # the default with and without it, into docs/tuning-free.md
    python -m benchmarks.accuracy hard              # tails, funnels, modes, fewer particles than dimensions
    python -m benchmarks.accuracy constants         # every constant halved and doubled, into docs/tuning-free.md
    python -m benchmarks.accuracy page              # what is measured so far, into docs/tuning-free.md

The error of the mean is in posterior sds (root mean square over coordinates); the ratio is particle sd over true sd,
smallest to largest; of the default, over three runs with keys of their own. Truth is exact where it is known, else
40,000 draws of BlackJAX's NUTS with fixed seeds. The paper's SVGD gets the best of five step sizes, chosen with
knowledge of the truth, which no user has; that of the peers is 0.1.
"""

import sys

from benchmarks.accuracy import studies
from benchmarks.accuracy.constants import constants
from benchmarks.accuracy.contenders import CONTENDERS
from benchmarks.accuracy.hard import hard
from benchmarks.accuracy.page import HEADER, line, page, particles_of
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import row

STUDIES = {
    study.__name__: study
    for study in (
        studies.verdicts,
        studies.refinements,
        studies.evaluations,
        studies.dimensions,
        studies.exploration,
        hard,
        constants,
        page,
    )
}


def table(words):
    """Measure and print every line; without words, put them into the page."""
    print(HEADER)
    # The rows with 100 particles first: if time is short they matter most.
    cells = [(name, size) for name, make in PROBLEMS.items() for size in make().sizes]
    for name, size in sorted(cells, key=lambda cell: cell[1] != 100):
        if words and not any(word in name for word in words):
            continue
        problem = PROBLEMS[name]()
        found = {who: row(name, problem, particles_of(who, size), who) for who in CONTENDERS}
        print(line(name, size, found), flush=True)
    if not words:
        page(words)


def main():
    command, *words = sys.argv[1:] or [""]
    if command in STUDIES:
        STUDIES[command](words)
    else:
        table(sys.argv[1:])


if __name__ == "__main__":
    main()
