"""The only loop: it runs any method on any target in compiled chunks, watches, records, and says how it ended."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from steinflow.devices import sharding
from steinflow.inference.checkpoints import Checkpoint, CheckpointFolder, Snapshot
from steinflow.inference.compiled import Plan, Record, Run
from steinflow.inference.fingerprints import fingerprint
from steinflow.inference.memory import check_memory
from steinflow.inference.stopping import StoppingRule
from steinflow.methods.base import Method
from steinflow.methods.svgd.method import SVGD
from steinflow.results.diagnostics import as_key
from steinflow.results.result import Outcome, Result
from steinflow.results.verdict import has_collapsed
from steinflow.targets.base import Target, as_target
from steinflow.targets.flat import flatten
from steinflow.targets.streams import Feed
from steinflow.typing import Params, PRNGKeyArray, Scalar

_RECORDS = 50  # of a run, unless the user says otherwise
_CHUNK_SECONDS = 0.5  # Ctrl-C and the progress bar wait for a chunk at most
# What the collectives of CPUs and GPUs, and the coordination service, say when a process is gone.
_LOST_CONTACT = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "heartbeat", "Barrier", "Connection")
_UNFINISHED = ("running", "interrupted", "data ended")


def fit(
    target: Target | Callable[[Params], Scalar],
    method: Method | None = None,
    *,
    particles: Params | None = None,
    num_particles: int = 100,
    num_steps: int = 1000,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
    record: Record | None = None,
    record_every: int | None = None,
    stop: StoppingRule | Callable[[Mapping], bool] | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    mesh: Mesh | None = None,
) -> Result:
    """Turn a log density into a posterior.

    The same key gives the same result, whatever is watched or recorded. Ctrl-C returns what there is so far.

    Args:
        target: a function that takes ONE particle (an array or any pytree) to its log density, or a `Target`.
        method: how to infer; by default `sf.SVGD()`, which needs no tuning, or for networks `sf.SVGD.for_networks()`.
        particles: starting points, with a leading axis; drawn from the target's prior if not given.
        num_steps: how many steps at most.
        key: an int or a JAX key.
        num_particles: how many to draw from the prior.
        progress: show a bar with the rate, KSD and dispersion.
        record: functions of all particles (in the user's structure) to record by name, such as `{"x": lambda x: x}`.
        record_every: steps between records; by default there are about 50.
        stop: a rule that ends the run early, such as `sf.Converged()`: a function of the history, to which `fraction`,
            the part of the run that was done at each record, is added.
        checkpoint: a folder, or `sf.Checkpoint(folder, ...)`. The run is saved there on its way; the same call goes on
            from the last checkpoint, bit for bit.
        mesh: devices to share the work, as `sf.mesh()`.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        x0 = 5 + jax.random.normal(jax.random.key(0), (100, 2))
        result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), particles=x0, num_steps=500, key=1)
        ```
    """
    target = as_target(target)
    method = SVGD.default_for(target) if method is None else method
    if not isinstance(method, Method):
        raise TypeError(f"method is an inference method such as sf.SVGD(); got {method!r}.")
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1; got {num_steps}.")
    if record_every is not None and record_every < 1:
        raise ValueError(f"record_every must be at least 1; got {record_every}.")
    prior_key, init_key, run_key, data_key = _four_keys(as_key(key))
    if particles is None:
        particles = jax.vmap(target.sample_prior)(jax.random.split(prior_key, num_particles))
    flat, start = flatten(target, particles)
    record_every = record_every or max(1, num_steps // _RECORDS)
    plan = Plan(method, flat, dict(record or {}), run_key, data_key)
    identity = {} if checkpoint is None else _identity(plan, start, num_steps, record_every)

    with contextlib.ExitStack() as stack:
        stack.enter_context(sharding.use(mesh))
        stack.enter_context(_lost_contact_explained(checkpoint))
        folder = stack.enter_context(CheckpointFolder(checkpoint, identity))
        feed = stack.enter_context(Feed(target.host_data, getattr(target, "batch_size", None), key=data_key))
        run = Run(plan)
        snapshot = Snapshot(run.init(start, num_steps, init_key))
        restored = folder.restore(snapshot.state, run.records(snapshot.state, feed.example()))
        snapshot = snapshot if restored is None else restored
        feed.seek(max(0, snapshot.step - 1))  # a finished run takes its last figures from its last batch
        check_memory(run.step_memory(snapshot.state, feed.block), _remedies(target, len(start)))
        if restored is None:
            _check_start(run, target, snapshot.state, feed.block, len(start))
        bar = tqdm(total=num_steps, initial=snapshot.step, unit="step", disable=not progress or jax.process_index() > 0)
        stack.enter_context(bar)
        stack.enter_context(_terminated_as_interrupted(enabled=checkpoint is not None))
        try:
            _loop(run, snapshot, feed, folder, bar, num_steps, record_every, stop)
        except KeyboardInterrupt:
            snapshot.status = "interrupted"
        if snapshot.status != "interrupted" or jax.process_count() == 1:  # others may not have been interrupted
            folder.save(snapshot)
        final = run.final(snapshot.state, snapshot.step, feed.block)
    return _result(method, final, snapshot, target)


@jax.jit  # in one piece, since unpacking takes as long to compile as splitting
def _four_keys(key):
    return tuple(jax.random.split(key, 4))


def _loop(run, snapshot, feed, folder, bar, num_steps, record_every, stop) -> None:
    """Take the snapshot through its steps, a compiled chunk at a time, until one of the ends is reached."""
    chunk = 1
    while snapshot.status in _UNFINISHED:
        step = snapshot.step
        if step == num_steps:
            snapshot.status = "step limit"
            break
        if not feed.seek(step):
            snapshot.status = "data ended"
            break
        next_record = min(num_steps, (step // record_every + 1) * record_every)
        goal = int(min(next_record, step + chunk, feed.stop, folder.next_step(step)))
        clock = time.perf_counter()
        snapshot.state = jax.block_until_ready(run.advance(snapshot.state, step, goal, feed.block))
        snapshot.step = goal
        seconds, due = sharding.agree(time.perf_counter() - clock, folder.due(goal))
        snapshot.seconds += seconds
        chunk = _next_chunk(chunk, goal - step, seconds)
        bar.update(goal - step)
        if goal == next_record:
            snapshot.status = _watch(run, snapshot, feed, bar, stop, num_steps)
        if due and goal < num_steps and snapshot.status in _UNFINISHED:
            folder.save(snapshot)


def _watch(run, snapshot, feed, bar, stop, num_steps) -> str:
    """Add a record to the history, and say whether the run goes on."""
    figures = run.watch(snapshot.state, snapshot.step, feed.block)
    for name, value in {"step": np.asarray(snapshot.step), **figures}.items():
        snapshot.history.setdefault(name, []).append(value)
    bar.set_postfix(ksd=f"{figures['ksd']:.2g}", dispersion=f"{figures['dispersion']:.2f}", refresh=False)
    if figures["finite"] == 0:
        return "non-finite"
    done = {"fraction": [step / num_steps for step in snapshot.history["step"]]}
    return "converged" if stop is not None and stop({**snapshot.history, **done}) else "running"


def _next_chunk(chunk, steps_done, seconds):
    """Double the chunk while it is quick, shrink it when it is slow; a cut chunk says nothing about speed."""
    if seconds > _CHUNK_SECONDS:
        return max(1, chunk // 2)
    return chunk * 2 if steps_done == chunk else chunk


def _check_start(run, target, state, block, num_particles):
    final = run.final(state, 0, block)
    if not np.any(np.asarray(final.finite)):
        known = target.knows_log_density
        which = "log density" if known and not np.any(np.isfinite(final.log_densities)) else "score"
        raise ValueError(
            f"The {which} is not finite at any of the {num_particles} starting particles. Start where the density is "
            "positive and finite, and write it with log-space functions (jax.nn.log_sigmoid, xlogy, ...)."
        )


def _identity(plan, start, num_steps, record_every) -> dict[str, str]:
    """Say what makes this run the same run when it is started again."""
    return {
        "target": fingerprint(plan.target.target),
        "method": fingerprint(plan.method),
        "particles": f"{len(start)} x {start.shape[1]} {start.dtype}",
        "num_steps": str(num_steps),
        "key": fingerprint(plan.key),
        "record": f"{', '.join(plan.record)} every {record_every} steps",
    }


def _remedies(target, num_particles) -> list[str]:
    """Say which arguments bring memory down."""
    remedies = []
    rows = target.rows(target.batch_shape())
    if rows is not None:
        batch_size = getattr(target, "batch_size", None)
        now = f"all {len(jax.tree.leaves(rows)[0])} rows" if batch_size is None else str(batch_size)
        remedies.append(f"a smaller batch_size of the posterior (now {now})")
    remedies.append(f"fewer particles (num_particles, now {num_particles})")
    return [*remedies, "more hosts (mesh)"]


@contextlib.contextmanager
def _lost_contact_explained(checkpoint):
    """Say what to do when one of several processes is gone."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if jax.process_count() == 1 or not any(word in str(error) for word in _LOST_CONTACT):
            raise
        again = "" if checkpoint is None else ", and it goes on from its last checkpoint"
        raise RuntimeError(
            f"Process {jax.process_index()} of {jax.process_count()} lost contact with the others: one of them was "
            f"killed or failed, see its output. Start the whole job again{again}."
        ) from error


@contextlib.contextmanager
def _terminated_as_interrupted(*, enabled):
    """Treat SIGTERM, which batch systems send some seconds before they kill, as Ctrl-C: save, and return."""
    if not enabled or jax.process_count() > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _result(method, final, snapshot, target) -> Result:
    dispersion, num_lost = np.asarray(final.dispersion), int(np.sum(~np.asarray(final.finite)))
    history = snapshot.history.items()
    return Result(
        particles=final.user,
        weights=final.draws.weights,
        history={name: jax.tree.map(lambda *leaves: np.stack(leaves), *values) for name, values in history},
        outcome=_outcome(snapshot.status, snapshot.step, dispersion, num_lost, len(final.scores)),
        unconstrained=final.draws.particles,
        scores=final.scores,
        log_densities=final.log_densities,
        num_chains=final.draws.num_chains,
        target=target,
        info={
            "method": type(method).__name__,
            "num_steps": snapshot.step,
            "seconds": round(snapshot.seconds, 3),
            "versions": {"jax": jax.__version__},
            **_batch_noise(target, snapshot.step),
            **{name: np.asarray(value).item() for name, value in final.draws.figures.items()},
        },
    )


def _batch_noise(target, step) -> dict[str, float]:
    """Say, where steps see minibatches, how far the mean is uncertain for it: sqrt(N / rows seen) posterior sds."""
    if target.batches_per_epoch is None:
        return {}
    return {"batch_noise": float(np.sqrt(target.batches_per_epoch / max(step, 1)))}


def _outcome(status, step, dispersion, num_lost, num_particles) -> Outcome:
    spread = float(np.median(dispersion))
    if status == "non-finite" or num_lost == num_particles:
        return Outcome(
            "non-finite",
            f"by step {step} log density or score were not finite at any particle. The particles themselves are; take "
            "smaller steps or write the log density with log-space functions.",
        )
    if not np.isfinite(spread):
        return Outcome(
            "non-finite",
            f"after {step} steps particles times scores overflow, so that nothing can be said about the particles. "
            "Bring the parameters to a scale near 1, or use double precision (jax.config.update('jax_enable_x64', "
            "True)).",
        )
    lost = (
        f" {num_lost} of {num_particles} particles stand where log density or score are not finite." if num_lost else ""
    )
    if status == "interrupted":
        return Outcome(
            "interrupted",
            f"stopped at step {step}; continue with fit(..., particles=result.particles), or, with checkpoint=, by "
            f"the same call again.{lost}",
        )
    if status == "data ended":
        return Outcome("interrupted", f"the stream of batches ended at step {step}; give it more epochs.{lost}")
    if has_collapsed(dispersion, num_particles):
        return Outcome(
            "collapsed",
            f"after {step} steps the dispersion is {spread:.2f}: the particles show too little spread; "
            f"result.verdict says what to do.{lost}",
        )
    if status == "converged":
        return Outcome("converged", f"KSD no longer falls and the spread is right after {step} steps.{lost}")
    return Outcome(
        "step limit",
        f"all {step} steps are done, dispersion {spread:.2f}.{lost}",
    )
