"""What is measured is kept: one small JSON file per row and contender, the truth of a problem in one of its own."""

import json
from pathlib import Path

import jax
import numpy as np

import benchmarks.kept
from benchmarks.accuracy.contenders import CONTENDERS, nuts_draws

RESULTS = Path(__file__).parents[1] / "results" / "accuracy"


def kept(name, compute, *arguments):
    """Return the figures of that name, from their file if it is there."""
    return benchmarks.kept.kept(RESULTS / f"{name}.json", compute, *arguments)


def truth(name, problem):
    """Mean and covariance: exact where known, else of two long chains of NUTS with fixed seeds."""
    if problem.mean is not None:
        return problem.mean, problem.covariance

    def sample():
        draws = np.concatenate([nuts_draws(problem, problem.num_draws, jax.random.key(seed))[0] for seed in (7, 8)])
        values = np.asarray(jax.vmap(lambda x: problem.quantities(problem.particle(x)))(draws), float)
        halves = [half.mean(axis=0) for half in np.split(values, 2)]
        agreement = np.sqrt(np.mean(((halves[0] - halves[1]) / values.std(axis=0)) ** 2))
        return {
            "mean": values.mean(axis=0).tolist(),
            "covariance": np.cov(values, rowvar=False).reshape(values.shape[1], -1).tolist(),
            "seeds": [7, 8],
            "difference of the chains in sds": float(agreement),
        }

    found = kept(f"truth {_base(name)}", sample)
    return np.array(found["mean"]), np.array(found["covariance"])


def row(name, problem, num_particles, who):
    """Return the figures of one contender."""
    return kept(
        f"{name}, n={num_particles}, {who}", lambda: CONTENDERS[who](problem, truth(name, problem), num_particles)
    )


def measured(name, num_particles, who):
    """Return the figures of one contender if they are there, else None."""
    path = RESULTS / f"{name}, n={num_particles}, {who}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _base(name):
    """Batches of any size have the truth of all rows."""
    return name.split(" in ")[-1] if name.startswith("minibatches") else name
