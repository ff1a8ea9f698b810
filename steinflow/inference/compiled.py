"""What a run computes, compiled: its steps, what is watched on the way, and the posterior at the end."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.methods.base import Draws, Method, Time
from steinflow.results.diagnostics import dispersion_of, mean_error
from steinflow.stein.discrepancy import ksd_squared
from steinflow.stein.kernels import IMQ
from steinflow.targets.feed import Block
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, PyTree, Scores

_FINAL_BATCHES = 32  # what the final scores are averaged over
_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap

Record = Mapping[str, Callable[[Params], PyTree]]


class Final(eqx.Module):
    """The posterior that a state represents, with its scores: zero where they or the densities are not finite."""

    draws: Draws
    user: Params
    log_densities: Array
    scores: Scores
    finite: Array
    dispersion: Array

    def cut(self) -> "Final":
        """Return the rows that are draws, without those of a buffer that is not full yet."""
        draws = self.draws
        if draws.count is None or int(draws.count) * draws.num_chains == len(draws.particles):
            return self
        rows = np.arange(len(draws.particles)).reshape(draws.num_chains, -1)[:, : int(draws.count)].ravel()

        def taken(leaf):
            return jnp.asarray(np.asarray(leaf)[rows])  # NumPy's indexing, which is not compiled

        weights = None if draws.weights is None else taken(_normalised(np.where(_is_draw(draws), draws.weights, 0)))
        draws = Draws(taken(draws.particles), weights, num_chains=draws.num_chains, metrics=draws.metrics)
        return Final(
            draws,
            user=jax.tree.map(taken, self.user),
            log_densities=taken(self.log_densities),
            scores=taken(self.scores),
            finite=taken(self.finite),
            dispersion=self.dispersion,
        )


class Plan(eqx.Module):
    """Everything that does not change from step to step."""

    method: Method
    target: FlatTarget
    record: dict[str, Callable]
    num_steps: Array
    key: PRNGKeyArray
    data_key: PRNGKeyArray

    def placed(self) -> "Plan":
        """Return the plan with its arrays on the current mesh."""
        return eqx.tree_at(lambda plan: plan.target, sharding.replicate(self), self.target.placed())

    def batch(self, step, block: Block | None):
        """Return what a step sees of the data."""
        return self.target.minibatch(self.data_key, step) if block is None else block.batch(step)

    def last_batch(self, step, block: Block | None):
        """Return what the last step before this one saw."""
        return self.batch(jnp.maximum(step - 1, 0), block)


class Run:
    """A plan on the current mesh, compiled."""

    def __init__(self, plan: Plan):
        self._parts = _split(plan.placed())

    def init(self, particles: Particles, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state to start from."""
        return _init(*self._parts, num_steps, *sharding.replicate((particles, key)))

    def advance(self, state, start: int, stop: int, block: Block | None) -> Any:
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        return _finished(_advance(*self._parts, state, _number(start), _number(stop), block))

    def watch(self, state, step: int, block: Block | None) -> dict[str, PyTree]:
        """Return what the history records now."""
        return jax.tree.map(np.asarray, _finished(_watch(*self._parts, state, _number(step), block)))

    def final(self, state, step: int, block: Block | None) -> Final:
        """Return the posterior after `step` steps."""
        final = _finished(_final(*self._parts, state, _number(step), block))
        return sharding.bring_home(final).cut()

    def step_memory(self, state, block: Block | None) -> int:
        """Return the bytes that compiled steps take beside their arguments, over all devices of this process."""
        compiled = _advance.lower(*self._parts, state, _number(0), _number(0), block).compile()
        statistics = compiled.memory_analysis()
        if statistics is None:  # a backend that does not say
            return 0
        devices = jax.local_device_count() if sharding.axis_size(sharding.PARTICLES) > 1 else 1
        return devices * (statistics.temp_size_in_bytes + statistics.output_size_in_bytes)

    def records(self, state, block: Block | None) -> dict[str, PyTree]:
        """Return the shapes of what the history records."""
        return _watch.eval_shape(*self._parts, state, _number(0), block)


class _Rest:
    """All of a plan that is not an array, as a constant of compiled functions.

    Its hash is taken once. `eqx.filter_jit` splits and hashes at every call, a millisecond, ten steps of a small run.
    """

    def __init__(self, tree: PyTree):
        leaves, structure = jax.tree.flatten(tree)
        self._identity = (structure, tuple(leaves))
        self._hash = hash(self._identity)
        self.tree = tree

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, _Rest) and self._identity == other._identity)


def _split(plan: Plan) -> tuple[_Rest, Plan]:
    arrays, rest = eqx.partition(plan, eqx.is_array)
    return _Rest(rest), arrays


def _finished(results: PyTree) -> PyTree:
    """Wait for the device, also when a KeyboardInterrupt comes meanwhile: no computation outlives its call."""
    try:
        return jax.block_until_ready(results)
    except KeyboardInterrupt:
        jax.block_until_ready(results)
        raise


def _compiled(function, *, static: tuple[int, ...] = ()):
    """Compile a function of a plan and arrays; it is called with the two parts of the plan."""

    @functools.wraps(function)
    def joined(rest, arrays, *arguments):
        return function(eqx.combine(rest.tree, arrays), *arguments)

    return jax.jit(joined, static_argnums=(0, *static))


@functools.partial(_compiled, static=(2,))  # num_steps may size buffers
def _init(plan, num_steps, particles, key):
    return sharding.same_everywhere(plan.method.init(plan.target, particles, num_steps=num_steps, key=key))


@_compiled
def _advance(plan, state, start, stop, block):
    def body(step, state):
        batch, key = plan.batch(step, block), jax.random.fold_in(plan.key, step)
        state = plan.method.step(plan.target, state, batch, time=Time(step, plan.num_steps), key=key)
        return sharding.same_everywhere(state)

    # Also at the end: what a loop hands on, the compiler may split as it likes.
    return sharding.same_everywhere(jax.lax.fori_loop(start, stop, body, state))


@_compiled
def _watch(plan, state, step, block):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    stride = -(-len(draws.particles) // _KSD_PARTICLES)
    points, drawn, weights = draws.particles[::stride], _is_draw(draws)[::stride], _weights(draws, stride)
    log_densities, scores = plan.target.log_densities_and_scores(points, plan.last_batch(step, block))
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    user = plan.target.to_user(draws.particles)
    dispersion = dispersion_of(points, scores, weights)
    metrics = {
        "ksd": jnp.sqrt(ksd_squared(points, scores, IMQ(), weights=weights)),
        "dispersion": jnp.median(dispersion),
        "dispersion_error": jnp.max(jnp.abs(dispersion - 1)),
        "mean_error": mean_error(points, scores, weights),
        "finite": jnp.sum(finite & drawn) / jnp.sum(drawn),
        **({} if weights is None else {"weights": _weights(draws)}),
        **{name: function(user) for name, function in plan.record.items()},
    }
    return sharding.same_everywhere(metrics)


@_compiled
def _final(plan, state, step, block):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    log_densities, scores = _evaluate(plan, draws.particles, step, block)
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    dispersion = dispersion_of(draws.particles, scores, _weights(draws))
    user = plan.target.to_user(draws.particles)
    return sharding.same_everywhere(Final(draws, user, log_densities, scores, finite, dispersion))


def _evaluate(plan, particles, step, block):
    """Return log densities and scores: of minibatches at hand those that come next, so that verdicts see less noise."""
    if block is not None or plan.target.minibatch(plan.data_key, step) is None:
        return plan.target.log_densities_and_scores(particles, plan.last_batch(step, block))
    values = jax.lax.map(
        lambda step: plan.target.log_densities_and_scores(particles, plan.batch(step, None)),
        step + jnp.arange(_FINAL_BATCHES, dtype=step.dtype),
    )
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), values)


def _is_draw(draws: Draws) -> Array | np.ndarray:
    """Say of every row whether it is a draw, and not the rest of a buffer."""
    rows = np.arange(len(draws.particles), dtype=np.int32) % (len(draws.particles) // draws.num_chains)
    return np.ones(len(rows), bool) if draws.count is None else rows < draws.count


def _weights(draws: Draws, stride: int = 1) -> Array | None:
    """Return the weights of every so many rows, zero where they are no draws; None where all are equal."""
    if draws.weights is None and draws.count is None:
        return None
    weights = jnp.ones(len(draws.particles), draws.particles.dtype) if draws.weights is None else draws.weights
    return _normalised(jnp.where(_is_draw(draws), weights, 0.0)[::stride])


def _normalised(weights):
    return weights / weights.sum()


def _number(step: int) -> np.ndarray:
    # NumPy's, because with many processes an array of JAX's would live on a device of one of them.
    return np.asarray(step, np.int32)
