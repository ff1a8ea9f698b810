"""Runs on several devices or in several processes, started by the tests as a program: it writes what it finds as JSON.

python sharded_runs.py devices
python sharded_runs.py methods
python sharded_runs.py many
python sharded_runs.py process <index> <number of processes> <port> <checkpoint folder or -> <steps>
"""

import json
import os
import sys

if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    if sys.argv[1] in ("devices", "methods", "many"):
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import many_runs
import numpy as np

import steinflow as sf
from steinflow.devices import sharding
from steinflow.targets.flat import flatten

NUM_PARTICLES, NUM_ROWS, DIM = 13, 101, 3  # none of them divides evenly
PARTICLES_OF = {2: 12, 4: NUM_PARTICLES}  # of processes: some that divide evenly, some that do not
METHOD = sf.SVGD(kernel=sf.kernels.RBF())


def regression(batch_size=None, *, mapped=False) -> sf.Posterior:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    data = {"x": x, "y": (x @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=NUM_ROWS)).astype(np.float32)}
    return sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2,
        sf.data.Mapped(data) if mapped else data,
        batch_size=batch_size,
    )


def run(target, method, mesh=None, *, num_particles=NUM_PARTICLES, **settings):
    particles = jax.random.normal(jax.random.key(0), (num_particles, DIM))
    settings = {"num_steps": 20, "key": 1, "progress": False, **settings}
    return sf.fit(target, method, particles=particles, mesh=mesh, **settings)


def difference(result, reference) -> float:
    """The largest distance of two results in units of the reference's spread."""
    pairs = zip(jax.tree.leaves(result.particles), jax.tree.leaves(reference.particles), strict=True)
    pairs = [*pairs, (result.history["ksd"], reference.history["ksd"])]
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / np.std(b)) for a, b in pairs)


def devices() -> dict[str, float]:
    """All that shares its work, on 2, 4 and 8 devices, against one device without a mesh."""
    full, found = regression(), {}
    methods = {
        "SVGD": METHOD,
        "RandomFeatures": sf.SVGD(approximation=sf.svgd.RandomFeatures(64)),
        "ParallelSGLD": sf.ParallelSGLD(),
    }
    for name, method in methods.items():
        found[f"{name} on 4 x 2"] = difference(run(full, method, sf.mesh(particles=4, data=2)), run(full, method))

    flat, particles = flatten(full, jax.random.normal(jax.random.key(0), (NUM_PARTICLES, DIM)))
    kernels = {"sum": sf.kernels.IMQ() + 0.1 * sf.kernels.Linear(), "function": lambda x, y: 1 / (1 + x @ x + y @ y)}

    def work(particles):
        log_densities, scores = flat.log_densities_and_scores(particles)
        directions = {name: sf.stein_direction(particles, scores, kernel) for name, kernel in kernels.items()}
        subsample = sf.svgd.Subsample(5).direction(particles, scores, sf.kernels.RBF(), key=jax.random.key(0))
        return {"log density": log_densities, "score": scores, "Subsample": subsample, **directions}

    reference = jax.jit(work)(particles)
    for num_particles, num_data in ((2, 1), (4, 1), (8, 1), (1, 8)):
        with sharding.use(sf.mesh(particles=num_particles, data=num_data)):
            shared = jax.jit(work)(particles)
        for name, values in shared.items():
            error = np.max(np.abs(values - np.asarray(reference[name]))) / np.std(reference[name])
            found[f"{name} on {num_particles} x {num_data}"] = float(error)
    return found


def methods() -> dict[str, float]:
    """Every other method on 4 x 2 devices, against one device without a mesh."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    network = sf.models.NeuralNetwork(X, X[:, 0] ** 2, hidden=(4,))
    runs = {
        "SVGD": lambda mesh: run(regression(), sf.SVGD(), mesh),
        "Annealed": lambda mesh: run(regression(), sf.Annealed(sf.SVGD()), mesh),
        "SGLD": lambda mesh: run(regression(), sf.SGLD(1e-3), mesh),
        "DSVI": lambda mesh: run(regression(), sf.DSVI(), mesh),
        "PMD": lambda mesh: run(regression(), sf.PMD(0.01), mesh),
        "NPV": lambda mesh: run(regression(), sf.NPV(), mesh, num_steps=3, record_every=1),
        # Few moves: trajectories make rounding grow, twentyfold in ten.
        "NUTS": lambda mesh: run(regression(), sf.NUTS(num_chains=2, num_warmup=5), mesh, num_steps=5, record_every=1),
        "MAP": lambda mesh: run(regression(), sf.MAP(), mesh),
        "PBP": lambda mesh: sf.fit(network, sf.PBP(), num_particles=13, num_steps=5, progress=False, mesh=mesh),
    }
    mesh = sf.mesh(particles=4, data=2)
    found = {name: difference(run(mesh), run(None)) for name, run in runs.items()}
    found["many"] = distance(*(run_many(method=sf.SVGD(), mesh=each) for each in (mesh, None)))
    return found


def many() -> dict[str, float]:
    """Seven posteriors on two devices, against one device without a mesh."""
    return {"paper": distance(run_many(mesh=sf.mesh(particles=2)), run_many())}


def run_many(**settings) -> np.ndarray:
    """The particles of many runs."""
    return np.array([result.particles["a"] for result in many_runs.run(num_steps=20, **settings)])


def distance(particles, reference) -> float:
    """The largest distance in units of the spread."""
    return float(np.max(np.abs(particles - reference) / np.std(reference, axis=1, keepdims=True)))


def process(index, num_processes, port, folder, num_steps) -> dict[str, list]:
    """One of several processes; all of them find the same."""
    jax.distributed.initialize(
        f"localhost:{port}", num_processes, index, heartbeat_timeout_seconds=10, shutdown_timeout_seconds=30
    )

    def say_so(history):
        sys.stdout.write("record\n")
        sys.stdout.flush()
        return False

    result = run(
        regression(10, mapped=True),
        METHOD,
        sf.mesh() if num_processes == 2 else sf.mesh(particles=2, data=2),
        num_particles=PARTICLES_OF[num_processes],
        num_steps=num_steps,
        stop=say_so,
        checkpoint=None if folder == "-" else sf.Checkpoint(folder, every_steps=num_steps // 5),
    )
    many = run_many(mesh=sf.mesh(), checkpoint=None if folder == "-" else f"{folder}-many")
    found = {"particles": result.particles, "ksd": result.history["ksd"], "many": many}
    return {name: np.asarray(values).tolist() for name, values in found.items()}


if __name__ == "__main__":
    if sys.argv[1] == "devices":
        found = devices()
    elif sys.argv[1] == "methods":
        found = methods()
    elif sys.argv[1] == "many":
        found = many()
    else:
        index, count, port, folder, steps = sys.argv[2:]
        found = process(int(index), int(count), int(port), folder, int(steps))
    sys.stdout.write(json.dumps(found) + "\n")
