"""Many posteriors at once: one model, many data sets or priors, advanced together in compiled blocks."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import make_room
from steinflow.devices.keys import as_key
from steinflow.inference.arguments import checked_checkpoint, checked_count, checked_mesh, checked_method
from steinflow.inference.blocks import Block, BlockRun, Runs, filled, row_of
from steinflow.inference.checkpoints import Checkpoint, CheckpointFolder
from steinflow.inference.defaults import default_limits, default_method, default_num_particles
from steinflow.inference.ended import EndedRuns, results_of
from steinflow.inference.fingerprints import fingerprint, identity_of
from steinflow.inference.interruption import Interruption
from steinflow.inference.items import checked_names, checked_particles, stacked
from steinflow.inference.memory import available_memory, check_memory
from steinflow.inference.progress import Progress, like
from steinflow.inference.rounds import Rounds
from steinflow.methods.base import Method
from steinflow.results.many import Many
from steinflow.targets.base import Target
from steinflow.targets.flat import flatten, from_prior
from steinflow.targets.varied import Varied
from steinflow.typing import Params, PRNGKeyArray, PyTree, Scalar

_BLOCK = 64  # runs that a device advances together at most: enough work for compiled code, and they fit in the caches
_SHARE = 0.5  # of the available memory that a block may take


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
    checkpoint: Checkpoint | str | Path | None = None,
    mesh: Mesh | None = None,
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
        checkpoint: a folder, or `sf.Checkpoint(folder, ...)`, as for `sf.fit`: the same call goes on from the last
            checkpoint, bit for bit, and runs that have ended are not computed again.
        mesh: devices that share the posteriors, such as `sf.mesh()`.

    Returns:
        The results, as a sequence and as one table. Ctrl-C ends all runs where they are.

    Raises:
        ValueError: if items have no common leading axis, if steps would not see all of the data, if no posterior has a
            finite log density at any of its starting particles, or if the checkpoint folder belongs to another call.
        TypeError: if the items are not numbers, or `method` is not an inference method.
        MemoryError: if a single run needs more memory than is available.
        RuntimeError: if one of several processes is lost.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        y = 3 + jax.random.normal(jax.random.key(0), (50, 20))  # 50 data sets of 20 rows


        def posterior(y):
            return sf.Density(lambda mean: -0.5 * jnp.sum((y - mean) ** 2), prior=jax.random.normal)


        many = sf.fit_many(posterior, y)
        ```
    """
    method, checkpoint, mesh = checked_method(method), checked_checkpoint(checkpoint), checked_mesh(mesh)
    if particles is not None and num_particles is not None:
        raise ValueError(
            "particles= are the starting points, and num_particles= is how many to draw: pass one of them."
        )
    num_particles, num_steps = checked_count("num_particles", num_particles), checked_count("num_steps", num_steps)
    items, number = stacked(items)
    names = checked_names(names, number)
    key = as_key(key)
    keys, kind = _keys(key, number), str(jax.random.key_impl(key))
    first = Varied(make, jax.tree.map(lambda leaf: leaf[0], items))
    make_room()
    with contextlib.ExitStack() as stack:
        interruption = stack.enter_context(Interruption(by_sigterm=checkpoint is not None))
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
        totals = [as_array(np.int32(limit)) for limit in dict.fromkeys(limits)]
        shared = [Runs(method, make, flat.unravel, flat.dim, total, kind) for total in totals]
        runs = [BlockRun(each, int(each.num_steps), mesh) for each in shared]
        identity = (
            {}
            if checkpoint is None
            else {
                "function that makes targets": fingerprint(make),
                "data": fingerprint(items),
                **identity_of(method, particles, size=start.shape, limits=limits, key=key),
            }
        )
        stack.enter_context(sharding.lost_contact_explained(resumable=checkpoint is not None))
        folder = stack.enter_context(CheckpointFolder(checkpoint, identity))

        def states_of(stage: int) -> PyTree:
            return runs[stage].like(row_of(items, np.arange(1)), start[None], keys[:1, 1])

        saved = folder.restore(lambda notes: like(notes, states_of, jax.eval_shape(flat.to_user, start)))
        current = (
            Progress()
            if saved is None
            else Progress.of(saved, items, keys[:, 2], lambda item: runs[0].runs.target(item).source)
        )

        def begin(stage: int, rows: np.ndarray, size: int) -> Block:
            """Return a block of runs that begin; in the second stage they do where their particles were."""
            places = filled(rows, size)
            chosen, init_keys = row_of(items, places), keys[places, 1]
            if stage:
                cloud = np.stack([current.advised[row] for row in places.tolist()])
                init_keys = _next_keys(init_keys, kind)
            elif particles is None:
                cloud = runs[0].drawn(chosen, len(start), keys[places, 0])
            else:
                cloud = runs[0].unconstrained(chosen, row_of(particles, places))
            block = runs[stage].start(places, chosen, cloud, init_keys, keys[places, 2])
            steps = block.steps + np.int32(stage * limits[0])
            return dataclasses.replace(block, active=np.arange(size) < len(rows), steps=steps)

        shown = progress and jax.process_index() == 0
        bar = tqdm(total=number * limits[0], unit="step", unit_scale=True, disable=not shown)
        stack.enter_context(bar)
        for stage, run in list(enumerate(runs))[max(current.stage, 0) :]:
            rows = np.array([*current.advised]) if stage else np.arange(number)
            if not len(rows) or (stage and sharding.agree(interruption.requested)[0]):
                break
            starts = functools.partial(begin, stage)
            if stage > current.stage:
                current.begin_stage(rows, _block_size(run, starts, rows))
            if current.step == 0:
                interruption.check()
            bar.total += stage * len(rows) * (limits[-1] - limits[0])
            may_go_on = stage + 1 < len(runs)
            ended = EndedRuns(run, current, number, identified=flat.identified, may_go_on=may_go_on)
            rounds = Rounds(run, starts, stage * limits[0], current, ended, folder, bar, interruption)
            interrupted = rounds.run_all()
            if interrupted:
                folder.save(current)
                rounds.end_all()
            ended.settle()
            if interrupted:
                break
            folder.save(current)
    return Many(results_of(current), names)


def _keys(key: PRNGKeyArray, number: int) -> np.ndarray:
    """Return four keys for every run, those that `fit` would use with `fold_in(key, i)`, as plain numbers."""
    keys = jax.vmap(lambda i: jax.random.split(jax.random.fold_in(key, i), 4))(jnp.arange(number))
    return np.asarray(jax.random.key_data(keys))


def _next_keys(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return the keys that `fit` would go on with, as plain numbers."""
    keys = jax.vmap(lambda key: jax.random.split(key)[1])(jax.random.wrap_key_data(as_array(numbers), impl=kind))
    return np.asarray(jax.random.key_data(keys))


def _block_size(run: BlockRun, begin: Callable[[np.ndarray, int], Block], rows: np.ndarray) -> int:
    """Return how many runs to advance together: all blocks of about the same size, none larger than memory allows."""
    most, (available,) = min(len(rows), run.num_devices * _BLOCK), sharding.agree(available_memory() or np.inf)
    while True:
        size = -(-len(rows) // -(-len(rows) // most))
        needed = run.step_memory(begin(rows[:size], size))
        if needed <= _SHARE * available:
            return size
        if size == 1:
            check_memory(needed, ["fewer particles (num_particles)"])
            return 1
        most = size // 2
