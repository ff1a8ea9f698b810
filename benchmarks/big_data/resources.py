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

ROOT = Path(__file__).parents[2]
BATCH = 500


def resources(numbers):
    """Yield the lines of the table."""
    yield "## Time and memory\n"
    yield "Mapped files, batches of 500, 100 particles; memory is what a run adds (RssAnon), without pages of files.\n"
    yield "| rows | ms per step, passes apart | seconds per pass | memory, MB |"
    yield "|---|---|---|---|"
    for num_rows in numbers:
        command = [sys.executable, "-m", "benchmarks.big_data.resources", num_rows]
        found = json.loads(subprocess.check_output(command, text=True, cwd=ROOT).splitlines()[-1])
        yield (f"| {int(num_rows):,} | {1e3 * found['step']:.3f} | {found['pass']:.2f} | {found['megabytes']:.0f} |")


def anonymous_megabytes():
    """Return the memory of this process that is no file's; pages of mapped files the system takes back at will."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1024


def measured(num_rows):
    import steinflow as sf
    from benchmarks.big_data.problems import mapped_logistic
    from steinflow.inference import anchoring, loop

    target = mapped_logistic(num_rows, BATCH)().posterior(BATCH)
    passes = []

    class Timed(anchoring.Anchoring):
        """Keeps the time of what is not a step."""

        def updated(self, *arguments):
            clock = time.perf_counter()
            anchored = super().updated(*arguments)
            passes.append(time.perf_counter() - clock)
            return anchored

    def fit():
        result = sf.fit(target, key=0, progress=False)
        return result.info["seconds"] / result.info["num_steps"], result.info["passes"]

    fit()  # compiles
    before, most, done = anonymous_megabytes(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.01):
            most[0] = max(most[0], anonymous_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    loop.Anchoring = Timed
    step, read = min(fit() for _ in range(3))
    done.set()
    watcher.join()
    return {"step": step, "pass": sum(passes) / 3 / max(read, 1e-9), "megabytes": most[0] - before}


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
