"""Runs of `fit_many` that have ended: they settle a block at a time, and become results."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.inference.blocks import Block, BlockRun
from steinflow.inference.endings import ending_of
from steinflow.inference.loop import gradients_of, should_go_on
from steinflow.inference.views import View
from steinflow.methods.base import Settled
from steinflow.results.outcome import Outcome
from steinflow.results.predictions import judged_by_predictions
from steinflow.results.result import Result, versions
from steinflow.targets.base import Target
from steinflow.typing import Array, PyTree

_KEPT_BYTES = 2**28  # of positions on the way, of all runs together: where they would take more, results have none


class EndedRuns:
    """Collects runs that have ended, settles them a block at a time, and makes their results.

    Args:
        run: what they computed together.
        number: of all runs.
        num_steps: of each at most.
        size: of a block.
        identified: whether parameters have a meaning of their own.
        may_go_on: whether runs that are advised to take more steps are kept as they are, for `to_go_on`.
    """

    def __init__(
        self, run: BlockRun, number: int, num_steps: int, size: int, *, identified: bool, may_go_on: bool = False
    ):
        self.num_steps, self._identified, self._may_go_on = num_steps, identified, may_go_on
        self._run, self._size, self._versions = run, size, versions()
        self._open: list[tuple[int, Any, Any, int, Outcome]] = []
        self._results: list[Result | None] = [None] * number
        self._advised: dict[int, Any] = {}

    def add(self, rows: np.ndarray, block: Block, outcome: Outcome) -> None:
        """Note that these runs have ended."""
        self._open += [
            (int(row), row_of(block.items, k), row_of(block.states, k), int(block.steps[k]), outcome)
            for k, row in enumerate(rows)
        ]
        while len(self._open) >= self._size:
            self._settle()

    def to_go_on(self) -> dict[int, Any]:
        """Return the states, before they settled, of the runs that are advised to take more steps, by their number."""
        if self._open:
            self._settle()
        return self._advised

    def replace(self, rows: Sequence[int], others: "EndedRuns") -> None:
        """Put the results of runs that went on in the places of theirs."""
        for row, result in zip(rows, others.results(), strict=True):
            self._results[row] = result

    def results(self) -> Iterator[Result]:
        """Return the results in the order of the items."""
        if self._open:
            self._settle()
        if all(result is not None and _never_began(result) for result in self._results):
            raise ValueError(
                f"The log density or its score is not finite at any starting particle of any of the "
                f"{len(self._results)} posteriors. Start where the density is positive and finite, and write it with "
                "log-space functions (jax.nn.log_sigmoid, xlogy, ...)."
            )
        for result in self._results:
            assert result is not None
            yield result

    def _settle(self) -> None:
        """Settle as many runs as a block has, or all that there are, and make their results."""
        ended, self._open = self._open[: self._size], self._open[self._size :]
        number = len(ended)
        ended += ended[:1] * (self._size - number)  # so that one compiled program serves
        items, states = [item for _, item, *_ in ended], [state for _, _, state, *_ in ended]
        targets = [self._run.runs.target(jax.tree.map(as_array, item)) for item in items]
        ends = self._run.runs.method.settle_all(targets, states)
        for same in _of_one_shape([end.state for end in ends]):
            views = self._run.view(_together([items[k] for k in same]), _together([ends[k].state for k in same]))
            for position, k in enumerate(same):
                if k < number:
                    row, _, _, step, outcome = ended[k]
                    view = jax.tree.map(lambda leaf, position=position: leaf[position], views)
                    result = self._result(view.cut(), ends[k], targets[k].source, step, outcome)
                    self._results[row] = result
                    if self._may_go_on and should_go_on(result):
                        self._advised[row] = states[k]

    def _result(self, final: View, end: Settled, target: Target, step: int, outcome: Outcome) -> Result:
        return Result(
            particles=jax.tree.map(as_array, final.user),
            weights=final.draws.weights,
            history={},
            ending=ending_of(outcome, final, step=step, num_steps=self.num_steps, stop=None),
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
        return None if states is None or len(self._results) * states.nbytes > _KEPT_BYTES else states


def _never_began(result: Result) -> bool:
    return result.outcome is Outcome.NON_FINITE and result.info["num_steps"] == 0


def row_of(tree: PyTree, row: int | np.integer) -> PyTree:
    """Return what a tree with a leading axis of runs says about one."""
    return jax.tree.map(lambda leaf: leaf[row], tree)


def _together(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _of_one_shape(states: Sequence[PyTree]) -> list[list[int]]:
    """Return the positions of states, grouped by their shapes."""
    groups: dict[Array | tuple, list[int]] = {}
    for k, state in enumerate(states):
        groups.setdefault(tuple(np.shape(leaf) for leaf in jax.tree.leaves(state)), []).append(k)
    return list(groups.values())
