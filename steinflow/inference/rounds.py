"""The loop of `fit_many`: blocks of runs, one after the other, and what is left of them in further rounds."""

import dataclasses
import time
from collections.abc import Callable

import jax
import numpy as np
from tqdm.auto import tqdm

from steinflow.devices import sharding
from steinflow.inference.blocks import Block, BlockRun, row_of
from steinflow.inference.checkpoints import CheckpointFolder
from steinflow.inference.ended import EndedRuns
from steinflow.inference.interruption import Interruption
from steinflow.inference.loop import next_chunk
from steinflow.inference.progress import Progress
from steinflow.results.outcome import Outcome

_ASKED = 10  # times in a run whether more steps would add anything; every answer is work for the host


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Takes runs to their ends, a block at a time; those that take longer than most go on together.

    Args:
        run: what they compute together.
        begin: takes the numbers of runs and the size of a block to the block in which they begin.
        first_step: of these runs.
        progress: where they are.
        ended: where they go when they have ended.
        folder: of checkpoints.
        bar: that shows how many steps are done.
        interruption: ends them early.
    """

    run: BlockRun
    begin: Callable[[np.ndarray, int], Block]
    first_step: int
    progress: Progress
    ended: EndedRuns
    folder: CheckpointFolder
    bar: tqdm
    interruption: Interruption

    def run_all(self) -> bool:
        """Take all runs to their ends, and say whether that was interrupted."""
        progress = self.progress
        while progress.blocks or progress.new:
            if not progress.blocks:
                progress.blocks = [self._begun(progress.new[0])]
                progress.new = progress.new[1:]
            if self._run_block():
                return True
            progress.end_block()
        return False

    def end_all(self) -> None:
        """End all runs where they are."""
        new = [self.begin(rows, self.progress.size) for rows in self.progress.new]
        for block in [*self.progress.blocks, *self.progress.left, *new]:
            self.ended.add(block.going_on(), Outcome.INTERRUPTED)

    def _begun(self, rows: np.ndarray) -> Block:
        """Return a block of runs that begin, without those that are finite nowhere."""
        block = self.begin(rows, self.progress.size)
        if self.first_step > 0:
            return block
        finite = np.any(np.asarray(self.run.view(block.items, block.states).finite), axis=1)
        return self._without(block, block.active & ~finite, Outcome.NON_FINITE)

    def _run_block(self) -> bool:
        """Advance the first block until half of its runs have ended, or all, and say whether that was interrupted."""
        progress, num_steps = self.progress, self.run.num_steps
        every = max(1, num_steps // _ASKED)
        chunk, count, seconds = 1, 0, 0.0
        while True:
            block = progress.blocks[0]
            self.bar.update(self.bar.total - progress.steps_left(self.first_step, num_steps) - self.bar.n)
            if not np.any(block.active) or (not progress.to_the_end and block.share() <= 0.5):
                return False
            due, interrupted = self.folder.due(progress.step), self.interruption.requested
            seconds, due, interrupted = sharding.agree(seconds, due, interrupted)
            if interrupted:
                return True
            if due:
                self.folder.save(progress)
            chunk = next_chunk(chunk, count, seconds)
            steps = block.steps[block.active]
            save_in = self.folder.next_step(progress.step) - progress.step
            count = int(min(chunk, np.min(num_steps - steps), every - np.max(steps) % every, save_in))
            clock = time.perf_counter()
            block = self.run.advance(block, count)
            seconds = time.perf_counter() - clock
            progress.step += count
            over = block.active & (block.steps >= num_steps)
            done = np.zeros_like(over)
            if np.max(block.steps[block.active]) % every == 0:
                home, asked = jax.tree.map(np.asarray, block.states), np.flatnonzero(block.active & ~over)
                done[asked] = [self.run.runs.method.done(row_of(home, row)) for row in asked]
            block = self._without(block, over, Outcome.STEP_LIMIT)
            progress.blocks[0] = self._without(block, done, Outcome.SETTLED)

    def _without(self, block: Block, which: np.ndarray, outcome: Outcome) -> Block:
        """Return a block in which these runs have ended."""
        if not np.any(which):
            return block  # its states stay on the device
        self.ended.add(block.at(np.flatnonzero(which)), outcome)
        return dataclasses.replace(block, active=block.active & ~which)
