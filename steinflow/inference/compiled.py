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
from steinflow.results.diagnostics import WATCHED, watched
from steinflow.targets.feed import Block
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, PyTree, Scores

_FINAL_BATCHES = 32  # what the final scores are averaged over
_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap

Record = Mapping[str, Callable[[Params], PyTree]]


class View(eqx.Module):
    """The posterior that a state represents, with its scores: zero where they or the densities are not finite."""

    draws: Draws
    user: Params
    log_densities: Array
    scores: Scores
    finite: Array
    records: dict[str, PyTree]

    def cut(self) -> "View":
        """Return the rows that are draws, without those of a buffer that is not full yet."""
        draws = self.draws
        if draws.count is None or int(draws.count) * draws.num_chains == len(draws.particles):
            return self
        rows = np.flatnonzero(_is_draw(draws))

        def taken(leaf):
            return jnp.asarray(np.asarray(leaf)[rows])  # NumPy's indexing, which is not compiled

        weights = None if draws.weights is None else taken(_weights(draws))
        return View(
            Draws(taken(draws.particles), weights, num_chains=draws.num_chains, metrics=draws.metrics),
            user=jax.tree.map(taken, self.user),
            log_densities=taken(self.log_densities),
            scores=taken(self.scores),
            finite=taken(self.finite),
            records=self.records,
        )

    def metrics(self) -> dict[str, Array | np.ndarray | np.floating]:
        """Return what is watched in every run."""
        draws, weights = self.draws, _weights(self.draws)
        sample = slice(None, None, -(-len(draws.particles) // _KSD_PARTICLES))
        shares = None if weights is None else _normalised(weights[sample])
        found = watched(draws.particles[sample], self.scores[sample], shares)
        finite = np.mean(np.asarray(self.finite)[_is_draw(draws)])
        return {**found, "finite": finite, **({} if weights is None else {"weights": weights})}


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
        self._parts, self._noisy, self._method = _split(plan.placed()), plan.target.noisy, plan.method

    def init(self, particles: Particles, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state to start from."""
        return _init(*self._parts, num_steps, *sharding.replicate((particles, key)))

    def advance(self, state, start: int, stop: int, block: Block | None) -> Any:
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        return _finished(_advance(*self._parts, state, _number(start), _number(stop), block))

    def done(self, state) -> bool:
        """Say whether more steps would add nothing."""
        return self._method.done(sharding.bring_home(state))

    def watch(self, state, step: int, block: Block | None) -> dict[str, PyTree]:
        """Return what the history records now."""
        view = self._view(_view, state, step, block)
        return jax.tree.map(np.asarray, {**view.metrics(), **view.records})

    def final(self, state, step: int, block: Block | None) -> View:
        """Return the posterior after `step` steps."""
        minibatches = block is None and self._noisy
        return self._view(_averaged_view if minibatches else _view, state, step, block).cut()

    def _view(self, compiled, state, step, block) -> View:
        return sharding.bring_home(_finished(compiled(*self._parts, state, _number(step), block)))

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
        view = _view.eval_shape(*self._parts, state, _number(0), block)
        weights = {} if view.draws.weights is None and view.draws.count is None else {"weights": view.log_densities}
        return {**dict.fromkeys((*WATCHED, "finite"), view.log_densities), **weights, **view.records}


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
    state = plan.method.init(plan.target, particles, num_steps=num_steps, key=key)
    return sharding.same_everywhere(_strongly_typed(state))


def _strongly_typed(state: PyTree) -> PyTree:
    """Return a state whose numbers are of the type that a step leaves them in.

    A number such as `jnp.asarray(0)` is weakly typed, what a loop returns is not, and the types of its arguments are
    part of a compiled function: everything that takes the state would be compiled twice.
    """

    def strong(leaf):
        return jax.lax.convert_element_type(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf

    return jax.tree.map(strong, state)


@_compiled
def _advance(plan, state, start, stop, block):
    def body(step, state):
        batch, key = plan.batch(step, block), jax.random.fold_in(plan.key, step)
        state = plan.method.step(plan.target, state, batch, time=Time(step, plan.num_steps), key=key)
        return sharding.same_everywhere(state)

    # Also at the end: what a loop hands on, the compiler may split as it likes.
    return sharding.same_everywhere(jax.lax.fori_loop(start, stop, body, state))


@_compiled
def _view(plan, state, step, block):
    return _viewed(plan, state, lambda x: plan.target.log_densities_and_scores(x, plan.last_batch(step, block)))


@_compiled
def _averaged_view(plan, state, step, block):
    """Look at several of the minibatches that come next, so that verdicts see less noise."""
    steps = step + jnp.arange(_FINAL_BATCHES, dtype=step.dtype)

    def evaluate(x):
        values = jax.lax.map(lambda step: plan.target.log_densities_and_scores(x, plan.batch(step, block)), steps)
        return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), values)

    return _viewed(plan, state, evaluate)


def _viewed(plan, state, evaluate):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    log_densities, scores = evaluate(draws.particles)
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    user = plan.target.to_user(draws.particles)
    records = {name: function(user) for name, function in plan.record.items()}
    return sharding.same_everywhere(View(draws, user, log_densities, scores, finite, records))


def _is_draw(draws: Draws) -> np.ndarray:
    """Say of every row whether it is a draw, and not the rest of a buffer."""
    rows = np.arange(len(draws.particles)) % (len(draws.particles) // draws.num_chains)
    return np.ones(len(rows), bool) if draws.count is None else rows < int(draws.count)


def _weights(draws: Draws) -> np.ndarray | None:
    """Return the weights of all rows, zero where they are no draws; None where all are equal."""
    if draws.weights is None and draws.count is None:
        return None
    drawn = _is_draw(draws)
    weights = drawn if draws.weights is None else np.where(drawn, np.asarray(draws.weights), 0.0)
    return _normalised(weights.astype(draws.particles.dtype))


def _normalised(weights):
    return weights / weights.sum()


def _number(step: int) -> np.ndarray:
    # NumPy's, because with many processes an array of JAX's would live on a device of one of them.
    return np.asarray(step, np.int32)
