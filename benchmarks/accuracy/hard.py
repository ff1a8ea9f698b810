"""Targets on which particle methods fail: tails, funnels, modes far apart, fewer particles than dimensions."""

import collections
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.accuracy.problems import (
    Problem,
    eight_schools,
    funnel,
    gaussian,
    laplace,
    mixture,
    paper_mixture,
    student,
    wide,
)
from benchmarks.accuracy.real import sleepstudy, stochastic_volatility, wide_regression
from benchmarks.accuracy.rows import kept, truth
from benchmarks.pages import put


class Case(NamedTuple):
    """A problem, the number of particles, that of runs, and that of steps, where it is not left open."""

    problem: Callable[[], Problem]
    num_particles: int = 100
    num_runs: int = 5
    num_steps: int | None = None


HARD = {
    "gaussian d=500, condition 10^2": Case(lambda: gaussian(500, 1e2), 100, 3, 1000),
    "gaussian d=1000, condition 10^3": Case(lambda: gaussian(1000, 1e3), 100, 3, 1000),
    "gaussian d=100, condition 10^4": Case(lambda: gaussian(100, 1e4), 50, 3, 1000),
    "gaussian d=100, condition 10^2": Case(lambda: gaussian(100, 1e2), 20, 3, 1000),
    "student t(5), d=10": Case(student),
    "laplace, d=5": Case(laplace),
    "funnel, d=2": Case(lambda: funnel(2)),
    "funnel, d=5": Case(lambda: funnel(5)),
    "funnel, d=10": Case(lambda: funnel(10)),
    "funnel of sd 1.5, d=5": Case(lambda: funnel(5, 1.5)),
    "funnel of sd 1.5, d=10": Case(lambda: funnel(10, 1.5)),
    "funnel of sd 3, d=5": Case(lambda: funnel(5, 3.0)),
    "tau of eight schools": Case(lambda: eight_schools(quantities=lambda x: jnp.exp(x[1:2])), 100, 10),
    "mixture d=2, 8 sds apart": Case(lambda: mixture(2, 4.0, start=wide), 100, 3),
    "mixture d=10, 8 sds apart": Case(lambda: mixture(10, 4.0, start=wide), 100, 3),
    "paper's mixture from N(-10, 1)": Case(paper_mixture, 100, 3),
    "sleepstudy": Case(lambda: sleepstudy(centered=False), 100, 3),
    "sleepstudy with 200": Case(lambda: sleepstudy(centered=False), 200, 3),
    "sleepstudy, centred": Case(lambda: sleepstudy(centered=True), 100, 3),
    "sleepstudy, centred with 200": Case(lambda: sleepstudy(centered=True), 200, 3),
    "80 rows on 1000 features": Case(wide_regression, 100, 3),
    "stochastic volatility, d=2429": Case(stochastic_volatility, 10, 3, 4990),
}


def hard(words):
    """Print the table; without words, put it into the page."""
    lines = [
        "| target | n | runs | mean error | sd ratio on average | sd ratio in single runs | verdict | steps |",
        "|---" * 8 + "|",
    ]
    for name, case in HARD.items():
        if words and not any(word in name for word in words):
            continue
        runs = kept(f"hard {name}", _runs, name, case)
        ratios = np.array([run["ratios"] for run in runs])
        verdicts = collections.Counter(run["verdict"] for run in runs)
        cells = (
            name,
            case.num_particles,
            case.num_runs,
            f"{np.sqrt(np.mean([run['error'] ** 2 for run in runs])):.3f}",
            f"{ratios.mean(axis=0).min():.2f} .. {ratios.mean(axis=0).max():.2f}",
            f"{ratios.min():.2f} .. {ratios.max():.2f}",
            ", ".join(f"{count} {level}" for level, count in verdicts.items()),
            f"{np.mean([run['steps'] for run in runs]):,.0f}",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
        print(lines[-1], flush=True)
    if not words:
        put("docs/tuning-free.md", "hard", "\n".join([*lines, ""]))


def _runs(name, case):
    problem = case.problem()
    mean, covariance = truth(name.split(" with ")[0], problem)
    sd, runs = np.sqrt(np.diag(covariance)), []
    for key in range(case.num_runs):
        start = None if problem.start is None else problem.particles(case.num_particles, seed=key + 1)
        cloud = {"num_particles": case.num_particles} if start is None else {"particles": start}
        steps = {} if case.num_steps is None else {"num_steps": case.num_steps}
        target = problem.log_density if problem.target is None else problem.target
        result = sf.fit(target, key=key, progress=False, **cloud, **steps)
        values = np.asarray(jax.vmap(problem.quantities)(result.particles), float)
        runs.append(
            {
                "error": float(np.sqrt(np.mean(((values.mean(axis=0) - mean) / sd) ** 2))),
                "ratios": (values.std(axis=0) / sd).tolist(),
                "verdict": str(result.verdict.level),
                "reasons": result.verdict.reasons,
                "trajectory": result.info.get("trajectory", {}),
                "steps": int(result.info["num_steps"]),
            }
        )
    return runs
