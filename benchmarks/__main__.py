"""Speed and memory of steinflow, against its two bare matrix products and against its peers.

    python -m benchmarks            # a few minutes, on a quiet machine
    python -m benchmarks --quick    # a tenth of the time, less precise
    python -m benchmarks --readme   # also bring the tables in README.md and docs/benchmarks.md up to date

Prints one table and writes it to benchmarks/results/. Speeds are ratios of times measured in turns in one run; the rest
comes from a fresh process, so that figures of different machines can be compared.
"""

import argparse
import datetime
import json
import math
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import steinflow as sf
from benchmarks import candidates, fresh
from benchmarks.pages import put
from benchmarks.timing import seconds_per_step

DIM = 50
RESULTS = Path(__file__).parent / "results"


class Row(NamedTuple):
    """One line of the table; `goal` is a bound on `value`, from below where `at_least`."""

    measure: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    seconds: tuple[float, float] | None = None  # what the value is the ratio of
    note: str = ""

    @property
    def verdict(self):
        if self.goal is None:
            return ""
        return "pass" if (self.value >= self.goal if self.at_least else self.value <= self.goal) else "MISS"

    def cells(self):
        goal = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:g} {self.unit}".rstrip()
        times = "" if self.seconds is None else "{} / {} ms".format(*map(milliseconds, self.seconds))
        return [self.measure, f"{self.value:.3g} {self.unit}".rstrip(), goal, self.verdict, times or self.note]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, and less precise")
    parser.add_argument("--readme", action="store_true", help="bring README.md and docs/benchmarks.md up to date")
    arguments = parser.parse_args()
    quick = arguments.quick
    budget = 2.0 if quick else 20.0  # seconds for each comparison

    rows = []
    for measure in (against_products, against_the_paper, against_peers, growth, of_a_fresh_process):
        for row in measure(budget):
            print("  ".join(cell for cell in row.cells() if cell), flush=True)
            rows.append(row)
    print(f"\n{(table := markdown(rows))}")
    write(rows, table, quick=quick)
    if arguments.readme:
        put("README.md", "benchmark", readme_table(rows))
        put("docs/benchmarks.md", "benchmark", readme_table(rows))
        put("docs/benchmarks.md", "all measures", f"{where(quick=quick)}\n\n{table}\n")


def against_products(budget):
    """A step over its two matrix products."""
    for n, goal in {100: 4.0, 1000: 1.6, 10_000: 1.4}.items():
        x = candidates.start(n, DIM)
        times = seconds_per_step(
            {
                "step": candidates.steinflow(x),
                "products": candidates.matrix_products(x),
                "blocked": candidates.blocked_matrix_products(x),
            },
            budget=budget,
        )
        seconds = times["step"], min(times["products"], times["blocked"])
        yield Row(f"step / two bare matrix products, n = {n}", seconds[0] / seconds[1], "×", goal, seconds=seconds)


def against_the_paper(budget):
    """Steps of the default over those of the paper's method: where it arrives, and on average over a run of its own."""
    for n, goal in {100: 2.0, 1000: 1.5, 10_000: 1.5}.items():
        x = candidates.start(n, DIM)
        flow, paper = candidates.steinflow(x, sf.SVGD(exploration=None)), candidates.steinflow(x)
        times = seconds_per_step({"flow": flow, "paper": paper}, budget=budget)
        seconds = times["flow"], times["paper"]
        yield Row(f"step of the flow / the paper's, n = {n}", seconds[0] / seconds[1], "×", goal, seconds=seconds)
        seconds = candidates.seconds_of_a_run(x), times["paper"]
        yield Row(f"average step of a run / the paper's, n = {n}", seconds[0] / seconds[1], "×", goal, seconds=seconds)


def against_peers(budget):
    """How many times faster than each peer."""
    goals = {"the authors' NumPy formulas": 25, "PyMC": 50, "BlackJAX": 200, "NumPyro": 200}
    for n in (100, 1000):
        x = candidates.start(n, DIM)
        ours = candidates.steinflow(x)
        for name, peer in candidates.PEERS.items():
            steps = candidates.installed(peer, x)
            if steps is None:
                print(f"{name} is not installed: left out")
                continue
            times = seconds_per_step({"ours": ours, "theirs": steps}, budget=budget)
            seconds, goal = (times["theirs"], times["ours"]), goals.get(name) if n == 1000 else None
            yield Row(f"{name} / step, n = {n}", seconds[0] / seconds[1], "×", goal, at_least=True, seconds=seconds)


def growth(budget):
    """The exponent of the time of a step in n."""
    sizes = (2_000, 20_000)
    steps = {str(n): candidates.steinflow(candidates.start(n, DIM)) for n in sizes}
    times = list(seconds_per_step(steps, budget=budget).values())
    exponent = math.log(times[1] / times[0]) / math.log(sizes[1] / sizes[0])
    yield Row("time grows as n^, n = 2,000 to 20,000", exponent, "", 2.1, seconds=(times[1], times[0]))


def of_a_fresh_process(budget):
    """Memory, import and first step."""
    memory = fresh.peak_memory(50_000, 20)
    note = f"two steps in {memory['seconds']:.3g} s"
    yield Row("peak memory, exact, n = 50,000, d = 20", memory["gigabytes"], "GB", 1.5, note=note)
    for method in ("sf.SVGD.paper()", "sf.SVGD()"):
        times = fresh.import_and_first_step(method, rounds=2 if budget < 10 else 5)
        yield Row(f"first step with compilation, {method}", times["first_step"], "s", 3.0)
    yield Row("import steinflow", times["imported"], "s", 1.5)


def markdown(rows):
    head = ["measure", "here", "goal", "", "times"]
    lines = [head, ["-"] * len(head), *(row.cells() for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    lines[1] = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))} |" for line in lines)


def readme_table(rows):
    """Return milliseconds per step of steinflow, its products and its peers, and how many times slower each peer is."""
    found = {row.measure: row for row in rows}
    sizes = (100, 1000)
    lines = ["| ms per step | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---|" + "---|" * len(sizes)]
    products = [found[f"step / two bare matrix products, n = {n}"] for n in sizes]
    lines.append("| **steinflow** | " + " | ".join(f"**{milliseconds(row.seconds[0])}**" for row in products) + " |")
    for name in candidates.PEERS:
        peer = [found.get(f"{name} / step, n = {n}") for n in sizes]
        if all(peer):
            cells = (f"{milliseconds(row.seconds[0])} ({row.value:.0f}×)" for row in peer)
            lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("| two bare matrix products | " + " | ".join(milliseconds(row.seconds[1]) for row in products) + " |")
    return "\n".join(lines) + "\n"


def milliseconds(seconds):
    return f"{float(f'{1e3 * seconds:.2g}'):g}"


def where(*, quick):
    """Say when and where, in a sentence."""
    setting = settings(quick=quick)
    versions = ", ".join(f"{name} {version}" for name, version in setting["versions"].items())
    kind = "A quick run" if quick else "A run"
    return (
        f"{kind} of {setting['date']} on {setting['cores']} cores, {setting['machine']}, Python {setting['python']}; "
        f"{versions}."
    )


def settings(*, quick):
    packages = ("steinflow", "jax", "numpy", "pymc", "blackjax", "numpyro", "pyro-ppl", "torch")
    installed = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
    return {
        "date": datetime.date.today().isoformat(),
        "quick": quick,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: installed[name] for name in packages if name in installed},
    }


def write(rows, table, *, quick):
    RESULTS.mkdir(exist_ok=True)
    content = {**settings(quick=quick), "rows": [{**row._asdict(), "verdict": row.verdict} for row in rows]}
    (RESULTS / "latest.json").write_text(json.dumps(content, indent=2) + "\n")
    what = f"SVGD steps with the median bandwidth, d = {DIM}, float32."
    (RESULTS / "latest.md").write_text(f"# Benchmark\n\n{where(quick=quick)} {what}\n\n{table}\n")


if __name__ == "__main__":
    main()
