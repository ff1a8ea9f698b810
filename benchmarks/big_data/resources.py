"""Time per step, passes apart, and memory on mapped files of few and of many rows, each in a process of its own.

python -m benchmarks.big_data.resources <rows>    # one process, its findings as JSON
"""

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from benchmarks.big_data.problems import kept

ROOT = Path(__file__).parents[2]
BATCH = 500


def resources(numbers):
    """Yield the lines of the table."""
    yield (
        "Mapped files, batches of 500, 100 particles, the best of three runs after one that compiles. A step includes "
        "waiting for its rows, and what is watched on the way. Memory is what a run adds at most (RssAnon), without "
        "pages of files.\n"
    )
    yield "| rows | ms per step, passes apart | seconds per pass | memory, MB |"
    yield "|---|---|---|---|"
    for num_rows in numbers:
        found = kept(f"resources {num_rows}", _in_a_process, num_rows)
        yield (f"| {int(num_rows):,} | {1e3 * found['step']:.3f} | {found['pass']:.3f} | {found['megabytes']:.0f} |")


def _in_a_process(num_rows):
    command = [sys.executable, "-m", "benchmarks.big_data.resources", num_rows]
    return json.loads(subprocess.check_output(command, text=True, cwd=ROOT).splitlines()[-1])


def anonymous_megabytes():
    """Return the memory of this process that is no file's; pages of mapped files the system takes back at will."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1024


def measured(num_rows):
    import steinflow as sf
    from benchmarks.big_data.problems import mapped_logistic
    from steinflow.inference import anchoring, loop

    target = mapped_logistic(num_rows, BATCH)().posterior(BATCH)
    looping, passing = [], []

    def timed(function, into):
        def run(*arguments):
            clock = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                into.append(time.perf_counter() - clock)

        return run

    def fit():
        """Return the seconds of a step and of a pass."""
        looping.clear(), passing.clear()
        result = sf.fit(target, key=0, progress=False)
        *within, _ = passing  # the last look comes after the loop
        step = (sum(looping) - sum(within)) / result.info["num_steps"]
        return step, sum(passing) / max(result.info["passes"], 1e-9)

    loop._loop = timed(loop._loop, looping)
    anchoring.Anchoring.updated = timed(anchoring.Anchoring.updated, passing)
    fit()  # compiles
    before, most, done = anonymous_megabytes(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.01):
            most[0] = max(most[0], anonymous_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    step, read = map(min, zip(*(fit() for _ in range(3)), strict=True))
    done.set()
    watcher.join()
    return {"step": step, "pass": read, "megabytes": most[0] - before}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(int(sys.argv[1]))))
