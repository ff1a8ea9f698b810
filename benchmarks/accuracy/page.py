"""The table of the suite, line by line, and as it stands in docs/tuning-free.md."""

import collections

from benchmarks.accuracy import studies
from benchmarks.accuracy.contenders import CONTENDERS
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import measured
from benchmarks.pages import put

COLUMNS = (
    "target", "n", "mean error", "sd ratio", "correlations", "float64: sd ratio", "verdict", "paper's: mean error",
    "sd ratio", "BlackJAX's: sd ratio", "NumPyro's: sd ratio", "NUTS: mean error", "sd ratio",
)  # fmt: skip
HEADER = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|"
JUDGED = ("steinflow", "float64", "paper")


def line(name, size, found):
    """Return a line of the table, from the figures of every contender; None where one cannot take part."""

    def error(who):
        return f"{found[who]['error']:.3f}" if found[who] else ""

    def ratio(who):
        return "{:.2f} .. {:.2f}".format(*found[who]["ratio"]) if found[who] else ""

    ours = found["steinflow"]
    cells = [name, str(size), error("steinflow"), ratio("steinflow"), f"{ours['correlation']:.2f}", ratio("float64")]
    cells += [ours["verdict"], error("paper"), ratio("paper"), ratio("BlackJAX"), ratio("NumPyro")]
    return "| " + " | ".join([*cells, error("NUTS"), ratio("NUTS")]) + " |"


def particles_of(who, size):
    """Return how many particles or draws a contender gets where the others get `size`."""
    return 1000 if who == "NUTS" else size


def page(words):
    """Put the rows that are measured so far, and what the verdict says of them, into the page."""
    lines, counts = [], collections.Counter()
    for name, make in PROBLEMS.items():
        for size in make().sizes:
            found = {who: measured(name, particles_of(who, size), who) for who in CONTENDERS}
            if found["steinflow"] is None:
                continue
            lines.append(line(name, size, found))
            counts.update((studies.answer(found[who]), found[who]["verdict"]) for who in JUDGED if found[who])
    put(studies.PAGE, "accuracy", "\n".join([HEADER, *lines, ""]))
    put(studies.PAGE, "verdicts", f"{counts.total()} runs:\n\n{studies.counted(counts)}\n")
