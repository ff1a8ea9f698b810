"""The tables of docs/posteriordb.md, from what is measured so far."""

import collections

from benchmarks.pages import put
from benchmarks.posteriordb.contenders import CONTENDERS
from benchmarks.posteriordb.models import problems
from benchmarks.posteriordb.rows import measured

PAGE = "docs/posteriordb.md"
LEVELS = ("good", "doubtful", "bad")
PEERS = tuple(who for who in CONTENDERS if who != "steinflow")
OURS = (
    "posterior", "written in", "d", "mean error", "worst parameter", "sd ratio", "right", "verdict", "gradients",
    "seconds", "first run",
)  # fmt: skip


def page():
    """Put every table into the page."""
    found = {name: {who: measured(name, who) for who in CONTENDERS} for name in problems()}
    ours = {name: each["steinflow"] for name, each in found.items() if each["steinflow"] is not None}
    lines = [_table_line(OURS), "|---" * len(OURS) + "|", *(_table_line(cells(name, ours[name])) for name in ours)]
    put(PAGE, "summary", _summary(ours, found))
    put(PAGE, "posteriors", "\n".join([*lines, ""]))
    put(PAGE, "verdicts", _verdicts(ours))
    put(PAGE, "peers", _peers(found))


def cells(name: str, found: dict) -> list[str]:
    """Return what a line of the first table says."""
    runs = found["runs"]
    return [
        name,
        found["language"],
        str(found["dim"]),
        _number(found["error"], 3),
        _number(found["worst"], 2),
        _ratio(found),
        f"{found['right']} of {len(runs)}",
        _words(runs),
        _count(sum(run["gradients"] for run in runs) / len(runs)) if runs[0]["gradients"] else "",
        _seconds(found["seconds"]),
        _seconds(found["seconds_first"]),
    ]


def printed(name: str, who: str, found: dict) -> str:
    """Return a line for the terminal."""
    _, language, dim, error, worst, ratio, right, verdict, gradients, again, first = cells(name, found)
    return (
        f"{name:43} {who:10} {language:7} d={dim:3} mean {error:>5} (worst {worst:>4})  sd {ratio:12}  right {right}  "
        f"{verdict:18}  {gradients or '?':>9} gradients  {again or '?'} s (first {first} s)"
    )


def _summary(ours, found):
    runs = [run for each in ours.values() for run in each["runs"]]
    always = sum(each["right"] == len(each["runs"]) for each in ours.values())
    lines = [
        f"- steinflow: right in {sum(run['right'] for run in runs)} of {len(runs)} runs; with every key on {always} of "
        f"{len(ours)} posteriors."
    ]
    for who in PEERS:
        theirs = [each[who] for each in found.values() if each[who] is not None]
        if theirs:
            lines.append(
                f"- {who}: right on {sum(each['right'] for each in theirs)} of {len(theirs)}.{_beside(who, found)}"
            )
    return "\n".join([*lines, ""])


def _beside(who, found):
    """Say how often steinflow takes less than a peer does, in one run and to the same error of the mean.

    Chance falls as the square root of what a chain costs.
    """
    pairs = [(each["steinflow"], each[who]) for each in found.values() if each[who] is not None]
    if any(run["gradients"] is None for _, them in pairs for run in them["runs"]):
        return ""

    def cost(found, what):
        return (
            found["seconds"]
            if what == "seconds"
            else sum(run["gradients"] for run in found["runs"]) / len(found["runs"])
        )

    less = {
        (what, power): sum(
            cost(us, what) < cost(them, what) * (them["error"] / us["error"]) ** power for us, them in pairs
        )
        for what in ("gradients", "seconds")
        for power in (0, 2)
    }
    return (
        f" steinflow takes fewer gradients on {less['gradients', 0]} and less time on {less['seconds', 0]} of "
        f"{len(pairs)}; to the same error of the mean on {less['gradients', 2]} and {less['seconds', 2]}."
    )


def _verdicts(ours):
    counts = collections.Counter((run["right"], run["verdict"]) for each in ours.values() for run in each["runs"])
    lines = ["| the answer is | " + " | ".join(LEVELS) + " |", "|---|---|---|---|"]
    for right, word in ((True, "right"), (False, "not right")):
        lines.append(_table_line([word, *(str(counts[right, level]) for level in LEVELS)]))
    return "\n".join([*lines, ""])


def _peers(found):
    present = [who for who in ("steinflow", *PEERS) if any(each[who] for each in found.values())]
    lines = [
        _table_line(["posterior", *(f"{who}: mean error; sd ratio; gradients; seconds" for who in present)]),
        "|---" * (len(present) + 1) + "|",
    ]
    lines += [_table_line([name, *(_in_short(each[who]) for who in present)]) for name, each in found.items()]
    return "\n".join([*lines, ""])


def _in_short(found):
    if found is None:
        return ""
    gradients = [run["gradients"] for run in found["runs"] if run["gradients"] is not None]
    parts = [_number(found["error"], 2), _ratio(found)]
    parts += [_count(sum(gradients) / len(gradients))] if gradients else []
    text = "; ".join([*parts, f"{_seconds(found['seconds'])} s"])
    return f"**{text}**" if found["right"] == len(found["runs"]) else text


def _ratio(found):
    return " .. ".join(_number(ratio, 2) for ratio in found["ratio"])


def _number(value, digits):
    """Return a number with its digits, and a large one, of an answer that is wrong anyway, without."""
    return f"{value:.{digits}f}" if value < 10 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}"


def _words(runs):
    """Return the verdicts of several runs, as `good` or `2 good, 1 doubtful`."""
    counts = collections.Counter(run.get("verdict", "") for run in runs)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{counts[level]} {level}" for level in LEVELS if counts[level])


def _count(number):
    return f"{number:,.0f}"


def _seconds(value):
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _table_line(cells):
    return "| " + " | ".join(cells) + " |"
