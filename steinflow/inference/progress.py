"""Where many runs are between two chunks of steps: all that they need to go on, and how a checkpoint holds it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.inference.blocks import Block, of_one_shape, row_of, together
from steinflow.inference.checkpoints import Saved
from steinflow.results.outcome import Ending, Outcome
from steinflow.results.result import Result
from steinflow.targets.base import Target
from steinflow.typing import PyTree


@dataclasses.dataclass
class Progress:
    """Where many runs are.

    Attributes:
        stage: 0, or 1 where runs that are advised to take more steps take them; -1 before they begin.
        size: of a block.
        new: the numbers of runs that have not begun, a block each.
        blocks: of this round, which have begun; the first is at work.
        to_the_end: whether blocks go on until all of their runs have ended, and not until half of them have.
        left: what is left over of earlier blocks of this round, in one block, if anything is.
        ended: runs that wait to settle, one in each block, and how they ended.
        results: of runs that have settled, by their numbers.
        advised: the particles of those that are advised to go on, before they settled: there they are draws.
        step: how many steps all blocks have made.
    """

    stage: int = -1
    size: int = 0
    new: list[np.ndarray] = dataclasses.field(default_factory=list)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    to_the_end: bool = False
    left: list[Block] = dataclasses.field(default_factory=list)
    ended: list[tuple[Block, Outcome]] = dataclasses.field(default_factory=list)
    results: dict[int, Result] = dataclasses.field(default_factory=dict)
    advised: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    step: int = 0

    def begin_stage(self, rows: np.ndarray, size: int) -> None:
        """Let these runs wait for the first step of the next stage, in blocks of about the same size."""
        self.stage, self.size, self.new = self.stage + 1, size, np.array_split(rows, -(-len(rows) // size))
        self.to_the_end = len(self.new) == 1

    def end_block(self) -> None:
        """Lay aside what is left of the block at work; after the last of a round, make blocks of all that is left."""
        left = [*self.left, self.blocks.pop(0).going_on()]
        self.left = [Block.of(left)] if any(len(block.rows) for block in left) else []
        if self.new or self.blocks or not self.left:
            return
        block = self.left.pop()
        places = np.split(np.arange(len(block.rows)), range(self.size, len(block.rows), self.size))
        self.blocks = [block.at(each).filled(self.size) for each in places]
        self.to_the_end = len(self.blocks) == 1

    def steps_left(self, first_step: int, num_steps: int) -> int:
        """Return how many steps all runs of this stage have to make, which begins and ends with these."""
        begun = [num_steps - block.steps[block.active] for block in [*self.blocks, *self.left]]
        return int(sum(map(np.sum, begun)) + sum(map(len, self.new)) * (num_steps - first_step))

    def saved(self) -> tuple[PyTree, dict[str, Any]]:
        """Return what a checkpoint holds."""
        ended = [Block.of([block for block, _ in self.ended])] if self.ended else []
        rows, results = [*self.results], [*self.results.values()]
        groups = of_one_shape(found := [*map(_arrays, results)])
        arrays = {
            "blocks": [
                (each.rows, each.active, each.states, each.steps) for each in [*self.blocks, *self.left, *ended]
            ],
            "results": [together([found[k] for k in same]) for same in groups],
            "advised": together([*self.advised.values()]) if self.advised else (),
        }
        notes = {
            "stage": self.stage,
            "size": self.size,
            "new": [each.tolist() for each in self.new],
            "to_the_end": self.to_the_end,
            "blocks": [len(self.blocks), len(self.left), len(ended)],
            "ended": [outcome.value for _, outcome in self.ended],
            "results": [[{"row": rows[k], **_notes(results[k])} for k in same] for same in groups],
            "advised": [*self.advised],
        }
        return arrays, notes

    @classmethod
    def of(cls, saved: Saved, items: PyTree, keys: np.ndarray, target: Callable[[PyTree], Target]) -> "Progress":
        """Return where the runs were when they were saved.

        Args:
            saved: the checkpoint.
            items: of all runs.
            keys: of the steps of all runs.
            target: takes an item to its target.
        """
        arrays, notes = saved.arrays, saved.notes
        blocks = [
            Block(rows, active, row_of(items, rows), keys[rows], states, steps)
            for rows, active, states, steps in arrays["blocks"]
        ]
        begun, left, _ = notes["blocks"]
        return cls(
            stage=notes["stage"],
            size=notes["size"],
            new=[np.array(rows) for rows in notes["new"]],
            blocks=blocks[:begun],
            to_the_end=notes["to_the_end"],
            left=blocks[begun : begun + left],
            ended=[(blocks[-1].at(np.array([k])), Outcome(value)) for k, value in enumerate(notes["ended"])],
            results={
                known["row"]: _result(row_of(group, k), known, target(row_of(items, known["row"])))
                for group, each in zip(arrays["results"], notes["results"], strict=True)
                for k, known in enumerate(each)
            },
            advised=dict(zip(notes["advised"], arrays["advised"], strict=True)),
            step=saved.step,
        )


def like(notes: dict[str, Any], states: Callable[[int], PyTree], user: PyTree) -> PyTree:
    """Return a tree of the structure of saved arrays.

    Args:
        notes: of the checkpoint.
        states: what the states of runs look like, by the stage.
        user: what the user's particles look like.
    """
    array = jax.ShapeDtypeStruct((), np.int32)
    return {
        "blocks": [(array, array, states(notes["stage"]), array)] * sum(notes["blocks"]),
        "results": [
            (user, array, array, array, *(array if known else None for known in each[0]["known"]))
            for each in notes["results"]
        ],
        "advised": array if notes["advised"] else (),
    }


def _arrays(result: Result) -> tuple[PyTree, ...]:
    points = result.unconstrained, result.scores, result.log_densities
    return (result.particles, *points, result.weights, result.states)


def _notes(result: Result) -> dict[str, Any]:
    return {
        "known": [result.weights is not None, result.states is not None],
        "num_chains": result.num_chains,
        "outcome": result.outcome.value,
        "message": result.ending.message,
        "info": dict(result.info),
    }


def _result(arrays: tuple[PyTree, ...], notes: dict[str, Any], target: Target) -> Result:
    particles, *points, weights, states = arrays
    unconstrained, scores, log_densities = map(as_array, points)
    return Result(
        particles=jax.tree.map(as_array, particles),
        weights=weights,
        history={},
        ending=Ending(Outcome(notes["outcome"]), notes["message"]),
        unconstrained=unconstrained,
        scores=scores,
        log_densities=log_densities,
        num_chains=notes["num_chains"],
        target=target,
        states=states,
        info=notes["info"],
    )
