"""Results without a run: particles that are given, with the scores of their target."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from steinflow.results.outcome import Ending, Outcome
from steinflow.results.result import Result
from steinflow.targets.base import as_target
from steinflow.targets.flat import flatten

DONE = Ending(Outcome.STEP_LIMIT, "all 3 steps are done.")


def result_at(particles, target, **fields) -> Result:
    """A result whose particles are these, in the user's space."""
    target = as_target(target)
    flat, points = flatten(target, particles)
    log_densities, scores = _evaluate(flat, points)
    given = {
        "particles": particles,
        "weights": None,
        "history": {"step": np.arange(3), "ksd": np.ones(3, np.float32)},
        "ending": DONE,
        "unconstrained": points,
        "scores": scores,
        "log_densities": log_densities,
        "num_chains": 1,
        "info": {"method": "SVGD", "num_steps": 3, "seconds": 0.5},
        "target": target,
    }
    return Result(**{**given, **fields})


_evaluate = eqx.filter_jit(lambda flat, points: flat.log_densities_and_scores(points))


def normal_around(k, weights=None, num=20):
    """A standard normal posterior around k, of a parameter a and two called b."""
    x = np.random.default_rng(k).normal(size=(num, 3)).astype(np.float32)
    return Result(
        particles={"a": k + x[:, 0], "b": k + x[:, 1:]},
        weights=weights,
        history={},
        ending=Ending(Outcome.STEP_LIMIT, "all 10 steps are done."),
        unconstrained=jnp.asarray(x),
        scores=jnp.asarray(-x),
        log_densities=jnp.asarray(-0.5 * (x**2).sum(axis=1)),
        num_chains=2,
        info={"num_steps": 10, "method": "SVGD"},
    )
