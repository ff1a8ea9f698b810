"""One run, killed by SIGKILL at random moments and started again each time, against the same run left alone.

    python killed_runs.py <number of kills> [mapped | many]

Started by the tests and by the benchmark as a program, because it forks: JAX is imported once, and each child is a new
process that has not used it yet. It writes how many kills there were, how many of them hit the writing of a checkpoint,
how many passes over the data its anchors took, by how much the chances of rows to be drawn differ, and whether the two
runs are equal bit for bit, as JSON. Rows are in memory, or mapped files; or there are many runs, of `fit_many`.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
import steinflow.inference.many as many_module
from steinflow.inference.anchoring import Anchoring
from steinflow.inference.blocks import BlockRun


def run_many(folder: Path, num_steps: int, started: int) -> None:
    """Posteriors of which some are advised to take more steps, in blocks of two."""

    def funnel(width):
        def log_density(x):
            return -0.5 * (x[0] / width) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]

        return sf.Density(log_density, prior=lambda key: jax.random.normal(key, (5,)))

    def advance(self, block, count):
        os.write(started, b".")
        return known(self, block, min(count, 25))

    known, BlockRun.advance = BlockRun.advance, advance
    many_module._BLOCK = 2
    many_module.default_limits = lambda method: (num_steps, 2 * num_steps)
    checkpoint = sf.Checkpoint(folder, every_steps=25)
    widths = np.array([3, 0.1, 3, 0.1, 2], np.float32)
    many = sf.fit_many(funnel, widths, num_particles=20, key=3, progress=False, checkpoint=checkpoint)
    names = "particles", "scores", "log_densities"
    found = {f"{name} {k}": np.asarray(getattr(each, name), float) for name in names for k, each in enumerate(many)}
    np.savez(folder / "result.npz", **found, passes=0.0, influence=1.0, steps=[each.info["num_steps"] for each in many])


def run(folder: Path, num_steps: int, started: int, *, mapped: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(97, 3)).astype(np.float32)
    target = sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, rows: jax.nn.log_sigmoid(rows @ w),
        sf.data.Mapped(x) if mapped else x,
        batch_size=8,
        prior=lambda key: jax.random.normal(key, (3,)),
    )

    def stop(history):
        os.write(started, b".")
        return False

    influences = []  # of the anchors, as a part of what a checkpoint holds

    def updated(self, *arguments):
        anchored = known(self, *arguments)
        influences.append(np.asarray(anchored.anchor.influence.edges))
        return anchored

    known, Anchoring.updated = Anchoring.updated, updated
    result = sf.fit(
        target,
        sf.SVGD(approximation=sf.svgd.Subsample(10)),
        num_particles=20,
        num_steps=num_steps,
        key=3,
        progress=False,
        record={"mean": lambda x: jnp.mean(x, axis=0)},
        record_every=10,
        stop=stop,
        checkpoint=sf.Checkpoint(folder, every_steps=10),
    )
    passes = result.info["passes"]  # over all rows, for the anchor of the minibatches
    chances = np.diff(influences[-1].astype(float), prepend=0.0)
    found = {"x": result.particles, "scores": result.scores, "passes": passes, "influence": chances}
    np.savez(folder / "result.npz", **found, **result.history)


def child(folder: Path, num_steps: int, kind: str) -> tuple[int, int]:
    """Start a run in a process of its own; return its id and a pipe that speaks when it takes steps."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            if kind == "many":
                run_many(folder, num_steps, writing)
            else:
                run(folder, num_steps, writing, mapped=kind == "mapped")
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading


def main(num_kills: int, kind: str = "in memory") -> dict:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp()  # children need not compile again
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    folders = {name: Path(tempfile.mkdtemp()) for name in ("left alone", "killed")}
    num_steps = 60 * num_kills  # so many that it does not end before
    pid, reading = child(folders["left alone"], num_steps, kind)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(reading)

    random.seed(0)
    kills, while_writing, finished = 0, 0, False
    while not finished:
        pid, reading = child(folders["killed"], num_steps, kind)
        if kills < num_kills:
            if kills % 4:  # the fourth kill is wherever it falls, mostly before the first step
                os.read(reading, 1)
            time.sleep(random.uniform(0, 0.3))
            while_writing += bool(list(folders["killed"].glob("*tmp*")))
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        os.close(reading)
        finished = status == 0
        kills += os.WIFSIGNALED(status)
        assert finished or os.WIFSIGNALED(status), "a run failed by itself"
    results = [np.load(folder / "result.npz") for folder in folders.values()]
    equal = all(np.array_equal(results[0][name], results[1][name]) for name in results[0].files)
    uneven = float(results[1]["influence"].max() / results[1]["influence"].mean())
    passes = float(results[1]["passes"])
    return {"kills": kills, "while writing": while_writing, "passes": passes, "uneven": uneven, "equal": equal}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), *sys.argv[2:])))
