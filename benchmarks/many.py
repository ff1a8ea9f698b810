"""A thousand posteriors at once: `sf.fit_many` beside a loop of `sf.fit` and vectorised NUTS.

    python -m benchmarks.many                 # 1,000 posteriors of each model, on a quiet machine
    python -m benchmarks.many --number 64     # a look
    python -m benchmarks.many --page          # also write docs/many-measured.md
    python -m benchmarks.many --calibration   # models that are calibrated, and broken ones that are found

Everybody is timed twice: with compiling, and again with other data of the same shapes. The loop is timed on a few
posteriors and multiplied. NUTS takes 500 draws after 500 steps of warm-up, one chain for every posterior, all of them
in one compiled program (`jax.vmap`); and 10,000 draws, which know the means about as well as we do. Errors are those of
the means, in posterior sds, and of the sds, against 50,000 draws of NUTS, for the first few posteriors.
"""

import argparse
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import cauchy, norm

import steinflow as sf
from benchmarks import calibrations
from steinflow.targets.varied import Varied

PAGE = Path(__file__).parents[1] / "docs" / "many-measured.md"
SIGMA = np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)
ROWS, FEATURES = 200, 8
NUM_DRAWS, MORE_DRAWS, NUM_REFERENCE = 500, 10_000, 50_000
FEW_PARTICLES = 25


class Problem(NamedTuple):
    """A model as a log density of a vector and one data set, its size, and how to simulate many data sets."""

    name: str
    log_density: Callable[[jax.Array, Any], jax.Array]
    dim: int
    simulate: Callable[[np.random.Generator, int], Any]


class Row(NamedTuple):
    """One line of the table; errors are medians over parameters and posteriors, spreads their 5% and 95% quantiles."""

    contender: str
    first: float
    again: float
    mean_error: float
    spread: tuple[float, float]
    remark: str


def eight_schools(x, y):
    """Non-centred: mean, log sd, and the standardised effects of eight schools."""
    mu, tau, effects = x[0], jnp.exp(x[1]), x[2:]
    prior = norm.logpdf(mu, 0, 5) + cauchy.logpdf(tau, 0, 5) + x[1] + jnp.sum(norm.logpdf(effects))
    return prior + jnp.sum(norm.logpdf(y, mu + tau * effects, SIGMA))


def simulated_schools(rng, number):
    mu, tau = rng.normal(0, 5, (number, 1)), np.abs(5 * rng.standard_normal((number, 1)))
    return (mu + tau * rng.standard_normal((number, 8)) + SIGMA * rng.standard_normal((number, 8))).astype(np.float32)


def logistic(w, data):
    """Logistic regression with a standard normal prior."""
    X, sign = data
    return jnp.sum(jax.nn.log_sigmoid(sign * (X @ w))) + jnp.sum(norm.logpdf(w))


def simulated_classes(rng, number):
    X = rng.standard_normal((number, ROWS, FEATURES)).astype(np.float32)
    logits = np.einsum("kij,kj->ki", X, rng.standard_normal((number, FEATURES)))
    sign = np.where(rng.uniform(size=logits.shape) < 1 / (1 + np.exp(-logits)), 1, -1)
    return X, sign.astype(np.float32)


PROBLEMS = [
    Problem("eight schools, 10 parameters", eight_schools, 10, simulated_schools),
    Problem(f"logistic regression, {ROWS} x {FEATURES}", logistic, FEATURES, simulated_classes),
]


def made(problem: Problem) -> Callable:
    """Return what `fit_many` makes targets with."""

    def make(item):
        def prior(key):
            return jax.random.normal(key, (problem.dim,))

        return sf.Density(lambda x: problem.log_density(x, item), prior=prior)

    return make


def together(problem: Problem, num_particles: int | None = None):
    """`sf.fit_many`."""
    make = made(problem)

    def run(data, key):
        many = sf.fit_many(make, data, num_particles=num_particles, key=key, progress=False)
        return [np.asarray(result.particles) for result in many], f"{np.mean(many.levels == 'good'):.0%} good"

    return run


def one_by_one(problem: Problem, number: int):
    """A loop of `sf.fit`, each with its data as arguments of compiled code."""
    make = made(problem)

    def run(data, key):
        items = [jax.tree.map(lambda leaf, k=k: jnp.asarray(leaf[k]), data) for k in range(number)]
        found = [sf.fit(Varied(make, item), key=key + k, progress=False) for k, item in enumerate(items)]
        return [np.asarray(result.particles) for result in found], f"{number} timed, and multiplied"

    return run


def nuts(problem: Problem, num_draws: int, num_warmup: int):
    """BlackJAX's NUTS with window adaptation, one chain for every posterior, vectorised."""

    def chain(item, key):
        start_key, warmup_key, draw_key = jax.random.split(key, 3)

        def log_density(x):
            return problem.log_density(x, item)

        warmup: Any = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = warmup.run(warmup_key, jax.random.normal(start_key, (problem.dim,)), num_warmup)
        kernel: Any = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(draw_key, num_draws))[1]

    program = jax.jit(jax.vmap(chain))

    def run(data, key):
        keys = jax.random.split(jax.random.key(key), len(jax.tree.leaves(data)[0]))
        return list(np.asarray(program(data, keys))), f"{num_warmup} + {num_draws}"

    return run


def measured(contender: str, run, data, other, references, factor: float = 1.0) -> Row:
    """Run twice, the second time on other data, and compare the first answers with the references."""
    clock = time.perf_counter()
    draws, remark = run(data, 0)
    first = time.perf_counter() - clock
    clock = time.perf_counter()
    run(other, 1)
    again = factor * (time.perf_counter() - clock)
    errors, ratios = [], []
    for found, reference in zip(draws, references, strict=False):
        sds = reference.std(axis=0)
        errors.append(np.abs(found.mean(axis=0) - reference.mean(axis=0)) / sds)
        ratios.append(found.std(axis=0) / sds)
    spread = np.quantile(ratios, [0.05, 0.95])
    error = statistics.median(np.ravel(errors).tolist())
    return Row(contender, first, again, error, (float(spread[0]), float(spread[1])), remark)


def rows_of(problem: Problem, number: int, few: int) -> list[Row]:
    """Measure all contenders on one model."""
    rng = np.random.default_rng(0)
    data, other = problem.simulate(rng, number), problem.simulate(rng, number)
    first = jax.tree.map(lambda leaf: leaf[:few], data)
    references, _ = nuts(problem, NUM_REFERENCE, 1000)(first, 7)
    contenders = [
        ("`sf.fit_many`", together(problem), 1.0),
        (f"`sf.fit_many`, {FEW_PARTICLES} particles", together(problem, FEW_PARTICLES), 1.0),
        ("a loop of `sf.fit`", one_by_one(problem, few), number / few),
        ("NUTS of BlackJAX, vectorised", nuts(problem, NUM_DRAWS, NUM_DRAWS), 1.0),
        ("the same with more draws", nuts(problem, MORE_DRAWS, NUM_DRAWS), 1.0),
    ]
    found = []
    for name, run, factor in contenders:
        found.append(measured(name, run, data, other, references, factor))
        print(problem.name, found[-1], flush=True)
    return found


def table(problem: Problem, rows: list[Row]) -> str:
    """Return one model's measurements as Markdown."""
    ours = rows[0].again
    lines = [
        f"## {problem.name[0].upper()}{problem.name[1:]}",
        "",
        "| | with compiling | again | times ours | error of means, sds | sd ratio, 5% .. 95% | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row.spread
        first = "" if "multiplied" in row.remark else f"{row.first:.0f} s"
        lines.append(
            f"| {row.contender} | {first} | {row.again:.1f} s | {row.again / ours:.1f} | {row.mean_error:.3f} "
            f"| {low:.2f} .. {high:.2f} | {row.remark} |"
        )
    return "\n".join(lines)


def page(tables: list[str], number: int) -> str:
    """Return the page of the documentation."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, JAX {jax.__version__}, {datetime.date.today():%d %B %Y}"
    head = f"""# Many posteriors, measured

{number:,} posteriors of one model, by `sf.fit_many`, by a loop of `sf.fit`, and by NUTS, vectorised over
posteriors. Written by `python -m benchmarks.many --page` ({machine}).

*With compiling* is the first call, *again* a second one with other data. The error of the means is the median over
parameters and posteriors, against 50,000 draws of NUTS, whose own error is about 0.005.
"""
    return "\n".join([head, *(f"{each}\n" for each in tables)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=1000, help="of posteriors")
    parser.add_argument("--few", type=int, default=20, help="posteriors of the loop, and with references")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}, or {calibrations.PAGE.name}")
    parser.add_argument("--calibration", action="store_true", help="calibrate models, right and broken ones")
    parser.add_argument("--only", help="a word in the name of what to calibrate")
    arguments = parser.parse_args()
    if arguments.only and arguments.page:
        parser.error("the page has all models: leave --only out, or --page")
    if arguments.calibration:
        calibrations.run(arguments.number, arguments.only, write=arguments.page)
        return
    few = min(arguments.few, arguments.number)
    tables = [table(problem, rows_of(problem, arguments.number, few)) for problem in PROBLEMS]
    print("\n\n".join(tables))
    if arguments.page:
        PAGE.write_text(page(tables, arguments.number))


if __name__ == "__main__":
    main()
