"""Runs on several devices or in several processes, started by the tests as a program: it writes what it finds as JSON.

    python sharded_runs.py devices
    python sharded_runs.py process <index> <number of processes> <port> <checkpoint folder or -> <steps>
"""

import json
import os
import sys

if sys.argv[1] == "devices":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf

NUM_PARTICLES, NUM_ROWS, DIM = 13, 101, 3  # none of them divides evenly


def regression(batch_size=None, *, mapped=False) -> sf.Posterior:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    data = {"x": x, "y": (x @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=NUM_ROWS)).astype(np.float32)}
    return sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2,
        sf.Mapped(data) if mapped else data,
        batch_size=batch_size,
    )


def run(target, method, mesh=None, num_steps=20, checkpoint=None, **settings):
    particles = jax.random.normal(jax.random.key(0), (NUM_PARTICLES, DIM))
    return sf.fit(
        target, method, particles=particles, num_steps=num_steps, key=1, progress=False, mesh=mesh, checkpoint=checkpoint,
        **settings,
    )  # fmt: skip


def difference(result, reference) -> float:
    """The largest distance of two results in units of the reference's spread."""
    pairs = [(result.particles, reference.particles), (result.history["ksd"], reference.history["ksd"])]
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / np.std(b)) for a, b in pairs)


def devices() -> dict[str, float]:
    """Every method on 8 devices, and SVGD on 2 and 4, against one device."""
    methods = {
        "rbf": sf.SVGD(kernel=sf.RBF()),
        "default": sf.SVGD(),
        "features": sf.SVGD(approximation=sf.RandomFeatures(64)),
        "subsample": sf.SVGD(kernel=sf.IMQ(), approximation=sf.Subsample(5)),
    }
    for name in ("SGLD", "ParallelSGLD", "DSVI", "PMD", "NPV"):
        if hasattr(sf, name):
            methods[name] = getattr(sf, name)()
    full, batches = regression(), regression(batch_size=10)
    found = {}
    for name, method in methods.items():
        found[f"{name} 4x2"] = difference(run(full, method, sf.mesh(particles=4, data=2)), run(full, method))
    one = run(full, methods["rbf"])
    for particles, data in ((1, 1), (2, 1), (1, 2), (4, 1), (8, 1), (1, 8)):
        found[f"rbf {particles}x{data}"] = difference(run(full, methods["rbf"], sf.mesh(particles=particles, data=data)), one)
    one = run(batches, methods["rbf"])
    for target, name in ((batches, "batches"), (regression(10, mapped=True), "mapped")):
        found[f"{name} 2x2"] = difference(run(target, methods["rbf"], sf.mesh(particles=2, data=2)), one)
    return found


def process(index, num_processes, port, folder, num_steps) -> dict[str, float]:
    """One of several processes; all of them find the same."""
    jax.distributed.initialize(
        f"localhost:{port}", num_processes, index, heartbeat_timeout_seconds=10, shutdown_timeout_seconds=10
    )
    mesh = sf.mesh(particles=num_processes // 2 or 1, data=2)
    method = sf.SVGD(kernel=sf.RBF())
    if folder != "-":
        checkpoint = sf.Checkpoint(folder, every_steps=20)
        result = run(regression(10), method, mesh, num_steps, checkpoint, stop=lambda history: print("step", flush=True))
        return {"resumed": difference(result, run(regression(10), method, None, num_steps))}
    return {
        "full": difference(run(regression(), method, mesh), run(regression(), method)),
        "mapped": difference(run(regression(10, mapped=True), method, mesh), run(regression(10), method)),
        "features": difference(
            run(regression(), sf.SVGD(approximation=sf.RandomFeatures(64)), mesh),
            run(regression(), sf.SVGD(approximation=sf.RandomFeatures(64))),
        ),
    }


if __name__ == "__main__":
    if sys.argv[1] == "devices":
        found = devices()
    else:
        index, count, port, folder, steps = sys.argv[2:]
        found = process(int(index), int(count), int(port), folder, int(steps))
    print(json.dumps(found))
