"""Small networks beside long runs of NUTS: are predictive means and sds those of the posterior?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import steinflow as sf
from benchmarks.accuracy.problems import network
from benchmarks.networks.runs import RESULTS, commits, run

NUTS = sf.NUTS(num_chains=4, num_warmup=1000, max_doublings=9)
NUM_DRAWS = 5_000  # of every chain


class Small(NamedTuple):
    """A posterior, what its particles predict for some rows, and how many of them there are."""

    target: Any
    predicted: Callable[[Any], jax.Array]
    num_particles: int


def sine() -> Small:
    """The network of 16 weights of the accuracy suite."""
    problem = network()
    target = sf.Density(problem.log_density, prior=lambda key: jax.random.normal(key, (problem.dim,)))
    return Small(target, jax.vmap(problem.quantities), 100)


def breast_cancer() -> Small:
    """161 weights for half of the rows; what is compared are the probabilities of the others."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.5, random_state=0)

    def module(key):
        return eqx.nn.MLP(30, "scalar", width_size=5, depth=1, activation=jnp.tanh, key=key)

    target = sf.from_network(module, X, y, family=sf.models.Bernoulli(), prior_scale=3.0)

    def predicted(particles):
        return jax.vmap(lambda params: target.mean(params, jnp.asarray(X_test)))(particles)

    return Small(target, predicted, 400)


PROBLEMS = {"sine, 16 weights": sine, "breast cancer, 161 weights": breast_cancer}


def truth(sets: Sequence[str] | None, num_seeds: int) -> str:
    """Return the table: errors of predicted means in sds of the posterior, and ratios of the sds, over all rows."""
    lines = [
        "| network | method | runs | error of means, rms | ratio of sds: median | 5% to 95% of the rows |",
        "|---|---|---|---|---|---|",
    ]
    done = []
    for name in sets or PROBLEMS:
        for method in ("sf.fit, default", "sf.Ensemble()", "NUTS, another key"):
            found = [
                run("truth", name, method, seed, lambda: _compared(name, method, seed))  # noqa: B023
                for seed in range(num_seeds)
            ]
            error, median, low, high = (
                np.mean([one[metric] for one in found]) for metric in ("error", "median", "low", "high")
            )
            lines.append(f"| {name} | {method} | {len(found)} | {error:.3f} | {median:.3f} | {low:.2f} to {high:.2f} |")
            done += found
    return "\n".join([*lines, "", commits(done)])


def _compared(name, method, seed):
    small = PROBLEMS[name]()
    mean, sd = _reference(name, small)
    if method == "NUTS, another key":
        result = _nuts(small, key=1 + seed)
    elif method == "sf.Ensemble()":
        result = sf.fit(small.target, sf.Ensemble(), num_particles=10, key=seed, progress=False)
    else:
        result = sf.fit(small.target, num_particles=small.num_particles, key=seed, progress=False)
    predicted = np.asarray(small.predicted(result.particles), float)
    errors, ratios = (predicted.mean(axis=0) - mean) / sd, predicted.std(axis=0) / sd
    low, median, high = np.quantile(ratios, (0.05, 0.5, 0.95))
    return {"error": np.sqrt(np.mean(errors**2)), "median": median, "low": low, "high": high}


def _reference(name, small):
    """Return means and sds of predictions by a long run, which is made once."""
    path = RESULTS / f"reference, {name}.npz"
    if not path.exists():
        predicted = np.asarray(small.predicted(_nuts(small, key=0).particles), float)
        RESULTS.mkdir(parents=True, exist_ok=True)
        np.savez(path, mean=predicted.mean(axis=0), sd=predicted.std(axis=0))
    with np.load(path) as saved:
        return saved["mean"], saved["sd"]


def _nuts(small, key):
    return sf.fit(small.target, NUTS, num_steps=NUM_DRAWS, key=key, progress=False)
