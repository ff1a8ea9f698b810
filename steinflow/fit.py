"""The only loop: it runs any method on any target in compiled chunks, watches, records, and says how it ended."""

import time
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from steinflow.diagnostics import as_key, dispersion_of
from steinflow.kernels import IMQ
from steinflow.methods.base import Draws, Method
from steinflow.methods.svgd import SVGD
from steinflow.result import Outcome, Result
from steinflow.stein import ksd_squared
from steinflow.stopping import StoppingRule
from steinflow.targets import FlatTarget, Target, as_target, flatten
from steinflow.typing import Params, PRNGKeyArray, PyTree, Scalar

_RECORDS = 50  # of a run, unless the user says otherwise
_CHUNK_SECONDS = 0.5  # Ctrl-C and the progress bar wait for a chunk at most
_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap
_COLLAPSED = 0.5  # median dispersion below this: the particles stand for less than half of the spread

Record = Mapping[str, Callable[[Params], PyTree]]


def fit(
    target: Target | Callable[[Params], Scalar],
    method: Method = SVGD(),
    *,
    particles: Params | None = None,
    num_particles: int = 100,
    num_steps: int = 1000,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
    record: Record | None = None,
    record_every: int | None = None,
    stop: StoppingRule | Callable[[Mapping], bool] | None = None,
) -> Result:
    """Turn a log density into a posterior.

    The same key gives the same result, whatever is watched or recorded. Ctrl-C returns what there is so far.

    Args:
        target: a function that takes ONE particle (an array or any pytree) to its log density, or a `Target`.
        method: how to infer; SVGD with the settings that measure best without tuning.
        particles: starting points, with a leading axis; drawn from the target's prior if not given.
        num_steps: how many steps at most.
        key: an int or a JAX key.
        num_particles: how many to draw from the prior.
        progress: show a bar with the rate, KSD and dispersion.
        record: functions of all particles (in the user's structure) to record by name, such as `{"x": lambda x: x}`.
        record_every: steps between records; by default there are about 50.
        stop: a rule that ends the run early, such as `sf.Converged()`.

    Example:
        ```python
        import jax, jax.numpy as jnp, steinflow as sf

        x0 = 5 + jax.random.normal(jax.random.key(0), (100, 2))
        result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), particles=x0, num_steps=500, key=1)
        ```
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1; got {num_steps}.")
    if record_every is not None and record_every < 1:
        raise ValueError(f"record_every must be at least 1; got {record_every}.")
    target = as_target(target)
    prior_key, init_key, run_key, data_key = jax.random.split(as_key(key), 4)
    if particles is None:
        particles = jax.vmap(target.sample_prior)(jax.random.split(prior_key, num_particles))
    flat, start = flatten(target, particles)
    run = _Run(method, flat, dict(record or {}), run_key, data_key)
    state = _init(run, start, jnp.asarray(num_steps), init_key)
    _check_start(run, state, len(start))

    record_every = record_every or max(1, num_steps // _RECORDS)
    history: dict[str, list] = {}
    status, step, chunk, started = "step limit", 0, 1, time.perf_counter()
    with tqdm(total=num_steps, unit="step", disable=not progress) as bar:
        try:
            while step < num_steps:
                next_record = min(num_steps, (step // record_every + 1) * record_every)
                goal = min(next_record, step + chunk)
                clock = time.perf_counter()
                state = jax.block_until_ready(run.advance(state, step, goal))
                seconds = time.perf_counter() - clock
                bar.update(goal - step)
                step, chunk = goal, _next_chunk(chunk, goal - step, seconds)
                if step < next_record:
                    continue
                figures = run.watch(state, step)
                for name, value in {"step": np.asarray(step), **figures}.items():
                    history.setdefault(name, []).append(value)
                bar.set_postfix(
                    ksd=f"{figures['ksd']:.2g}",
                    dispersion=f"{figures['dispersion']:.2f}",
                    refresh=False,
                )
                if figures["finite"] == 0:
                    status = "non-finite"
                    break
                if stop is not None and stop(history):
                    status = "converged"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
    return _result(run, state, step, status, history, time.perf_counter() - started)


class _Run(eqx.Module):
    """Everything that does not change from step to step."""

    method: Method
    target: FlatTarget
    record: dict[str, Callable]
    key: PRNGKeyArray
    data_key: PRNGKeyArray

    def advance(self, state, start: int, stop: int):
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        return _advance(self, state, jnp.asarray(start), jnp.asarray(stop))

    def draws(self, state) -> Draws:
        return self.method.draws(self.target, state, key=self.key)

    def watch(self, state, step: int) -> dict[str, np.ndarray]:
        """Return what the history records now."""
        return jax.tree.map(np.asarray, _watch(self, state, jnp.asarray(step)))


@eqx.filter_jit
def _init(run, particles, num_steps, key):
    return run.method.init(run.target, particles, num_steps=num_steps, key=key)


@eqx.filter_jit
def _advance(run, state, start, stop):
    def body(step, state):
        batch = run.target.minibatch(run.data_key, step)
        return run.method.step(run.target, state, batch, key=jax.random.fold_in(run.key, step))

    return jax.lax.fori_loop(start, stop, body, state)


@eqx.filter_jit
def _watch(run, state, step):
    draws = run.draws(state)
    stride = -(-len(draws.particles) // _KSD_PARTICLES)
    points = draws.particles[::stride]
    weights = draws.weights if draws.weights is None else _normalised(draws.weights[::stride])
    batch = run.target.minibatch(run.data_key, step)
    scores = run.target.scores(points, batch)
    finite = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
    scores = jnp.where(finite, scores, 0.0)
    user = run.target.to_user(draws.particles)
    return {
        "ksd": jnp.sqrt(ksd_squared(points, scores, IMQ().adapt(points), weights=weights)),
        "dispersion": jnp.median(dispersion_of(points, scores, weights)),
        "finite": jnp.mean(finite),
        **{name: function(user) for name, function in run.record.items()},
    }


@eqx.filter_jit
def _final(run, state, step):
    draws = run.draws(state)
    batch = run.target.minibatch(run.data_key, step)
    return (
        draws,
        run.target.to_user(draws.particles),
        *run.target.log_densities_and_scores(draws.particles, batch),
    )


def _normalised(weights):
    return weights / jnp.sum(weights)


def _next_chunk(chunk, steps_done, seconds):
    """Double the chunk while it is quick, shrink it when it is slow; a cut chunk says nothing about speed."""
    if seconds > _CHUNK_SECONDS:
        return max(1, chunk // 2)
    return chunk * 2 if steps_done == chunk else chunk


def _check_start(run, state, num_particles):
    _, _, log_densities, scores = _final(run, state, jnp.asarray(0))
    finite = jnp.isfinite(log_densities) & jnp.all(jnp.isfinite(scores), axis=1)
    if not jnp.any(finite):
        which = "log density" if not jnp.any(jnp.isfinite(log_densities)) else "score"
        raise ValueError(
            f"The {which} is not finite at any of the {num_particles} starting particles. Start where the density is "
            "positive and finite, and write it with log-space functions (jax.nn.log_sigmoid, jax.scipy.special.xlogy, "
            "...)."
        )


def _result(run, state, step, status, history, seconds) -> Result:
    draws, user, log_densities, scores = _final(run, state, jnp.asarray(step))
    finite = jnp.all(jnp.isfinite(scores), axis=1)
    scores = jnp.where(finite[:, None], scores, 0.0)
    spread = float(jnp.median(dispersion_of(draws.particles, scores, draws.weights)))
    stacked = {name: jax.tree.map(lambda *leaves: np.stack(leaves), *values) for name, values in history.items()}
    return Result(
        particles=user,
        weights=draws.weights,
        history=stacked,
        outcome=_outcome(status, step, spread, int(jnp.sum(~finite)), len(scores)),
        unconstrained=draws.particles,
        scores=scores,
        log_densities=log_densities,
        num_chains=draws.num_chains,
        target=run.target.target,
        info={
            "method": type(run.method).__name__,
            "num_steps": step,
            "seconds": round(seconds, 3),
            "versions": {"jax": jax.__version__},
        },
    )


def _outcome(status, step, spread, num_lost, num_particles) -> Outcome:
    if status == "non-finite" or num_lost == num_particles:
        return Outcome(
            "non-finite",
            f"by step {step} the score was not finite at any particle. These are the last finite particles; take "
            "smaller steps or write the log density with log-space functions.",
        )
    lost = f" {num_lost} of {num_particles} particles stand where the score is not finite." if num_lost else ""
    if status == "interrupted":
        return Outcome(
            "interrupted",
            f"stopped at step {step}; continue with fit(..., particles=result.particles).{lost}",
        )
    if num_particles > 1 and spread < _COLLAPSED:
        return Outcome(
            "collapsed",
            f"after {step} steps the dispersion is {spread:.2f}: the particles show too little spread. Use more "
            f"particles or the default sf.SVGD(), whose kernel reaches further.{lost}",
        )
    if status == "converged":
        return Outcome("converged", f"KSD no longer falls and the spread is right after {step} steps.{lost}")
    return Outcome(
        "step limit",
        f"all {step} steps are done, dispersion {spread:.2f}; look at the history of KSD to see whether more would "
        f"help.{lost}",
    )
