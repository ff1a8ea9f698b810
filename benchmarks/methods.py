"""The methods that the paper compares with: speed, accuracy and the published numbers of PBP.

    python -m benchmarks.methods speed            # ratios: chains side by side, the cost of fit, PBP against NumPy
    python -m benchmarks.methods table            # accuracy, test log-likelihood and time of all on three problems
    python -m benchmarks.methods time             # time to the accuracy of 1,000 NUTS draws: SVGD, BlackJAX, NumPyro
    python -m benchmarks.methods pbp --splits 20  # boston, concrete, energy, yacht on their standard splits

The data sets are found as `steinflow.paper.datasets` finds them.
"""

import argparse
import runpy
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.time_to_accuracy import moments, time_to_accuracy
from benchmarks.timing import seconds_per_step
from steinflow.methods.base import Time
from steinflow.paper import datasets
from steinflow.targets.flat import flatten

ROOT = Path(__file__).parents[1]
PUBLISHED = {"boston": (3.01, -2.57), "concrete": (5.67, -3.16), "energy": (1.80, -2.04), "yacht": (1.02, -1.63)}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "table", "time", "pbp"])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=["german", "diabetis", "waveform"], help="for `time`")
    arguments = parser.parse_args()
    match arguments.what:
        case "speed":
            speed()
        case "table":
            table()
        case "time":
            time_to_accuracy(arguments.sets)
        case "pbp":
            jax.config.update("jax_enable_x64", True)
            pbp(arguments.splits)


def stepper(method, target, num_particles, key=0):
    """Steps of a method, as `fit` takes them."""
    keys = jax.random.split(jax.random.key(key), num_particles)
    flat, x = flatten(target, jax.vmap(target.sample_prior)(keys))
    state = eqx.filter_jit(method.init)(flat, x, num_steps=1000, key=jax.random.key(1))

    @eqx.filter_jit
    def run(flat, state, count):
        def body(i, state):
            batch = flat.minibatch(jax.random.key(2), i)
            time = Time(i, jnp.asarray(1000))
            return method.step(flat, state, batch, time=time, key=jax.random.fold_in(jax.random.key(3), i))

        return jax.lax.fori_loop(0, count, body, state)

    return (lambda count: jax.block_until_ready(run(flat, state, jnp.asarray(count)))), flat, state


def speed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 54))
    model = sf.models.LogisticRegression(X, X[:, 0] > rng.normal(size=10_000), batch_size=50)
    chains = {
        "sequential": stepper(sf.SGLD(1e-4), model, 100)[0],
        "1 chain": stepper(sf.ParallelSGLD(1e-4), model, 1)[0],
        "100 chains": stepper(sf.ParallelSGLD(1e-2), model, 100)[0],
    }
    seconds = seconds_per_step(chains, budget=10)
    for one in ("sequential", "1 chain"):
        ratio = seconds["100 chains"] / seconds[one]
        print(f"parallel SGLD, 100 chains over {one}: {ratio:.2f} x (goal < 5)", seconds, flush=True)

    import blackjax

    german = datasets.load("german")
    model = sf.models.LogisticRegression(german.X, german.y)
    ours, flat, state = stepper(sf.NUTS(num_chains=4, num_warmup=300), model, 400)
    kernel = blackjax.nuts.build_kernel()

    @jax.jit
    def bare(chains, count):
        def move(key, chain, parameters):
            return kernel(key, chain, flat.log_density, max_num_doublings=10, **parameters)[0]

        def body(i, chains):
            keys = jax.random.split(jax.random.fold_in(jax.random.key(3), i), 4)
            return jax.vmap(move)(keys, chains, state.parameters)

        return jax.lax.fori_loop(0, count, body, chains)

    def alone(count):
        return jax.block_until_ready(bare(state.chains, jnp.asarray(count)))

    clocks = {"steinflow": [], "blackjax": []}
    for _ in range(25):  # the same 50 draws, in turns: trajectories differ in length from draw to draw
        for name, run in (("steinflow", ours), ("blackjax", alone)):
            start = time.perf_counter()
            run(50)
            clocks[name].append((time.perf_counter() - start) / 50)
    best = {name: min(values[1:]) for name, values in clocks.items()}
    print(f"NUTS over BlackJAX alone: {best['steinflow'] / best['blackjax']:.2f} x (goal 1)", best, flush=True)

    with jax.enable_x64(True):
        from steinflow.methods.pbp import epoch, initial_state

        plain_class = runpy.run_path(str(ROOT / "tests" / "pbp_numpy.py"))["NumPyPBP"]
        (X, y), _ = datasets.load("boston").split(0)
        model = sf.models.NeuralNetwork(X, y)
        X, y = model.data.values["X"], model.data.values["y"]
        state = initial_state(model.sizes, 1, jax.random.key(0))
        plain = plain_class([np.asarray(m) for m in state.means])
        arrays = np.asarray(X), np.asarray(y), np.arange(len(y))
        compiled = jax.jit(epoch)
        candidates = {
            "steinflow": lambda _: jax.block_until_ready(compiled(state, X, y, jax.random.key(1))),
            "numpy": lambda _: plain.epoch(*arrays),
        }
        best = dict.fromkeys(candidates, np.inf)
        for _ in range(4):
            for name, run in candidates.items():
                start = time.perf_counter()
                run(1)
                best[name] = min(best[name], time.perf_counter() - start)
    print(f"PBP, NumPy loop over compiled epoch: {best['numpy'] / best['steinflow']:.1f} x (goal > 5)", best)


# PBP on its standard splits


def pbp(num_splits):
    print("| data | RMSE | published | log-likelihood | published | seconds per split |\n|---|---|---|---|---|---|")
    for name, (rmse, log_likelihood) in PUBLISHED.items():
        figures, started = [], time.perf_counter()
        for k in range(num_splits):
            train, test = datasets.load(name).split(k)
            model = sf.models.NeuralNetwork(*train)
            found = sf.PBP().evaluate(model, sf.PBP().train(model, key=jax.random.key(k)), *test)
            figures.append((found["rmse"], found["log_likelihood"]))
        mean, error = np.mean(figures, axis=0), np.std(figures, axis=0) / np.sqrt(num_splits)
        seconds = (time.perf_counter() - started) / num_splits
        print(
            f"| {name} | {mean[0]:.2f} ± {error[0]:.2f} | {rmse} | {mean[1]:.2f} ± {error[1]:.2f} | {log_likelihood} "
            f"| {seconds:.1f} |",
            flush=True,
        )


# All methods on three problems


def timed(target, method, **settings):
    """A result, and the seconds of a second run, which does not compile."""
    for _ in range(2):
        started = time.perf_counter()
        result = sf.fit(target, method, progress=False, record_every=settings["num_steps"], **settings)
        seconds = time.perf_counter() - started
    return result, seconds


def accuracy(result, truth):
    """Root mean square error of the means in posterior sds, and the range of sd over true sd."""
    (mean, sd), (true_mean, true_sd) = moments(result), truth
    ratio = sd / true_sd
    return float(np.sqrt(np.mean(((mean - true_mean) / true_sd) ** 2))), ratio


def gaussian_problem(dim=10):
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    covariance = rotation @ np.diag(np.geomspace(0.05, 1.0, dim)) @ rotation.T
    mean = rng.normal(size=dim)
    precision = np.linalg.inv(covariance).astype(np.float32)
    center, factor = mean.astype(np.float32), np.linalg.cholesky(covariance).astype(np.float32)
    target = sf.Density(
        lambda x: -0.5 * (x - center) @ precision @ (x - center), prior=lambda key: jax.random.normal(key, (dim,))
    )
    exact = sf.MonteCarlo(lambda key: center + factor @ jax.random.normal(key, (dim,)))
    return target, (mean, np.sqrt(np.diag(covariance))), exact


def german_problem():
    train, test = datasets.load("german").split(0)
    model = sf.models.LogisticRegression(*train)
    long_run = sf.fit(model, sf.NUTS(), num_steps=2_500, key=99, progress=False)
    return model, tuple(moments(long_run)), test


def row(problem, name, seconds, result, truth=None, figures=None):
    cells = [problem, name, str(len(result))]
    if truth is None:
        cells += ["", ""]
    else:
        error, ratio = accuracy(result, truth)
        cells += [f"{error:.3f}", f"{ratio.min():.2f} to {ratio.max():.2f}"]
    cells += ["" if figures is None else f"{figures['log_likelihood']:.3f}", f"{seconds:.2f}"]
    print("| " + " | ".join(cells) + " |", flush=True)


def table():
    print("| problem | method | draws | error of means | sd / true sd | test log-likelihood | seconds |")
    print("|---|---|---|---|---|---|---|")
    target, truth, exact = gaussian_problem()
    for name, method, n, steps in [
        ("SVGD", sf.SVGD(), 100, 500),
        ("SGLD", sf.SGLD(0.02, decay=0.0, thin=20), 1000, 22_000),
        ("ParallelSGLD", sf.ParallelSGLD(0.02 * 100, decay=0.0), 100, 1000),
        ("DSVI", sf.DSVI(stage=300), 1000, 20_000),
        ("PMD", sf.PMD(), 100, 500),
        ("NPV", sf.NPV(draws_per_component=20), 50, 6),
        ("NUTS", sf.NUTS(), 4, 250),
        ("MAP", sf.MAP(), 4, 500),
        ("MonteCarlo", exact, 1000, 1),
    ]:
        result, seconds = timed(target, method, num_particles=n, num_steps=steps, key=1)
        row("Gaussian, d = 10", name, seconds, result, truth)

    model, truth, test = german_problem()
    for name, method, n, steps in [
        ("SVGD", sf.SVGD(), 100, 500),
        ("SGLD", sf.SGLD(5e-4, decay=0.0, thin=20), 1000, 22_000),
        ("ParallelSGLD", sf.ParallelSGLD(5e-4 * 100, decay=0.0), 100, 1500),
        ("DSVI", sf.DSVI(stage=500), 1000, 20_000),
        ("PMD", sf.PMD(), 100, 1000),
        ("NPV", sf.NPV(draws_per_component=20, laplacian=model.laplacian), 50, 5),
        ("NUTS", sf.NUTS(), 4, 250),
        ("MAP", sf.MAP(), 4, 500),
    ]:
        result, seconds = timed(model, method, num_particles=n, num_steps=steps, key=1)
        figures = model.evaluate(result.particles, *test, weights=result.weights)
        row("logistic, german", name, seconds, result, truth, figures)

    train, test = datasets.load("yacht").split(0)
    full, batched = sf.models.NeuralNetwork(*train), sf.models.NeuralNetwork(*train, batch_size=100)
    for name, method, n, steps in [
        ("SVGD", sf.SVGD.for_networks(), 20, 3000),
        ("SGLD", sf.SGLD(1e-5, thin=20), 100, 30_000),
        ("ParallelSGLD", sf.ParallelSGLD(2e-4), 20, 5000),
        ("DSVI", sf.DSVI("diagonal"), 100, 20_000),
        ("PMD", sf.PMD(), 100, 2000),
        ("NPV", sf.NPV(max_iterations=50), 5, 2),
        ("NUTS", sf.NUTS(num_chains=2, num_warmup=200, max_doublings=7), 2, 50),
        ("MAP", sf.MAP(0.01), 4, 3000),
        ("PBP", sf.PBP(), 100, 40),
    ]:
        target = full if name in ("NPV", "NUTS", "PBP", "MAP") else batched
        result, seconds = timed(target, method, num_particles=n, num_steps=steps, key=1)
        figures = full.evaluate(result.particles, *test, weights=result.weights)
        row("network, yacht", name, seconds, result, None, figures)


if __name__ == "__main__":
    main()
