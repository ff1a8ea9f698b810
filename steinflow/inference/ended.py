"""Runs of `fit_many` that have ended: they settle a block at a time, and become results."""

from typing import Any

import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.inference.blocks import Block, BlockRun, of_one_shape, row_of, together
from steinflow.inference.endings import ending_of
from steinflow.inference.loop import gradients_of, should_go_on
from steinflow.inference.progress import Progress
from steinflow.inference.views import View
from steinflow.methods.base import Settled
from steinflow.results.outcome import Outcome
from steinflow.results.predictions import judged_by_predictions
from steinflow.results.result import Result, versions
from steinflow.targets.base import Target
from steinflow.targets.flat import FlatTarget

_KEPT_BYTES = 2**28  # of positions on the way, of all runs together: where they would take more, results have none


class EndedRuns:
    """Settles runs that have ended, a block at a time, and makes their results.

    Args:
        run: what they computed together.
        progress: where they wait, and where their results go.
        number: of all runs.
        identified: whether parameters have a meaning of their own.
        may_go_on: whether the particles of runs that are advised to take more steps are kept, to go on from.
    """

    def __init__(self, run: BlockRun, progress: Progress, number: int, *, identified: bool, may_go_on: bool):
        self._run, self._progress, self._number = run, progress, number
        self._identified, self._may_go_on, self._versions = identified, may_go_on, versions()

    def add(self, block: Block, outcome: Outcome) -> None:
        """Note that these runs have ended."""
        self._progress.ended += [(block.at(np.array([k])), outcome) for k in range(len(block.rows))]
        while len(self._progress.ended) >= self._progress.size:
            self._settle()

    def settle(self) -> None:
        """Settle all that wait for it."""
        while self._progress.ended:
            self._settle()

    def _settle(self) -> None:
        """Settle as many runs as a block has, or all that there are, and make their results."""
        size, progress = self._progress.size, self._progress
        ended, progress.ended = progress.ended[:size], progress.ended[size:]
        block = Block.of([run for run, _ in ended]).filled(size)  # so that one compiled program serves
        states = [row_of(block.states, k) for k in range(size)]
        targets = [self._run.runs.target(jax.tree.map(as_array, row_of(block.items, k))) for k in range(size)]
        ends = self._run.runs.method.settle_all(targets, states)
        for same in of_one_shape([end.state for end in ends]):
            views = self._run.view(row_of(block.items, np.array(same)), together([ends[k].state for k in same]))
            for position, k in enumerate(same):
                if k < len(ended):
                    row, view = int(block.rows[k]), row_of(views, position)
                    result = self._result(view.cut(), ends[k], targets[k].source, int(block.steps[k]), ended[k][1])
                    progress.results[row] = result
                    if self._may_go_on and should_go_on(result):
                        progress.advised[row] = self._unsettled(targets[k], states[k])

    def _unsettled(self, target: FlatTarget, state: Any) -> np.ndarray:
        """Return particles before they settled: there they are draws."""
        key = jax.random.key(0)  # the methods that go on draw nothing
        return np.asarray(self._run.runs.method.draws(target, state, key=key).particles)

    def _result(self, final: View, end: Settled, target: Target, step: int, outcome: Outcome) -> Result:
        return Result(
            particles=jax.tree.map(as_array, final.user),
            weights=final.draws.weights,
            history={},
            ending=ending_of(outcome, final, step=step, num_steps=self._run.num_steps, stop=None),
            unconstrained=as_array(final.draws.particles),
            scores=as_array(final.scores),
            log_densities=as_array(final.log_densities),
            num_chains=final.draws.num_chains,
            target=target,
            states=self._kept(end.states),
            info={
                "method": type(self._run.runs.method).__name__,
                "num_steps": step,
                **gradients_of(self._run.runs.method, len(final.draws.particles), step),
                "versions": self._versions,
                **{name: np.asarray(value).item() for name, value in final.draws.metrics.items()},
                **end.findings,
                **({} if self._identified else judged_by_predictions(target, final.user, final.draws.num_chains)),
            },
        )

    def _kept(self, states: np.ndarray | None) -> np.ndarray | None:
        """Return positions on the way for `result.draws`, unless those of all runs would fill the memory."""
        return None if states is None or self._number * states.nbytes > _KEPT_BYTES else states


def results_of(progress: Progress) -> tuple[Result, ...]:
    """Return all results, in the order of the items.

    Raises:
        ValueError: if no run could begin.
    """
    results = tuple(progress.results[row] for row in sorted(progress.results))
    if all(result.outcome is Outcome.NON_FINITE and result.info["num_steps"] == 0 for result in results):
        raise ValueError(
            f"The log density or its score is not finite at any starting particle of any of the {len(results)} "
            "posteriors. Start where the density is positive and finite, and write it with log-space functions "
            "(jax.nn.log_sigmoid, xlogy, ...)."
        )
    return results
