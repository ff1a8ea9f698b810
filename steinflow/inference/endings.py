"""How a run ended, in words: which rule stopped it, what was not finite, and what to do next."""

import types

import numpy as np

from steinflow.inference.stopping import Stop
from steinflow.inference.views import View
from steinflow.results.outcome import Ending, Outcome
from steinflow.stein.discrepancy import dispersion_of


def ending_of(outcome: Outcome, final: View, *, step: int, num_steps: int, stop: Stop | None) -> Ending:
    """Say in a sentence or two how the run ended and what to do next."""
    num_particles, num_lost = len(final.scores), int(np.sum(~np.asarray(final.finite)))
    if num_lost == num_particles and step == 0:
        return Ending(
            Outcome.NON_FINITE,
            "the log density or its score is not finite at any starting particle. Look for NaN in the data, and start "
            "where the density is positive and finite.",
        )
    if outcome is Outcome.NON_FINITE or num_lost == num_particles:
        return Ending(
            Outcome.NON_FINITE,
            f"by step {step} the log density or its score was not finite at any particle. The particles themselves "
            "are finite. Take smaller steps, or write the log density with log-space functions.",
        )
    if not np.isfinite(_dispersion(final)):
        return Ending(
            Outcome.NON_FINITE,
            f"after {step} steps the products of particles and scores overflow, so the particles cannot be judged. "
            "Bring the parameters to a scale near 1, or use double precision "
            "(jax.config.update('jax_enable_x64', True)).",
        )
    message = {
        Outcome.STEP_LIMIT: f"all {step} steps are done.",
        Outcome.SETTLED: f"after {step} of {num_steps} steps, further steps would add nothing.",
        Outcome.STOPPED: f"{_name(stop)} ended the run after {step} steps.",
        Outcome.INTERRUPTED: (
            f"the run ended at step {step} of {num_steps}. To continue, call fit(..., particles=result.particles), or, "
            "with checkpoint=, repeat the same call."
        ),
        Outcome.DATA_ENDED: f"the stream of batches ended at step {step}. Give it more epochs.",
    }[outcome]
    lost = f" The log density or its score is not finite at {num_lost} of {num_particles} particles."
    return Ending(outcome, message + (lost if num_lost else ""))


def _dispersion(final: View) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        particles, scores = (np.asarray(values) for values in (final.draws.particles, final.scores))
        return float(np.median(dispersion_of(particles, scores, final.draws.weights)))


def _name(rule: Stop | None) -> str:
    return rule.__name__ if isinstance(rule, types.FunctionType | types.MethodType) else type(rule).__name__
