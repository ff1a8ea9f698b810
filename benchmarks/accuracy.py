"""Accuracy without tuning: mean and spread of `sf.SVGD()` on a suite of targets, beside the paper's SVGD.

    python -m benchmarks.accuracy                # everything; a row that is done is not done again
    python -m benchmarks.accuracy banana german  # some of it

Prints a table and writes it to benchmarks/results/accuracy.md. The error of the mean is in posterior sds
(root mean square over coordinates); the ratio is particle sd over true sd, smallest to largest. Truth is exact where it
is known, else 40,000 draws of BlackJAX's NUTS with a fixed seed. The paper's SVGD gets the best of four step sizes,
chosen with knowledge of the truth, which no user has.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("STEINFLOW_DATA", Path(__file__).parents[2] / "shared" / "data"))
STEPS = (0.01, 0.03, 0.1, 0.3)


@dataclasses.dataclass(frozen=True)
class Problem:
    """A log density with its moments (None: to be sampled), the start, and the numbers of particles to try."""

    log_density: Callable
    dim: int
    mean: np.ndarray | None = None
    sd: np.ndarray | None = None
    start: Callable = lambda rng, shape: rng.standard_normal(shape)
    sizes: tuple[int, ...] = (100,)


def gaussian(dim, condition, scale=1.0, distance=0.0, **options):
    """Rotated, with variances spread evenly on a log scale; `distance` is how far the mean is, in units of scale."""
    rng = np.random.default_rng(0)
    sds = scale * np.logspace(0, -0.5 * np.log10(condition), dim)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    mean = distance * scale * rng.standard_normal(dim)
    precision, center = jnp.asarray((rotation / sds**2) @ rotation.T), jnp.asarray(mean)
    marginal_sds = np.sqrt(np.diag((rotation * sds**2) @ rotation.T))
    return Problem(lambda x: -0.5 * (x - center) @ precision @ (x - center), dim, mean, marginal_sds, **options)


def paper_mixture():
    def log_density(x):
        logs = jnp.stack([jnp.log(1 / 3) - 0.5 * (x[0] + 2) ** 2, jnp.log(2 / 3) - 0.5 * (x[0] - 2) ** 2])
        return jax.scipy.special.logsumexp(logs)

    far = lambda rng, shape: rng.standard_normal(shape) - 10  # noqa: E731
    return Problem(log_density, 1, np.array([2 / 3]), np.array([np.sqrt(41 / 9)]), far, (50, 100, 200))


def banana():
    def log_density(x):
        return -0.5 * x[0] ** 2 - 2 * (x[1] - 0.5 * (x[0] ** 2 - 1)) ** 2

    return Problem(log_density, 2, np.zeros(2), np.array([1.0, np.sqrt(0.75)]), sizes=(50, 100, 200))


def student(dim=10, freedom=5):
    def log_density(x):
        return -(freedom + dim) / 2 * jnp.log1p(x @ x / freedom)

    sds = np.full(dim, np.sqrt(freedom / (freedom - 2)))
    return Problem(log_density, dim, np.zeros(dim), sds, sizes=(100, 200, 500))


def laplace(dim=5):
    sds = np.full(dim, np.sqrt(2))
    return Problem(lambda x: -jnp.sum(jnp.sqrt(x**2 + 1e-6)), dim, np.zeros(dim), sds, sizes=(100, 200))


def funnel(dim=5):
    def log_density(x):
        return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (dim - 1) * x[0]

    sds = np.array([1.0] + [np.exp(0.25)] * (dim - 1))
    return Problem(log_density, dim, np.zeros(dim), sds, sizes=(100, 200))


def eight_schools():
    effects = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    errors = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_density(x):
        mu, log_tau, z = x[0], x[1], x[2:]
        residuals = (effects - mu - jnp.exp(log_tau) * z) / errors
        prior = -0.5 * (mu / 5) ** 2 - jnp.log1p((jnp.exp(log_tau) / 5) ** 2) + log_tau - 0.5 * z @ z
        return prior - 0.5 * residuals @ residuals

    return Problem(log_density, 10, sizes=(100, 200))


def logistic(name):
    with np.load(DATA / "classification" / f"{name}.npz") as file:
        features, labels = file["X"][:1000].astype(float), file["y"][:1000].astype(float)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    features = jnp.asarray(np.column_stack([features, np.ones(len(features))]))
    labels, dim = jnp.asarray(labels), features.shape[1]

    def log_density(x):
        weights, log_alpha = x[:-1], x[-1]
        prior = (dim / 2 + 1) * log_alpha - jnp.exp(log_alpha) * (0.5 * weights @ weights + 0.01)
        return jnp.sum(jax.nn.log_sigmoid(labels * (features @ weights))) + prior

    return Problem(log_density, dim + 1, sizes=(50, 100, 200))


def poisson(dim=8, rows=200):
    rng = np.random.default_rng(3)
    features = np.column_stack([np.ones(rows), rng.standard_normal((rows, dim - 1))])
    counts = jnp.asarray(rng.poisson(np.exp(features @ (0.3 * rng.standard_normal(dim)))).astype(float))
    features = jnp.asarray(features)

    def log_density(weights):
        rates = features @ weights
        return counts @ rates - jnp.sum(jnp.exp(rates)) - weights @ weights / 8

    return Problem(log_density, dim, sizes=(50, 100))


def narrow(rng, shape):
    return 1e-3 * rng.standard_normal(shape)


PROBLEMS = {
    "gaussian d=1": lambda: gaussian(1, 1),
    "gaussian d=20, condition 10^3": lambda: gaussian(20, 1e3, sizes=(50, 100)),
    "gaussian d=50, condition 10^4": lambda: gaussian(50, 1e4, sizes=(50, 100, 200)),
    "gaussian d=100, condition 10^2": lambda: gaussian(100, 1e2, sizes=(50, 100)),
    "gaussian d=100, condition 10^4": lambda: gaussian(100, 1e4, sizes=(50, 100)),
    "gaussian d=20, scale 10^-3": lambda: gaussian(20, 1e2, scale=1e-3),
    "gaussian d=20, scale 10^3, far": lambda: gaussian(20, 1e2, scale=1e3, distance=3.0),
    "gaussian d=10, 1000 sd away, narrow start": lambda: gaussian(10, 1e2, distance=1e3, start=narrow),
    "paper's mixture from N(-10, 1)": paper_mixture,
    "banana": banana,
    "student t(5), d=10": student,
    "laplace, d=5": laplace,
    "funnel, d=5": funnel,
    "eight schools": eight_schools,
    "logistic german": lambda: logistic("german"),
    "logistic diabetis": lambda: logistic("diabetis"),
    "logistic splice": lambda: logistic("splice"),
    "poisson d=8": poisson,
}


def sampled_moments(name, problem):
    """Moments from a long NUTS run, kept in a file beside the results."""
    path = RESULTS / f"truth {name}.json"
    if not path.exists():

        def chain(key):
            warmup_key, draw_key = jax.random.split(key)
            adaptation = blackjax.window_adaptation(blackjax.nuts, problem.log_density)
            (state, parameters), _ = adaptation.run(warmup_key, jnp.zeros(problem.dim), 1000)
            kernel = blackjax.nuts(problem.log_density, **parameters)

            def draw(state, key):
                state, _ = kernel.step(key, state)
                return state, state.position

            return jax.lax.scan(draw, state, jax.random.split(draw_key, 20_000))[1]

        draws = np.concatenate([jax.jit(chain)(jax.random.key(seed)) for seed in (7, 8)])
        path.write_text(json.dumps({"mean": draws.mean(axis=0).tolist(), "sd": draws.std(axis=0).tolist()}))
    truth = json.loads(path.read_text())
    return np.array(truth["mean"]), np.array(truth["sd"])


def measure(problem, mean, sd, num_particles, method):
    start = problem.start(np.random.default_rng(1), (num_particles, problem.dim)).astype(np.float32)
    clock = time.perf_counter()
    result = sf.fit(problem.log_density, method, particles=start, progress=False)
    particles = np.asarray(result.particles, float)
    ratio = particles.std(axis=0) / sd
    return {
        "error": float(np.sqrt(np.mean(((particles.mean(axis=0) - mean) / sd) ** 2))),
        "ratio": [float(ratio.min()), float(ratio.max())],
        "dispersion": float(np.median(result.dispersion)),
        "outcome": result.outcome.status,
        "seconds": time.perf_counter() - clock,
    }


def row(name, problem, num_particles, path):
    if path.exists():
        return json.loads(path.read_text())
    moments = (problem.mean, problem.sd) if problem.mean is not None else sampled_moments(name, problem)
    ours = measure(problem, *moments, num_particles, sf.SVGD())
    papers = [measure(problem, *moments, num_particles, sf.SVGD.paper(step)) for step in STEPS]
    best = min(papers, key=lambda figures: figures["error"] + max(abs(np.log(np.maximum(figures["ratio"], 1e-6)))))
    figures = {"problem": name, "particles": num_particles, "steinflow": ours, "paper": best}
    path.write_text(json.dumps(figures))
    return figures


def main():
    RESULTS.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    header = "| target | n | mean error | sd ratio | paper's: mean error | sd ratio |\n|---|---|---|---|---|---|"
    print(header)
    lines = [header]
    for name, make in PROBLEMS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        problem = make()
        for num_particles in problem.sizes:
            figures = row(name, problem, num_particles, RESULTS / f"accuracy {name} {num_particles}.json")
            cells = [name, str(num_particles)]
            for who in ("steinflow", "paper"):
                low, high = figures[who]["ratio"]
                cells += [f"{figures[who]['error']:.3f}", f"{low:.2f} .. {high:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if not wanted:
        (RESULTS / "accuracy.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
