"""The only loop: it runs any method on any target in compiled chunks, watches, records, and says how it ended."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import make_room
from steinflow.devices.keys import as_key, split_key
from steinflow.inference.anchoring import Anchored, Anchoring
from steinflow.inference.arguments import (
    checked_checkpoint,
    checked_count,
    checked_mesh,
    checked_method,
    checked_record,
    checked_stop,
)
from steinflow.inference.checkpoints import Checkpoint, CheckpointFolder, Snapshot
from steinflow.inference.compiled import Record, Run
from steinflow.inference.defaults import default_limits, default_method, default_num_particles
from steinflow.inference.endings import ending_of
from steinflow.inference.fingerprints import fingerprint, identity_of
from steinflow.inference.interruption import Interruption
from steinflow.inference.memory import check_memory
from steinflow.inference.plan import Plan
from steinflow.inference.stopping import Stop
from steinflow.inference.views import View
from steinflow.methods.base import Method, Settled
from steinflow.results.outcome import Ending, Outcome
from steinflow.results.predictions import judged_by_predictions
from steinflow.results.result import Result, versions
from steinflow.results.verdict import Remedy
from steinflow.targets.base import Target, as_target
from steinflow.targets.data import Data, refuse_batch, refuse_rows
from steinflow.targets.feed import Feed
from steinflow.targets.flat import flatten, from_prior
from steinflow.typing import Params, PRNGKeyArray, Scalar

_RECORDS = 50  # of a run, unless the user says otherwise
_CHUNK_SECONDS = 0.5  # Ctrl-C and the progress bar wait for a chunk at most


def fit(
    target: Target | Callable[[Params], Scalar],
    method: Method | None = None,
    *,
    particles: Params | None = None,
    num_particles: int | None = None,
    num_steps: int | None = None,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
    record: Record | None = None,
    record_every: int | None = None,
    stop: Stop | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    mesh: Mesh | None = None,
) -> Result:
    """Turn a log density into a posterior.

    The same key gives the same result, whatever is watched or recorded. Ctrl-C ends the run after the current chunk of
    steps, within about half a second, and returns the result so far. Before the first step, or when pressed a second
    time, it raises KeyboardInterrupt as usual.

    Args:
        target: a function that takes ONE particle (an array or any pytree) to its log density, or a `Target`.
        method: how to infer. The default is `sf.SVGD()`, which needs no tuning. For neural networks it is
            `sf.Ensemble()`, unless there are more particles than weights and every step sees all rows.
        particles: starting points, with a leading axis; drawn from the target's prior if not given.
        num_particles: how many to draw from the prior; by default 100, or 10 members for an ensemble of networks.
        num_steps: the number of steps, unless the run stops earlier; by default 1,000, or 10,000 for an ensemble.
            The default method ends when it knows mean and spread as well as 10,000 independent draws would. If
            `num_steps` is not given and the verdict after 1,000 steps advises more, it takes up to 4,000 more.
        key: an int or a JAX key.
        progress: show a bar with the rate, KSD and dispersion.
        record: functions of all particles (in the user's structure) to record by name, such as `{"x": lambda x: x}`.
        record_every: steps between records; by default there are about 50.
        stop: a rule that ends the run early, such as `sf.Converged()`: a function of the history so far that returns
            True to stop.
        checkpoint: a folder, or `sf.Checkpoint(folder, ...)`. The run is saved there regularly; the same call
            continues from the last checkpoint, bit for bit. With a checkpoint, SIGTERM ends a run as Ctrl-C does.
        mesh: devices that share the work, such as `sf.mesh()`.

    Returns:
        The particles with their history, diagnostics and verdict. `result.outcome` says how the run ended, and
        `result.ending` what to do next.

    Raises:
        ValueError: if arguments contradict each other or are out of range, if the log density is not a number or is
            not finite at any starting particle, or if the checkpoint folder belongs to another run.
        TypeError: if the target, the method, the particles or the key are of the wrong kind.
        MemoryError: if a step needs more memory than is available.
        RuntimeError: if one of several processes is lost.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        x0 = 5 + jax.random.normal(jax.random.key(0), (100, 2))
        result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), particles=x0, num_steps=500, key=1)
        ```
    """
    target = as_target(target)
    method, record, stop = checked_method(method), checked_record(record), checked_stop(stop)
    checkpoint, mesh = checked_checkpoint(checkpoint), checked_mesh(mesh)
    if particles is not None and num_particles is not None:
        raise ValueError(
            "particles= are the starting points, and num_particles= is how many to draw from the prior: pass only one "
            "of them. To start from fewer particles, pass particles[:n]."
        )
    num_particles, num_steps = checked_count("num_particles", num_particles), checked_count("num_steps", num_steps)
    record_every = checked_count("record_every", record_every)
    make_room()
    with contextlib.ExitStack() as stack:
        interruption = stack.enter_context(Interruption(by_sigterm=checkpoint is not None))
        prior_key, init_key, run_key, data_key = split_key(as_key(key), 4)
        given = particles is not None
        flat, start = (
            flatten(target, particles)
            if particles is not None
            else from_prior(target, num_particles or default_num_particles(target), key=prior_key)
        )
        method = default_method(flat, start) if method is None else method
        limits = (num_steps, num_steps) if num_steps else default_limits(method)
        record_every = record_every or max(1, limits[0] // _RECORDS)
        plan = Plan(method, flat, record, as_array(np.int32(limits[0])), run_key, data_key)
        identity = (
            {}
            if checkpoint is None
            else {
                "target": fingerprint(target),
                **identity_of(method, start if given else None, size=start.shape, limits=limits, key=run_key),
                "record": f"{', '.join(record) or 'nothing'} every {record_every} steps",
                "function to record": fingerprint(record),
            }
        )

        stack.enter_context(sharding.use(mesh))
        stack.enter_context(sharding.lost_contact_explained(resumable=checkpoint is not None))
        folder = stack.enter_context(CheckpointFolder(checkpoint, identity))
        feed = stack.enter_context(Feed(target.data, key=data_key))
        run = Run(plan)
        anchoring = Anchoring(run, flat, num_particles=len(start), num_steps=limits[0], key=data_key)
        snapshot = Snapshot(run.init(start, limits[0], init_key), anchoring.start(start))
        interruption.check()
        example = feed.example(snapshot.anchor)
        restored = folder.restore(snapshot.like(run.records(snapshot.state, example, snapshot.anchor)))
        snapshot = snapshot if restored is None else Snapshot.of(restored)
        # A finished run takes its last scores from its last batch.
        feed.seek(max(0, snapshot.step - 1), snapshot.anchor)
        check_memory(run.step_memory(snapshot.state, feed.block, snapshot.anchor), _remedies(target.data, len(start)))
        interruption.check()
        if restored is None:
            _check_start(run, plan, snapshot, feed, len(start))
            interruption.check()
        shown = progress and jax.process_index() == 0
        bar = tqdm(total=limits[0], initial=snapshot.step, unit="step", disable=not shown)
        stack.enter_context(bar)

        def run_to(num_steps: int, run: Run = run) -> Result:
            bar.total = num_steps
            try:
                loop = run, snapshot, feed, anchoring, folder, bar, interruption
                outcome = _loop(*loop, num_steps, record_every, stop)
            except KeyboardInterrupt:  # of a rule, or of somebody else's signal handler
                if interruption.requested or snapshot.step == 0 or jax.process_count() > 1:
                    raise
                outcome = Outcome.INTERRUPTED
            folder.save(snapshot)
            state = sharding.bring_home(snapshot.state)
            end = method.settle(flat, state)
            last = sharding.replicate(end.state)
            snapshot.anchored = anchoring.updated(snapshot.anchored, last, max(0, snapshot.step - 1), feed.block)
            final = run.final(last, snapshot.step, feed.block, snapshot.anchor)
            if interruption.requested:  # also after the last step: who runs several fits asks each how it ended
                outcome = Outcome.INTERRUPTED
            ending = ending_of(outcome, final, step=snapshot.step, num_steps=num_steps, stop=stop)
            return _result(method, final, state, end, snapshot, ending, target)

        if snapshot.step <= limits[0]:
            result = run_to(limits[0])
            if limits[-1] == limits[0] or not should_go_on(result):
                return result
            # From where the particles are, before they settled: there they are draws.
            particles = method.draws(flat, snapshot.state, key=init_key).particles
            snapshot.state = run.init(particles, limits[-1], split_key(init_key, 2)[1])
        return run_to(limits[-1], Run(dataclasses.replace(plan, num_steps=as_array(np.int32(limits[-1])))))


def should_go_on(result: Result) -> bool:
    """Say whether exploring particles are advised to take more steps, or are nowhere yet."""
    if result.outcome is not Outcome.STEP_LIMIT or "trajectory" not in result.info:
        return False
    return result.verdict.level == "bad" or Remedy.MORE_STEPS in result.verdict.remedies


def _loop(run, snapshot, feed, anchoring, folder, bar, interruption, num_steps, record_every, stop) -> Outcome:
    """Take the snapshot through its steps, a compiled chunk at a time, and say how it ended."""
    chunk, interrupted = 1, False
    outcome = _judged(snapshot.history, stop)  # where the run was saved, its rule may have been another
    if outcome is None and 0 < snapshot.step < num_steps and snapshot.step % record_every == 0:
        outcome = Outcome.SETTLED if run.done(snapshot.state) else None
    while outcome is None:
        step = snapshot.step
        if step == num_steps:
            return Outcome.STEP_LIMIT
        if interrupted:
            return Outcome.INTERRUPTED
        with _nothing_lost(snapshot, folder):
            if not feed.seek(step, snapshot.anchor):
                return Outcome.DATA_ENDED
            if step == anchoring.next_step(snapshot.anchored):
                snapshot.anchored = anchoring.updated(snapshot.anchored, snapshot.state, step, feed.block)
                feed.seek(step, snapshot.anchor)  # the next batches may be drawn otherwise
            _refuse_odd_batches(run, snapshot, feed)
        next_record = min(num_steps, (step // record_every + 1) * record_every)
        next_look = anchoring.next_step(snapshot.anchored)
        goal = int(min(next_record, next_look, step + chunk, feed.stop, folder.next_step(step)))
        clock = time.perf_counter()
        snapshot.state = run.advance(snapshot.state, step, goal, feed.block, snapshot.anchor)
        snapshot.step = goal
        seconds = time.perf_counter() - clock
        bar.update(goal - step)
        if goal == next_record:
            _watch(run, snapshot, feed, bar)
            outcome = _judged(snapshot.history, stop)
            if outcome is None and goal < num_steps and run.done(snapshot.state):
                outcome = Outcome.SETTLED
        seconds, due, interrupted = sharding.agree(seconds, folder.due(goal), interruption.requested)
        snapshot.seconds += seconds
        chunk = next_chunk(chunk, goal - step, seconds)
        if due and goal < num_steps and outcome is None:
            folder.save(snapshot)
    return outcome


def _refuse_odd_batches(run, snapshot, feed) -> None:
    """Look at batches with NaN of a stream that cannot be read again: with such scores a step would be lost."""
    for step in [step for step in feed.odd if step >= snapshot.step]:
        finite = feed.odd.pop(step)
        if run.watch(snapshot.state, step + 1, feed.block, snapshot.anchor)["finite"] == 0:
            refuse_batch(step, finite)


@contextlib.contextmanager
def _nothing_lost(snapshot: Snapshot, folder: CheckpointFolder) -> Iterator[None]:
    """Save the run where its data cannot be read, and say so: a file, a network or a user's stream may fail."""
    try:
        yield
    except Exception as error:
        if jax.process_count() == 1:  # else the others would have to save as well, and they wait
            folder.save(snapshot)
            saved = "With fit(..., checkpoint='folder') a run is saved, and goes on when it is started again."
            if folder.checkpoint is not None:
                saved = f"The run is saved in {folder.checkpoint.folder}: started again, it goes on from there."
            error.add_note(f"This was before step {snapshot.step}, when data were read. {saved}")
        raise


def _watch(run, snapshot, feed, bar) -> None:
    """Add a record to the history."""
    metrics = run.watch(snapshot.state, snapshot.step, feed.block, snapshot.anchor)
    for name, value in {"step": np.asarray(snapshot.step), **metrics}.items():
        snapshot.history.setdefault(name, []).append(value)
    bar.set_postfix(ksd=f"{metrics['ksd']:.2g}", dispersion=f"{metrics['dispersion']:.2f}", refresh=False)


def _judged(history: Mapping[str, list], stop: Stop | None) -> Outcome | None:
    """Return how the run ends by what the history says; None if it goes on."""
    if not history:
        return None
    if history["finite"][-1] == 0:
        return Outcome.NON_FINITE
    return Outcome.STOPPED if stop is not None and stop(history) else None


def next_chunk(chunk: int, steps_done: int, seconds: float) -> int:
    """Double the chunk while it is quick, shrink it when it is slow; a cut chunk says nothing about speed."""
    if seconds > _CHUNK_SECONDS:
        return max(1, chunk // 2)
    return chunk * 2 if steps_done == chunk else chunk


def _check_start(run, plan: Plan, snapshot: Snapshot, feed: Feed, num_particles: int) -> None:
    final = run.final(snapshot.state, 0, feed.block, snapshot.anchor)
    if not np.any(np.asarray(final.finite)):
        refuse_rows(plan.target.data, key=plan.data_key)
        _refuse_odd_batches(run, snapshot, feed)
        known = plan.target.knows_log_density
        which = "log density" if known and not np.any(np.isfinite(final.log_densities)) else "score"
        raise ValueError(
            f"The {which} is not finite at any of the {num_particles} starting particles. Start where the density is "
            "positive and finite, and write it with log-space functions (jax.nn.log_sigmoid, xlogy, ...)."
        )


def _remedies(data: Data | None, num_particles: int) -> list[str]:
    """Return the arguments that bring memory down."""
    remedies = [f"fewer particles (num_particles, now {num_particles})", "more hosts (mesh)"]
    if data is None:
        return remedies
    rows = f"all {data.num_rows} rows" if data.batch_size is None else str(data.batch_size)
    return [f"a smaller batch_size of the posterior (now {rows})", *remedies]


def _result(method, final: View, state, end: Settled, snapshot: Snapshot, ending: Ending, target: Target) -> Result:
    history = snapshot.history.items()
    return Result(
        particles=final.user,
        weights=final.draws.weights,
        history={name: jax.tree.map(lambda *leaves: np.stack(leaves), *values) for name, values in history},
        ending=ending,
        unconstrained=final.draws.particles,
        scores=final.scores,
        log_densities=final.log_densities,
        num_chains=final.draws.num_chains,
        target=target,
        state=state,
        states=end.states,
        info={
            "method": type(method).__name__,
            "num_steps": snapshot.step,
            **gradients_of(method, len(final.draws.particles), snapshot.step),
            "seconds": round(snapshot.seconds, 3),
            "versions": versions(),
            **_noise(final, snapshot.step, snapshot.anchored),
            **{name: np.asarray(value).item() for name, value in final.draws.metrics.items()},
            **end.findings,
            **judged_by_predictions(target, final.user, final.draws.num_chains),
        },
    )


def gradients_of(method: Method, num_particles: int, num_steps: int) -> dict[str, int]:
    """Return what a run cost, for `result.info`, where its method counts."""
    gradients = method.num_gradients(num_particles, num_steps)
    return {} if gradients is None else {"gradients": gradients}


def _noise(final: View, step: int, anchored: Anchored | None) -> dict[str, Any]:
    """Return what minibatches do to the mean, in sds: what is left after so many steps, and in final scores."""
    if final.noise is None:
        return {}
    one = float(final.noise)
    return {
        "batch_noise": one / max(step, 1) ** 0.5,
        "score_noise": one / max(final.num_batches, 1) ** 0.5,
        "passes": 0.0 if anchored is None else round(float(anchored.passes), 2),
    }
