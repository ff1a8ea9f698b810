"""Many posteriors at once: one model, many data sets or priors, advanced together in compiled blocks."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import make_room
from steinflow.devices.keys import as_key
from steinflow.inference.arguments import checked_count, checked_method
from steinflow.inference.blocks import Block, BlockRun, Runs
from steinflow.inference.defaults import default_limits, default_method, default_num_particles
from steinflow.inference.ended import EndedRuns, row_of
from steinflow.inference.interruption import Interruption
from steinflow.inference.items import checked_names, checked_particles, stacked
from steinflow.inference.loop import next_chunk
from steinflow.inference.memory import available_memory, check_memory
from steinflow.methods.base import Method
from steinflow.results.many import Many
from steinflow.results.outcome import Outcome
from steinflow.targets.base import Target
from steinflow.targets.flat import flatten, from_prior
from steinflow.targets.varied import Varied
from steinflow.typing import Params, PRNGKeyArray, PyTree, Scalar

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

    Each posterior has its own adaptation, outcome and verdict. If the log density of one is finite nowhere, only that
    run ends, as non-finite; the others go on. Posterior number i is the same as that of
    `sf.fit(make(items[i]), key=jax.random.fold_in(key, i))` up to chance: rounding differs when many are computed
    together, and exploring particles forget where they were.

    Args:
        make: a function of ONE item that returns its target, or a log density of one particle. It is compiled, and sees
            the arrays of one item, without the leading axis.
        items: what differs between the posteriors: arrays, or any pytree of them, with a leading axis of posteriors; or
            a list with one item for each. For data sets of different lengths use `sf.data.padded`.
        method: how to infer, as for `sf.fit`.
        particles: starting points, with an axis of posteriors and one of particles; drawn from the prior of every
            target if not given.
        num_particles: how many to draw from each prior, as for `sf.fit`.
        num_steps: of every run that does not end earlier, as for `sf.fit`. If not given, runs that need more than 1,000
            steps go on together, for up to 4,000 more.
        names: of the posteriors, for tables and `many["name"]`; numbers by default.
        key: an int or a JAX key.
        progress: show a bar, of the steps of all posteriors together.

    Returns:
        The results, as a sequence and as one table. Ctrl-C ends all runs where they are.

    Raises:
        ValueError: if items have no common leading axis, if steps would not see all of the data, or if no posterior has
            a finite log density at any of its starting particles.
        TypeError: if the items are not numbers, or `method` is not an inference method.
        MemoryError: if a single run needs more memory than is available.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        y = 3 + jax.random.normal(jax.random.key(0), (50, 20))  # 50 data sets of 20 rows


        def posterior(y):
            return sf.Density(lambda mean: -0.5 * jnp.sum((y - mean) ** 2), prior=jax.random.normal)


        many = sf.fit_many(posterior, y)
        ```
    """
    method = checked_method(method)
    if particles is not None and num_particles is not None:
        raise ValueError(
            "particles= are the starting points, and num_particles= is how many to draw: pass one of them."
        )
    num_particles, num_steps = checked_count("num_particles", num_particles), checked_count("num_steps", num_steps)
    items, number = stacked(items)
    names = checked_names(names, number)
    keys = as_key(key)
    keys, kind = _keys(keys, number), str(jax.random.key_impl(keys))
    first = Varied(make, jax.tree.map(lambda leaf: leaf[0], items))
    make_room()
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
        limits = (num_steps, num_steps) if num_steps else default_limits(method)

        def run_of(num_steps: int) -> BlockRun:
            total = as_array(np.int32(num_steps))
            return BlockRun(Runs(method, make, flat.unravel, flat.dim, total, kind), num_steps)

        def begin(rows: np.ndarray) -> Block:
            chosen = jax.tree.map(lambda leaf: leaf[rows], items)
            if particles is None:
                cloud = run.drawn(chosen, num_particles or 1, keys[rows, 0])
            else:
                cloud = run.unconstrained(chosen, jax.tree.map(lambda leaf: leaf[rows], particles))
            return run.start(chosen, cloud, keys[rows, 1], keys[rows, 2])

        run = run_of(limits[0])
        size = _block_size(run, begin, number)
        interruption.check()
        bar = stack.enter_context(tqdm(total=number * limits[0], unit="step", unit_scale=True, disable=not progress))
        more = limits[-1] > limits[0]
        ended = EndedRuns(run, number, limits[0], size, identified=flat.identified, may_go_on=more)
        _run_all(run, number, size, begin, ended, bar, interruption)
        advised = ended.to_go_on()
        if advised and not interruption.requested:
            rows_left, states = np.array([*advised]), [*advised.values()]
            longer = run_of(limits[-1])

            def go_on(which: np.ndarray) -> Block:
                """Return runs that go on from where their particles were before they settled: there they are draws."""
                rows = rows_left[which]
                chosen = jax.tree.map(lambda leaf: leaf[rows], items)
                cloud = np.stack([_unsettled(run, chosen, states[i], k) for k, i in enumerate(which)])
                block = longer.start(chosen, as_array(cloud), _next_keys(keys[rows, 1], kind), keys[rows, 2])
                return dataclasses.replace(block, steps=block.steps + np.int32(limits[0]))

            bar.total += len(rows_left) * (limits[-1] - limits[0])
            size = _block_size(longer, go_on, len(rows_left))
            again = EndedRuns(longer, len(rows_left), limits[-1], size, identified=flat.identified)
            _run_all(longer, len(rows_left), size, go_on, again, bar, interruption)
            ended.replace(rows_left.tolist(), again)
    return Many(tuple(ended.results()), names)


def _run_all(run, number, size, begin, ended, bar, interruption) -> None:
    """Take all runs to their ends, a block at a time; those that take longer than most go on together."""
    waiting = [(rows, None) for rows in np.array_split(np.arange(number), -(-number // size))]
    while waiting:
        last_round, left = len(waiting) == 1, []
        for rows, block in waiting:
            block = begin(_filled(rows, size)) if block is None else block
            left.append(_run_block(run, rows, block, ended, bar, interruption, to_the_end=last_round))
        waiting = list(_regrouped([pair for pair in left if pair is not None], size))


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
            done[asked] = [run.runs.method.done(row_of(home, row)) for row in asked]
        for finished, outcome in ((over, Outcome.STEP_LIMIT), (done, Outcome.SETTLED)):
            ended.add(rows[finished], block.at(np.flatnonzero(finished)), outcome)
            bar.update(int(np.sum(num_steps - steps[finished])))
        active &= ~(over | done)
    return (rows[active], block.at(np.flatnonzero(active))) if np.any(active) else None


def _keys(key: PRNGKeyArray, number: int) -> np.ndarray:
    """Return four keys for every run, those that `fit` would use with `fold_in(key, i)`, as plain numbers."""
    keys = jax.vmap(lambda i: jax.random.split(jax.random.fold_in(key, i), 4))(jnp.arange(number))
    return np.asarray(jax.random.key_data(keys))


def _next_keys(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return the keys that `fit` would go on with, as plain numbers."""
    keys = jax.vmap(lambda key: jax.random.split(key)[1])(jax.random.wrap_key_data(as_array(numbers), impl=kind))
    return np.asarray(jax.random.key_data(keys))


def _unsettled(run: BlockRun, items: PyTree, state, k: int) -> np.ndarray:
    """Return the particles of run k, by its state before it settled."""
    target, key = run.runs.target(row_of(items, k)), jax.random.key(0)  # the methods that go on draw nothing
    return np.asarray(run.runs.method.draws(target, state, key=key).particles)


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
