"""Blocks of runs, one after the other, and what is left of them together."""

import numpy as np
import pytest
from many_runs import MEANS, STEPS, end_in_many_ways, run
from tqdm import tqdm

import steinflow as sf
from steinflow.inference.blocks import BlockRun


@pytest.fixture
def watched(monkeypatch):
    """Runs in blocks of two, which runs were advanced together how often, and the bar that was shown."""
    end_in_many_ways(monkeypatch)
    advance, together, bars = BlockRun.advance, {}, []

    def advanced(self, block, count):
        rows = tuple(block.rows[block.active].tolist())
        together[self.num_steps, rows] = together.get((self.num_steps, rows), 0) + count
        return advance(self, block, count)

    monkeypatch.setattr(BlockRun, "advance", advanced)
    monkeypatch.setattr("steinflow.inference.many.tqdm", lambda **settings: bars.append(tqdm(**settings)) or bars[0])
    return run(progress=True), together, bars[0]


def test_runs_that_are_left_over_go_on_in_blocks_of_their_own(watched):
    many, together, bar = watched
    assert [result.info["num_steps"] for result in many] == STEPS
    first = {(0, 1): 16, (4, 5): 4, (6,): 12}  # until half of each block has ended
    left = {(0, 2): 24, (5,): 36, (2,): 16}
    longer = {(0, 5): 30, (2,): 30}
    assert together == {(40, rows): count for rows, count in (first | left).items()} | {
        (70, rows): count for rows, count in longer.items()
    }
    assert bar.n == bar.total == len(MEANS) * 40 + 3 * 30
    for mean, result in zip(MEANS, many, strict=True):
        limit = sf.Outcome.NON_FINITE if np.isnan(mean) else sf.Outcome.SETTLED
        assert result.outcome is (sf.Outcome.STEP_LIMIT if mean < 2 else limit)
