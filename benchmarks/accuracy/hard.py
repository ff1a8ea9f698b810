"""Targets on which particle methods fail: tails, funnels, modes far apart, fewer particles than dimensions."""

import collections

import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.accuracy.problems import eight_schools, funnel, gaussian, laplace, mixture, paper_mixture, student, wide
from benchmarks.accuracy.rows import kept, truth
from benchmarks.pages import put

# The problem, the number of particles, and the number of runs.
HARD = {
    "gaussian d=500, condition 10^2": (lambda: gaussian(500, 1e2), 100, 3),
    "gaussian d=1000, condition 10^3": (lambda: gaussian(1000, 1e3), 100, 3),
    "gaussian d=100, condition 10^4": (lambda: gaussian(100, 1e4), 50, 3),
    "gaussian d=100, condition 10^2": (lambda: gaussian(100, 1e2), 20, 3),
    "student t(5), d=10": (student, 100, 5),
    "laplace, d=5": (laplace, 100, 5),
    "funnel, d=2": (lambda: funnel(2), 100, 5),
    "funnel, d=5": (lambda: funnel(5), 100, 5),
    "funnel, d=10": (lambda: funnel(10), 100, 5),
    "funnel of sd 1.5, d=5": (lambda: funnel(5, 1.5), 100, 5),
    "funnel of sd 1.5, d=10": (lambda: funnel(10, 1.5), 100, 5),
    "funnel of sd 3, d=5": (lambda: funnel(5, 3.0), 100, 5),
    "tau of eight schools": (lambda: eight_schools(quantities=lambda x: jnp.exp(x[1:2])), 100, 10),
    "mixture d=2, 8 sds apart": (lambda: mixture(2, 4.0, start=wide), 100, 3),
    "mixture d=10, 8 sds apart": (lambda: mixture(10, 4.0, start=wide), 100, 3),
    "paper's mixture from N(-10, 1)": (paper_mixture, 100, 3),
}


def hard(words):
    """Print the table; without words, put it into the page."""
    lines = [
        "| target | n | runs | mean error | sd ratio on average | sd ratio in single runs | verdict | steps |",
        "|---" * 8 + "|",
    ]
    for name, (make, num_particles, num_runs) in HARD.items():
        if words and not any(word in name for word in words):
            continue
        runs = kept(f"hard {name}", _runs, name, make(), num_particles, num_runs)
        ratios = np.array([run["ratios"] for run in runs])
        verdicts = collections.Counter(run["verdict"] for run in runs)
        cells = (
            name,
            num_particles,
            num_runs,
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


def _runs(name, problem, num_particles, num_runs):
    mean, covariance = truth(name, problem)
    sd, runs = np.sqrt(np.diag(covariance)), []
    for key in range(num_runs):
        start = problem.particles(num_particles, seed=key + 1)
        result = sf.fit(problem.log_density, particles=start, key=key, progress=False)
        values = np.asarray([problem.quantities(x) for x in np.asarray(result.particles)], float)
        runs.append(
            {
                "error": float(np.sqrt(np.mean(((values.mean(axis=0) - mean) / sd) ** 2))),
                "ratios": (values.std(axis=0) / sd).tolist(),
                "verdict": str(result.verdict.level),
                "steps": int(result.info["num_steps"]),
            }
        )
    return runs
