"""The tables of docs/tuning-free.md: that of the suite, line by line, and what exploration does."""

import collections

import steinflow as sf
from benchmarks.accuracy import studies
from benchmarks.accuracy.contenders import CONTENDERS, steinflow
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import kept, measured, row, truth
from benchmarks.pages import put

PAGE = "docs/tuning-free.md"
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
    put(PAGE, "accuracy", "\n".join([HEADER, *lines, ""]))
    put(PAGE, "verdicts", f"{counts.total()} runs:\n\n{studies.counted(counts)}\n")


EXPLORED = (
    "eight schools",
    "funnel, d=10",
    "mixture d=5, 4 sds apart",
    "student t(5), d=10",
    "laplace, d=5",
    "banana",
    "logistic german",
)


def exploration(words):
    """What exploration does, into the page: the default with it and without."""
    settled = sf.SVGD(metric=sf.Cloud(exploration=None))
    lines = ["| target | mean error with | without | sd ratio with | without |", "|---" * 5 + "|"]
    for name in EXPLORED:
        problem = PROBLEMS[name]()
        explored = row(name, problem, 100, "steinflow")
        plain = kept(f"unexplored {name}", steinflow, problem, truth(name, problem), 100, settled)
        ratios = ("{:.2f} .. {:.2f}".format(*found["ratio"]) for found in (explored, plain))
        lines.append(f"| {name} | {explored['error']:.3f} | {plain['error']:.3f} | {' | '.join(ratios)} |")
    put(PAGE, "exploration", "\n".join([*lines, ""]))
