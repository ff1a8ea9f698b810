"""What a run computes, compiled: its steps, what is watched on the way, and the posterior at the end."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.methods.base import Draws, Method
from steinflow.results.diagnostics import dispersion_of, mean_error
from steinflow.stein.kernels import IMQ
from steinflow.stein.operators import ksd_squared
from steinflow.targets.base import Posterior
from steinflow.targets.flat import FlatTarget
from steinflow.targets.streams import Block
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, PyTree, Scores

_FINAL_BATCHES = 32  # what the final figures are averaged over
_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap

Record = Mapping[str, Callable[[Params], PyTree]]


class Final(eqx.Module):
    """The posterior that a state stands for, with its scores: zero where they or the densities are not finite."""

    draws: Draws
    user: Params
    log_densities: Array
    scores: Scores
    finite: Array
    dispersion: Array


class Plan(eqx.Module):
    """Everything that does not change from step to step."""

    method: Method
    target: FlatTarget
    record: dict[str, Callable]
    key: PRNGKeyArray
    data_key: PRNGKeyArray

    def placed(self) -> "Plan":
        """Return the plan with its arrays on the current mesh."""
        plan, target = sharding.replicate(self), self.target.target
        if not isinstance(target, Posterior) or target.batch_size is not None or target.host_data is not None:
            return plan
        return eqx.tree_at(lambda plan: plan.target.target.data, plan, sharding.place_rows(target.data))

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
        return _init(*self._parts, *sharding.replicate((particles, jnp.asarray(num_steps), key)))

    def advance(self, state, start: int, stop: int, block: Block | None) -> Any:
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        return _advance(*self._parts, state, _number(start), _number(stop), block)

    def watch(self, state, step: int, block: Block | None) -> dict[str, PyTree]:
        """Return what the history records now."""
        return jax.tree.map(np.asarray, _watch(*self._parts, state, _number(step), block))

    def final(self, state, step: int, block: Block | None) -> Final:
        """Return the posterior after `step` steps."""
        return sharding.bring_home(_final(*self._parts, state, _number(step), block))

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


def _compiled(function):
    """Compile a function of a plan and arrays; it is called with the two parts of the plan."""

    @functools.wraps(function)
    def joined(rest, arrays, *arguments):
        return function(eqx.combine(rest.tree, arrays), *arguments)

    return jax.jit(joined, static_argnums=0)


@_compiled
def _init(plan, particles, num_steps, key):
    return sharding.same_everywhere(plan.method.init(plan.target, particles, num_steps=num_steps, key=key))


@_compiled
def _advance(plan, state, start, stop, block):
    def body(step, state):
        batch = plan.batch(step, block)
        state = plan.method.step(plan.target, state, batch, key=jax.random.fold_in(plan.key, step))
        return sharding.same_everywhere(state)

    # Also at the end: what a loop hands on, the compiler may split as it likes.
    return sharding.same_everywhere(jax.lax.fori_loop(start, stop, body, state))


@_compiled
def _watch(plan, state, step, block):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    stride = -(-len(draws.particles) // _KSD_PARTICLES)
    points = draws.particles[::stride]
    weights = draws.weights if draws.weights is None else _normalised(draws.weights[::stride])
    log_densities, scores = plan.target.log_densities_and_scores(points, plan.last_batch(step, block))
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    user = plan.target.to_user(draws.particles)
    dispersion = dispersion_of(points, scores, weights)
    figures = {
        "ksd": jnp.sqrt(ksd_squared(points, scores, IMQ(), weights=weights)),
        "dispersion": jnp.median(dispersion),
        "dispersion_error": jnp.max(jnp.abs(dispersion - 1)),
        "mean_error": mean_error(points, scores, weights),
        "finite": jnp.mean(finite),
        **({} if draws.weights is None else {"weights": draws.weights}),
        **{name: function(user) for name, function in plan.record.items()},
    }
    return sharding.same_everywhere(figures)


@_compiled
def _final(plan, state, step, block):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    log_densities, scores = _evaluate(plan, draws.particles, step, block)
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    dispersion = dispersion_of(draws.particles, scores, draws.weights)
    user = plan.target.to_user(draws.particles)
    return sharding.same_everywhere(Final(draws, user, log_densities, scores, finite, dispersion))


def _evaluate(plan, particles, step, block):
    """Return log densities and scores: of minibatches at hand those that come next, so that verdicts see less noise."""
    if block is not None or plan.target.minibatch(plan.data_key, step) is None:
        return plan.target.log_densities_and_scores(particles, plan.last_batch(step, block))
    values = jax.lax.map(
        lambda step: plan.target.log_densities_and_scores(particles, plan.batch(step, None)),
        step + jnp.arange(_FINAL_BATCHES),
    )
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), values)


def _normalised(weights):
    return weights / jnp.sum(weights)


def _number(step: int) -> np.ndarray:
    # NumPy's, because with many processes an array of JAX's would live on a device of one of them.
    return np.asarray(step, np.int32)
