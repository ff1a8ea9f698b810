"""Scale: very many particles, very many rows, many devices and processes. `python -m benchmarks.scale [section ...]`.

Every section is a program of its own, so that its memory is its own too; figures that are compared come from one run,
taken in turns. They go to `benchmarks/results/scale.json`, the plot of the approximations to
`docs/images/approximations.png`.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
PLOT = ROOT / "docs" / "images" / "approximations.png"


def in_turns(rounds=5, **functions):
    """The shortest time of each function, taken in turns so that all see the same machine."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            clock = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - clock)
    return {name: min(values) for name, values in times.items()}


def peak_gigabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def cloud(n, d):
    import jax

    particles = jax.random.normal(jax.random.key(0), (n, d))
    return particles, -particles


def features(n=100_000, d=50, m=1024):
    """One direction by random features, against its bare matrix products."""
    import jax
    import jax.numpy as jnp

    import steinflow as sf

    x, scores = cloud(n, d)
    direction = jax.jit(lambda x, s, key: sf.svgd.RandomFeatures(m).direction(x, s, sf.kernels.RBF(), key=key))
    jax.block_until_ready(direction(x, scores, jax.random.key(1)))
    peak = peak_gigabytes()

    phases = jax.jit(lambda x: x @ jnp.ones((d, m // 2)))
    inner = jax.jit(lambda f, s: f.T @ s)
    outer = jax.jit(lambda f, c: f @ c)
    block = jnp.ones((n, m))
    right, coefficients = jnp.ones((n, d + 1)), jnp.ones((m, d))

    def bare():
        jax.block_until_ready((phases(x), inner(block, right), outer(block, coefficients)))

    times = in_turns(direction=lambda: direction(x, scores, jax.random.key(1)).block_until_ready(), products=bare)
    return {**times, "ratio": times["direction"] / times["products"], "peak GB": peak}


def exact(n=100_000, d=50):
    """One exact direction."""
    import jax

    import steinflow as sf

    x, scores = cloud(n, d)
    direction = jax.jit(lambda x, s: sf.stein_direction(x, s, sf.kernels.RBF()))
    clock = time.perf_counter()
    direction(x, scores).block_until_ready()
    return {"seconds": time.perf_counter() - clock, "peak GB": peak_gigabytes()}


def data(d=10, batch_size=256, num_steps=2000):
    """Minibatch steps on mapped files of 10^4 and 10^7 rows, made on the fly."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import steinflow as sf

    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    start = rng.normal(size=(100, d)).astype(np.float32)
    targets = {}
    for num_data in (10**4, 10**7):
        x = np.lib.format.open_memmap(folder / f"x{num_data}.npy", "w+", np.float32, (num_data, d))
        for i in range(0, num_data, 10**5):
            x[i : i + 10**5] = rng.normal(size=(min(10**5, num_data - i), d))
        x.flush()
        mapped = np.load(folder / f"x{num_data}.npy", mmap_mode="r")
        targets[num_data] = sf.Posterior(
            lambda w: -0.5 * jnp.sum(w**2), lambda w, x: jax.nn.log_sigmoid(x @ w), mapped, batch_size=batch_size
        )

    def fit(num_data):
        result = sf.fit(
            targets[num_data],
            sf.SVGD.paper(),
            particles=start,
            num_steps=num_steps,
            progress=False,
            record_every=num_steps,
        )
        return result.info["seconds"]

    seconds = {num_data: [] for num_data in targets}
    for _ in range(4):  # the first compiles
        for num_data in targets:
            seconds[num_data].append(fit(num_data))
    times = {f"N={num_data:.0e}": min(values[1:]) / num_steps for num_data, values in seconds.items()}
    small, large = times.values()
    return {**times, "ratio": large / small, "peak GB": peak_gigabytes(), "file GB": 10**7 * d * 4 / 2**30}


def approximations(n=5000, d=10, numbers=(16, 64, 256, 1024)):
    """Error of one direction, its time, and the spread after a whole run, against m; with a plot."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import steinflow as sf

    x, _ = cloud(n, d)
    x = 1.2 * x
    scores = -x
    exact_direction = jax.jit(lambda x, s: sf.stein_direction(x, s, sf.kernels.RBF()))
    reference = exact_direction(x, scores)
    size = float(jnp.sqrt(jnp.mean(reference**2)))

    def dispersion(approximation):
        method = sf.SVGD(approximation=approximation)
        run = sf.fit(lambda x: -0.5 * jnp.sum(x**2), method, particles=x, num_steps=200, progress=False)
        return float(np.median(run.dispersion))

    rows = []
    for kind in (sf.svgd.Subsample, sf.svgd.RandomFeatures):
        for m in numbers:
            direction = jax.jit(lambda x, s, key, a=kind(m): a.direction(x, s, sf.kernels.RBF(), key=key))
            errors = [direction(x, scores, jax.random.key(seed)) - reference for seed in range(20)]
            times = in_turns(
                rounds=10,
                approximate=lambda run=direction: run(x, scores, jax.random.key(0)).block_until_ready(),
                exact=lambda: exact_direction(x, scores).block_until_ready(),
            )
            rows.append(
                {
                    "kind": kind.__name__,
                    "m": m,
                    "error": float(jnp.sqrt(jnp.mean(jnp.stack(errors) ** 2))) / size,
                    "time": times["approximate"] / times["exact"],
                    "dispersion": dispersion(kind(m)),
                }
            )
    found = {"rows": rows, "exact dispersion": dispersion(None), "n": n, "d": d}
    plot(found)
    return found


def plot(found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {
        "error": "error of one direction\n(relative)",
        "time": "time / exact",
        "dispersion": "dispersion after 200 steps",
    }
    numbers = sorted({row["m"] for row in found["rows"]})
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for axis, (name, label) in zip(axes, panels.items(), strict=True):
        for kind, marker in (("Subsample", "o"), ("RandomFeatures", "s")):
            rows = [row for row in found["rows"] if row["kind"] == kind]
            axis.plot([row["m"] for row in rows], [row[name] for row in rows], marker=marker, label=kind)
        axis.set(xscale="log", xlabel="m", ylabel=label)
        axis.set_xticks(numbers, map(str, numbers))
        axis.minorticks_off()
    first = max(row["error"] for row in found["rows"])
    slope = [first * (m / numbers[0]) ** -0.5 for m in numbers]
    axes[0].plot(numbers, slope, color="gray", linestyle=":", label="$m^{-1/2}$")
    axes[0].set_yscale("log")
    axes[0].set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes[0].minorticks_off()
    axes[1].set_ylim(0, None)
    axes[1].axhline(1, color="gray", linestyle=":")
    axes[2].set_ylim(0.9, 1.1)
    axes[2].axhline(found["exact dispersion"], color="gray", linestyle=":", label="exact")
    axes[0].legend(frameon=False)
    axes[2].legend(frameon=False)
    figure.suptitle(f"n = {found['n']} particles, d = {found['d']}")
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=120)


def mesh_times(n=4000, d=50):
    """A Stein direction over all devices: in all, and the gathering of its rows alone."""
    n = int(n)
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    import steinflow as sf
    from steinflow.devices import sharding

    particles = jnp.asarray(cloud(n, d)[0])
    mesh = sf.mesh()
    with sharding.use(mesh):
        x = sharding.replicate(particles)
        shares = jax.jit(lambda x: x + 0, out_shardings=jax.NamedSharding(mesh, P(sharding.PARTICLES)))(x)
        work = jax.jit(lambda x: sf.stein_direction(x, -x, sf.kernels.RBF(bandwidth=50.0)))
        gather = jax.jit(lambda x: x + 0, out_shardings=jax.NamedSharding(mesh, P()))
        times = in_turns(
            direction=lambda: work(x).block_until_ready(), gather=lambda: gather(shares).block_until_ready()
        )
    return {**times, "communication": times["gather"] / times["direction"]}


def devices():
    """One process with 1, 2, 4 and 8 devices, on the cores there are; then 2 and 4 processes of one device each."""
    found = {"cores": os.cpu_count()}
    for count in (1, 2, 4, 8):
        flags = f"--xla_force_host_platform_device_count={count}"
        found[f"{count} devices"] = json.loads(started("mesh_times", XLA_FLAGS=flags).communicate()[0])
    for count, n in ((2, 4000), (4, 4000), (2, 2000), (2, 16_000)):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        programs = [started("one_process", str(i), str(count), str(port), str(n)) for i in range(count)]
        outputs = [program.communicate()[0] for program in programs]
        found[f"{count} processes, n={n}"] = json.loads(outputs[0].splitlines()[-1])
    return found


def one_process(index, count, port, n):
    import jax

    jax.distributed.initialize(f"localhost:{port}", int(count), int(index))
    return mesh_times(n)


def kills():
    """A run killed twenty times, against the same run left alone."""
    return json.loads(
        subprocess.check_output([sys.executable, ROOT / "tests" / "helpers" / "killed_runs.py", "20"], text=True)
    )


def started(section, *arguments, **environment):
    command = [sys.executable, "-m", "benchmarks.scale", "--alone", section, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **environment})


SECTIONS = {function.__name__: function for function in (features, exact, data, approximations, devices, kills)}
PARTS = {**SECTIONS, "mesh_times": mesh_times, "one_process": one_process}


def main():
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(PARTS[sys.argv[2]](*sys.argv[3:])))
        return
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for section in sys.argv[1:] or SECTIONS:
        output, _ = started(section).communicate()
        found[section] = json.loads(output.splitlines()[-1])
        print(section, json.dumps(found[section], indent=2))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
