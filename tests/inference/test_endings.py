"""How a run ended, in words: one sentence for each outcome, and one more where something is not finite."""

import numpy as np
import pytest
from runs import X0

import steinflow as sf
from steinflow.inference.endings import ending_of
from steinflow.inference.views import View
from steinflow.methods.base import Draws


def view(num_lost=0, scale=1.0, weights=None):
    """Standard normal particles, some of them without a finite score."""
    finite = np.arange(20) >= num_lost
    scores = np.where(finite[:, None], -scale * X0, 0)
    return View(Draws(scale * X0, weights), X0, np.zeros(20), scores, finite, records={})


def ending(outcome, final=None, stop=None):
    return ending_of(outcome, view() if final is None else final, step=6, num_steps=20, stop=stop)


class Patience:
    def __call__(self, history):
        return True

    def exhausted(self, history):
        return True


def test_one_sentence_for_each_outcome():
    assert str(ending(sf.Outcome.STEP_LIMIT)) == "step limit: all 6 steps are done."
    continued = "step 6 of 20. To continue, call fit(..., particles=result.particles)"
    assert continued in ending(sf.Outcome.INTERRUPTED).message
    assert "ended at step 6. Give it more epochs" in ending(sf.Outcome.DATA_ENDED).message
    for outcome in (sf.Outcome.STEP_LIMIT, sf.Outcome.INTERRUPTED, sf.Outcome.DATA_ENDED):
        assert ending(outcome).outcome is outcome


def stops_at_once(history):
    return True


@pytest.mark.parametrize(
    ("rule", "name"),
    [(stops_at_once, "stops_at_once"), (Patience(), "Patience"), (Patience().exhausted, "exhausted")],
    ids=["function", "object", "method"],
)
def test_the_rule_that_stopped_the_run_is_named(rule, name):
    assert ending(sf.Outcome.STOPPED, stop=rule).message == f"{name} ended the run after 6 steps."


def test_particles_that_are_not_finite_are_counted():
    message = ending(sf.Outcome.STEP_LIMIT, view(num_lost=3)).message
    assert message.endswith("done. The log density or its score is not finite at 3 of 20 particles.")


@pytest.mark.parametrize("outcome", [sf.Outcome.STEP_LIMIT, sf.Outcome.STOPPED, sf.Outcome.NON_FINITE])
def test_nothing_finite_is_an_outcome_of_its_own(outcome):
    found = ending(outcome, view(num_lost=20), stop=stops_at_once)
    assert found.outcome is sf.Outcome.NON_FINITE
    assert "by step 6 the log density or its score was not finite at any particle" in found.message


@pytest.mark.parametrize("weights", [None, np.full(20, 0.05, np.float32)], ids=["equal", "weighted"])
def test_products_that_overflow_are_non_finite(weights):
    found = ending(sf.Outcome.STEP_LIMIT, view(scale=np.float32(1e25), weights=weights))
    assert found.outcome is sf.Outcome.NON_FINITE
    assert "Bring the parameters to a scale near 1, or use double precision" in found.message
