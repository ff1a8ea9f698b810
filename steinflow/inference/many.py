"""Many posteriors at once: one model, many data sets or priors, advanced together in compiled blocks."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from steinflow.devices.arrays import as_array
from steinflow.devices.keys import as_key
from steinflow.inference.blocks import Block, BlockRun, Runs
from steinflow.inference.defaults import default_method, default_num_particles, default_num_steps
from steinflow.inference.endings import ending_of
from steinflow.inference.interruption import Interruption
from steinflow.inference.items import checked_names, checked_particles, stacked
from steinflow.inference.loop import next_chunk
from steinflow.inference.memory import available_memory, check_memory
from steinflow.inference.views import View
from steinflow.methods.base import Method, Settled
from steinflow.results.many import Many
from steinflow.results.outcome import Outcome
from steinflow.results.predictions import judged_by_predictions
from steinflow.results.result import Result, versions
from steinflow.targets.base import Target
from steinflow.targets.flat import flatten, from_prior
from steinflow.targets.varied import Varied
from steinflow.typing import Array, Params, PRNGKeyArray, PyTree, Scalar

_BLOCK = 64  # runs that are advanced together at most: enough for compiled code to work on, and they fit in the caches
_SHARE = 0.5  # of the available memory that a block may take
_ASKED = 10  # times in a run whether more steps would add anything; every answer is work for the host


def fit_many(
    make: Callable[[PyTree], Target | Callable[[Params], Scalar]],
    items: PyTree,
    method: Method | None = None,
    *,
    particles: Params | None = None,
    num_particles: int | None = None,
    num_steps: int | None = None,
    names: Sequence[str] | None = None,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
) -> Many:
    """Turn one model and many data sets, or many priors, into as many posteriors, in one compiled run.

    Each posterior has its own adaptation, outcome and verdict. One whose log density is finite nowhere ends alone, as
    non-finite; the others go on. Posterior number i is that of `sf.fit(make(items[i]), key=jax.random.fold_in(key, i))`
    up to chance: rounding differs when many are computed together, and exploring particles forget where they were.

    Args:
        make: takes ONE item to its target, or to a log density of one particle. It is compiled: it sees arrays of one
            item, without the leading axis.
        items: what differs between the posteriors: arrays, or any pytree of them, with a leading axis of posteriors; or
            a list with one item for each. Data sets of different lengths go through `sf.data.padded`.
        method: how to infer, as for `sf.fit`.
        particles: starting points, with an axis of posteriors and one of particles; drawn from the prior of every
            target if not given.
        num_particles: how many to draw from each prior, as for `sf.fit`.
        num_steps: of every run that does not end before, as for `sf.fit`.
        names: of the posteriors, for tables and `many["name"]`; numbers by default.
        key: an int or a JAX key.
        progress: show a bar, of the steps of all posteriors together.

    Returns:
        The results, as a sequence and as one table. Ctrl-C ends all runs where they are.

    Raises:
        ValueError: if items have no common leading axis, steps would not see all of the data, or no posterior has a
            finite log density at any of its starting particles.
        TypeError: if the items are no numbers, or the method is none.
        MemoryError: if a single run needs more memory than there is.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        y = 3 + jax.random.normal(jax.random.key(0), (50, 20))  # 50 data sets of 20 rows


        def posterior(y):
            return sf.Density(lambda mean: -0.5 * jnp.sum((y - mean) ** 2), prior=jax.random.normal)


        many = sf.fit_many(posterior, y)
        ```
    """
    if not isinstance(method, Method | None):
        raise TypeError(f"method is an inference method such as sf.SVGD(); got {method!r}.")
    if particles is not None and num_particles is not None:
        raise ValueError(
            "particles= are the starting points, and num_particles= is how many to draw: pass one of them."
        )
    for name, value in (("num_particles", num_particles), ("num_steps", num_steps)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}.")
    items, number = stacked(items)
    names = checked_names(names, number)
    keys = as_key(key)
    keys, kind = _keys(keys, number), str(jax.random.key_impl(keys))
    first = Varied(make, jax.tree.map(lambda leaf: leaf[0], items))
    with contextlib.ExitStack() as stack:
        interruption = stack.enter_context(Interruption(by_sigterm=False))
        if particles is None:
            num_particles = num_particles or default_num_particles(first)
            flat, start = from_prior(first, num_particles, key=jax.random.wrap_key_data(keys[0, 0], impl=kind))
        else:
            particles = checked_particles(particles, number)
            flat, start = flatten(first, jax.tree.map(lambda leaf: leaf[0], particles))
        if flat.data is not None and (flat.noisy or flat.data.host is not None):
            raise ValueError("fit_many sees all rows at every step: give every target arrays and no batch_size.")
        method = default_method(flat, start) if method is None else method
        num_steps = num_steps or default_num_steps(method)
        runs = Runs(method, make, flat.unravel, flat.dim, as_array(np.int32(num_steps)), kind)
        run = BlockRun(runs, num_steps)

        def begin(rows: np.ndarray) -> Block:
            chosen = jax.tree.map(lambda leaf: leaf[rows], items)
            if particles is None:
                cloud = run.drawn(chosen, num_particles or 1, keys[rows, 0])
            else:
                cloud = run.unconstrained(chosen, jax.tree.map(lambda leaf: leaf[rows], particles))
            return run.start(chosen, cloud, keys[rows, 1], keys[rows, 2])

        size = _block_size(run, begin, number)
        interruption.check()
        bar = stack.enter_context(tqdm(total=number * num_steps, unit="step", unit_scale=True, disable=not progress))
        ended = _Ended(run, number, num_steps, size, identified=flat.identified)
        waiting = [(rows, None) for rows in np.array_split(np.arange(number), -(-number // size))]
        while waiting:
            last_round, left = len(waiting) == 1, []
            for rows, block in waiting:
                block = begin(_filled(rows, size)) if block is None else block
                left.append(_run_block(run, rows, block, ended, bar, interruption, to_the_end=last_round))
            waiting = list(_regrouped([pair for pair in left if pair is not None], size))
    return Many(tuple(ended.results()), names)


def _run_block(run, rows, block, ended, bar, interruption, *, to_the_end) -> tuple[np.ndarray, Block] | None:
    """Advance a block until half of its runs have ended, or all; return those that are left, if any."""
    num_steps, chunk, every = ended.num_steps, 1, max(1, ended.num_steps // _ASKED)
    active = np.ones(len(rows), bool)
    if not np.any(block.steps):
        active &= _finite_somewhere(run, block)[: len(rows)]
        ended.add(rows[~active], block.at(np.flatnonzero(~active)), Outcome.NON_FINITE)
        bar.update(int(np.sum(~active)) * num_steps)
    while np.any(active) and (to_the_end or np.mean(active) > 0.5):
        steps = np.asarray(block.steps)[: len(rows)]
        if interruption.requested:
            ended.add(rows[active], block.at(np.flatnonzero(active)), Outcome.INTERRUPTED)
            return None
        count = int(min(chunk, np.min((num_steps - steps)[active]), every - np.max(steps[active]) % every))
        clock = time.perf_counter()
        block = run.advance(block, count)
        seconds = time.perf_counter() - clock
        chunk = next_chunk(chunk, count, seconds)
        bar.update(int(np.sum(active)) * count)
        steps = steps + count
        over = active & (steps >= num_steps)
        done = np.zeros_like(active)
        if np.max(steps[active]) % every == 0:
            home = jax.tree.map(np.asarray, block.states)
            asked = np.flatnonzero(active & ~over)
            done[asked] = [run.runs.method.done(_row(home, row)) for row in asked]
        for finished, outcome in ((over, Outcome.STEP_LIMIT), (done, Outcome.SETTLED)):
            ended.add(rows[finished], block.at(np.flatnonzero(finished)), outcome)
            bar.update(int(np.sum(num_steps - steps[finished])))
        active &= ~(over | done)
    return (rows[active], block.at(np.flatnonzero(active))) if np.any(active) else None


class _Ended:
    """Collects runs that have ended, settles them a block at a time, and makes their results."""

    def __init__(self, run: BlockRun, number: int, num_steps: int, size: int, *, identified: bool):
        self.num_steps, self._identified = num_steps, identified
        self._run, self._size, self._versions = run, size, versions()
        self._open: list[tuple[int, Any, Any, int, Outcome]] = []
        self._results: list[Result | None] = [None] * number

    def add(self, rows: np.ndarray, block: Block, outcome: Outcome) -> None:
        """Note that these runs have ended."""
        self._open += [
            (int(row), _row(block.items, k), _row(block.states, k), int(block.steps[k]), outcome)
            for k, row in enumerate(rows)
        ]
        while len(self._open) >= self._size:
            self._settle()

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
                    self._results[row] = self._result(view.cut(), ends[k], targets[k].source, step, outcome)

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
            info={
                "method": type(self._run.runs.method).__name__,
                "num_steps": step,
                "versions": self._versions,
                **{name: np.asarray(value).item() for name, value in final.draws.metrics.items()},
                **end.findings,
                **({} if self._identified else judged_by_predictions(target, final.user, final.draws.num_chains)),
            },
        )


def _never_began(result: Result) -> bool:
    return result.outcome is Outcome.NON_FINITE and result.info["num_steps"] == 0


def _keys(key: PRNGKeyArray, number: int) -> np.ndarray:
    """Return four keys for every run, those that `fit` would use with `fold_in(key, i)`, as plain numbers."""
    keys = jax.vmap(lambda i: jax.random.split(jax.random.fold_in(key, i), 4))(jnp.arange(number))
    return np.asarray(jax.random.key_data(keys))


def _block_size(run: BlockRun, begin: Callable[[np.ndarray], Block], number: int) -> int:
    """Return how many runs to advance together: all blocks of about the same size, none larger than memory allows."""
    most, available = min(number, _BLOCK), available_memory()
    while True:
        size = -(-number // -(-number // most))
        needed = run.step_memory(begin(_filled(np.arange(size), size)))
        if available is None or needed <= _SHARE * available:
            return size
        if size == 1:
            check_memory(needed, ["fewer particles (num_particles)"])
            return 1
        most = size // 2


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Return as many rows as a block has, the first of them repeated where there are fewer."""
    return np.concatenate([rows, np.full(size - len(rows), rows[0])])


def _regrouped(left: list[tuple[np.ndarray, Block]], size: int) -> Iterator[tuple[np.ndarray, Block]]:
    """Return runs that were left over, in as few blocks as they need."""
    if not left:
        return
    all_rows, block = np.concatenate([rows for rows, _ in left]), Block.of([block for _, block in left])
    for start in range(0, len(all_rows), size):
        chosen = np.arange(start, min(start + size, len(all_rows)))
        yield all_rows[chosen], block.at(_filled(chosen, size))


def _finite_somewhere(run: BlockRun, block: Block) -> np.ndarray:
    """Say of every run whether any of its particles starts where the density is positive and finite."""
    return np.any(np.asarray(run.view(block.items, block.states).finite), axis=1)


def _row(tree: PyTree, row: int | np.integer) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[row], tree)


def _together(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _of_one_shape(states: Sequence[PyTree]) -> list[list[int]]:
    """Return the positions of states, grouped by their shapes."""
    groups: dict[Array | tuple, list[int]] = {}
    for k, state in enumerate(states):
        groups.setdefault(tuple(np.shape(leaf) for leaf in jax.tree.leaves(state)), []).append(k)
    return list(groups.values())
