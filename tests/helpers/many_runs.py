"""Runs of `fit_many` that end in many ways: one model, one method, one shape, so that they compile once."""

import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.methods.svgd.method import SVGD

MEANS = np.array([-3.0, 4.0, 0.5, np.nan, 6.0, -2.0, 3.0], np.float32)
STEPS = [70, 16, 70, 0, 4, 70, 12]
METHOD = sf.SVGD.paper(0.5)
START = np.random.default_rng(0).normal(size=(len(MEANS), 10, 1)).astype(np.float32)


def make(mean):
    return lambda x: -0.5 * jnp.sum((x["a"] - mean) ** 2)


def run(checkpoint=None, **changes):
    settings = {"method": METHOD, "particles": {"a": START}, "key": 2, "progress": False, "checkpoint": checkpoint}
    return sf.fit_many(**{"make": make, "items": MEANS, **settings, **changes})


def end_in_many_ways(monkeypatch):
    """Blocks of two, in which runs of large means end early, and all others are advised to take more steps."""
    monkeypatch.setattr("steinflow.inference.many._BLOCK", 2)
    monkeypatch.setattr("steinflow.inference.many.default_limits", lambda method: (40, 70))
    monkeypatch.setattr("steinflow.inference.ended.should_go_on", lambda each: each.outcome is sf.Outcome.STEP_LIMIT)
    monkeypatch.setattr(SVGD, "done", lambda self, state: np.mean(state.particles) > 2)
