"""The verdict on chains: independent draws, chains that disagree, slow ones, and divergences."""

import numpy as np
import pytest

from steinflow.results.chains import judge_chains


def _chains(*, shift=0.0, scale=1.0, memory=0.0, draws=500, seed=0):
    """Four autoregressive chains of two coordinates, the first of which may be elsewhere, or wider."""
    noise = np.random.default_rng(seed).normal(size=(4, draws, 2))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for k in range(1, draws):
        values[:, k] = memory * values[:, k - 1] + np.sqrt(1 - memory**2) * noise[:, k]
    values[0] = values[0] * scale + shift
    return values.reshape(-1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_independent_draws_are_good_and_counted(seed):
    verdict = judge_chains(_chains(seed=seed), 4, 0)
    assert verdict.level == "good"
    assert 1500 < verdict.metrics["draws"] < 2600
    assert verdict.metrics["draws_in_tails"] > 1000


def test_effective_draws_of_an_autoregression():
    # (1 - r) / (1 + r) of the draws.
    verdict = judge_chains(_chains(memory=0.8, draws=4000), 4, 0)
    assert verdict.metrics["draws"] == pytest.approx(16_000 / 9, rel=0.2)


@pytest.mark.parametrize(
    ("points", "divergent", "level", "word"),
    [
        (_chains(shift=1.0), 0, "bad", "do not agree"),
        (_chains(scale=3.0), 0, "bad", "do not agree"),
        (_chains(memory=0.9, draws=1000), 0, "doubtful", "independent draws"),
        (_chains(), 3, "doubtful", "3 trajectories diverged"),
        (_chains(), 200, "bad", "200 trajectories diverged"),
        (_chains(draws=4), 0, "bad", "too few"),
    ],
)
def test_what_is_found(points, divergent, level, word):
    verdict = judge_chains(points, 4, divergent)
    assert verdict.level == level
    assert word in " ".join(verdict.reasons)
