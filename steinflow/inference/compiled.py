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
from steinflow.methods.svgd.metrics import Cloud
from steinflow.results.diagnostics import WATCHED, dispersion_of, watched
from steinflow.targets.anchors import Anchor, Minibatch
from steinflow.targets.feed import Block
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Params, Particles, Point, PRNGKeyArray, PyTree, Scalar, Scores

_FINAL_BATCHES = 32  # what the final scores are averaged over
_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap

_NOISE = ("noise", "dispersion_noise")  # watched too where steps see minibatches

Record = Mapping[str, Callable[[Params], PyTree]]


class View(eqx.Module):
    """The posterior that a state represents, with its scores: zero where they or the densities are not finite."""

    draws: Draws
    user: Params
    log_densities: Array
    scores: Scores
    finite: Array
    records: dict[str, PyTree]
    noise: Scalar | None = None  # what one minibatch does to the mean score, in sds; None where all rows are seen
    dispersion_noise: Scalar | None = None  # what it does to the dispersion, in the worst coordinate
    num_batches: int = eqx.field(default=1, static=True)  # that the scores are averaged over

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
            noise=self.noise,
            dispersion_noise=self.dispersion_noise,
            num_batches=self.num_batches,
        )

    def metrics(self) -> dict[str, Array | np.ndarray | np.floating]:
        """Return what is watched in every run."""
        draws, weights = self.draws, _weights(self.draws)
        sample = slice(None, None, -(-len(draws.particles) // _KSD_PARTICLES))
        shares = None if weights is None else _normalised(weights[sample])
        found = watched(draws.particles[sample], self.scores[sample], shares)
        finite = np.mean(np.asarray(self.finite)[_is_draw(draws)])
        noise = {name: value for name in _NOISE if (value := getattr(self, name)) is not None}
        return {**found, **noise, "finite": finite, **({} if weights is None else {"weights": weights})}


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

    def batch(self, step, block: Block | None, anchor: Anchor | None):
        """Return what a step sees of the data."""
        if block is None:
            return self.target.minibatch(self.data_key, step, anchor)
        return Minibatch(block.batch(step), anchor) if self.target.noisy else block.batch(step)

    def last_batch(self, step, block: Block | None, anchor: Anchor | None):
        """Return what the last step before this one saw."""
        return self.batch(jnp.maximum(step - 1, 0), block, anchor)


class Noise(eqx.Module):
    """What a minibatch does to the mean of the scores, in sds of the cloud, and what an anchor at its centre would do.

    Attributes:
        center: of the cloud.
        noise: what is left of the noise with the anchor that there is.
        plain: the noise without.
        offset: the part of `noise` that comes from the distance between anchor and centre, relative to the part that
            comes from the width of the cloud: their squared ratio.
    """

    center: Point
    noise: Scalar
    plain: Scalar
    offset: Scalar


class Run:
    """A plan on the current mesh, compiled."""

    def __init__(self, plan: Plan):
        self._parts, self._noisy, self._method = _split(plan.placed()), plan.target.noisy, plan.method

    def init(self, particles: Particles, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state to start from."""
        return _init(*self._parts, num_steps, *sharding.replicate((particles, key)))

    def advance(self, state, start: int, stop: int, block: Block | None, anchor: Anchor | None) -> Any:
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        return _finished(_advance(*self._parts, state, _number(start), _number(stop), block, anchor))

    def done(self, state) -> bool:
        """Say whether more steps would add nothing."""
        return self._method.done(sharding.bring_home(state))

    def watch(self, state, step: int, block: Block | None, anchor: Anchor | None) -> dict[str, PyTree]:
        """Return what the history records now."""
        view = self._view(_view, state, step, block, anchor)
        return jax.tree.map(np.asarray, {**view.metrics(), **view.records})

    def final(self, state, step: int, block: Block | None, anchor: Anchor | None) -> View:
        """Return the posterior after `step` steps."""
        return self._view(_averaged_view if self._noisy else _view, state, step, block, anchor).cut()

    def _view(self, compiled, state, step, block, anchor) -> View:
        return sharding.bring_home(_finished(compiled(*self._parts, state, _number(step), block, anchor)))

    def noise(self, state, step: int, block: Block | None, anchor: Anchor) -> Noise:
        """Return what the minibatch of this step does to the scores of the cloud."""
        return sharding.bring_home(_finished(_noise(*self._parts, state, _number(step), block, anchor)))

    def score(self, point: Point, rows: Batch) -> np.ndarray:
        """Return the score at one point by these rows, as if they were all, in double precision."""
        return np.asarray(sharding.bring_home(_finished(_score(*self._parts, point, rows))), float)

    def step_memory(self, state, block: Block | None, anchor: Anchor | None) -> int:
        """Return the bytes that compiled steps take beside their arguments, over all devices of this process."""
        compiled = _advance.lower(*self._parts, state, _number(0), _number(0), block, anchor).compile()
        statistics = compiled.memory_analysis()
        if statistics is None:  # a backend that does not say
            return 0
        devices = jax.local_device_count() if sharding.axis_size(sharding.PARTICLES) > 1 else 1
        return devices * (statistics.temp_size_in_bytes + statistics.output_size_in_bytes)

    def records(self, state, block: Block | None, anchor: Anchor | None) -> dict[str, PyTree]:
        """Return the shapes of what the history records."""
        view = _view.eval_shape(*self._parts, state, _number(0), block, anchor)
        weights = {} if view.draws.weights is None and view.draws.count is None else {"weights": view.log_densities}
        noise = () if view.noise is None else _NOISE
        return {**dict.fromkeys((*WATCHED, *noise, "finite"), view.log_densities), **weights, **view.records}


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
def _advance(plan, state, start, stop, block, anchor):
    def body(step, state):
        batch, key = plan.batch(step, block, anchor), jax.random.fold_in(plan.key, step)
        state = plan.method.step(plan.target, state, batch, time=Time(step, plan.num_steps), key=key)
        return sharding.same_everywhere(state)

    # Also at the end: what a loop hands on, the compiler may split as it likes.
    return sharding.same_everywhere(jax.lax.fori_loop(start, stop, body, state))


@_compiled
def _view(plan, state, step, block, anchor):
    return _viewed(plan, state, [jnp.maximum(step - 1, 0)], block, anchor)


@_compiled
def _averaged_view(plan, state, step, block, anchor):
    """Look at several minibatches, those that come next or those at hand, so that verdicts see less noise."""
    first, length = (step, _FINAL_BATCHES) if block is None else (block.first, min(_FINAL_BATCHES, block.length))
    return _viewed(plan, state, first + jnp.arange(length, dtype=step.dtype), block, anchor)


def _viewed(plan, state, steps, block, anchor):
    """Return the posterior of a state, with the scores that the minibatches of these steps have on average."""
    draws = plan.method.draws(plan.target, state, key=plan.key)

    def evaluated(step):
        found = plan.target.estimate(draws.particles, plan.batch(step, block, anchor))
        if found.noise is None:
            return (found.log_densities, found.scores), None
        noise = jnp.nan_to_num(found.noise)
        return (found.log_densities, found.scores), (
            _mean(draws, noise),
            dispersion_of(draws.particles, noise, _shares(draws)),
        )

    def add(sums, step):
        found, noise = evaluated(step)
        return jax.tree.map(jnp.add, sums, found), noise

    if len(steps) == 1:
        (log_densities, scores), noise = evaluated(steps[0])
    else:
        zeros = jnp.zeros_like(draws.particles[:, 0]), jnp.zeros_like(draws.particles)
        sums, noise = jax.lax.scan(add, zeros, steps)
        log_densities, scores = jax.tree.map(lambda leaf: leaf / len(steps), sums)
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    user = plan.target.to_user(draws.particles)
    records = {name: function(user) for name, function in plan.record.items()}
    measured = {}
    if noise is not None:
        of_mean, of_dispersion = noise
        measured["noise"] = jnp.sqrt(jnp.mean(_in_sds(draws, scores, of_mean) ** 2))
        squares = jnp.atleast_2d(of_dispersion) ** 2
        measured["dispersion_noise"] = jnp.sqrt(jnp.max(jnp.mean(squares, axis=0)))
    view = View(draws, user, log_densities, scores, finite, records, **measured, num_batches=len(steps))
    return sharding.same_everywhere(view)


@_compiled
def _noise(plan, state, step, block, anchor):
    draws = plan.method.draws(plan.target, state, key=plan.key)
    found = plan.target.estimate(draws.particles, plan.batch(step, block, anchor))
    noise, plain = (_in_sds(draws, found.scores, jnp.nan_to_num(part)) for part in (found.noise, found.plain))
    shift, shape = _mean(draws, noise), noise - _mean(draws, noise)
    offset = jnp.mean(shift**2) / jnp.maximum(jnp.mean(_mean(draws, shape**2)), jnp.finfo(shift.dtype).tiny)
    left, without = (jnp.sqrt(jnp.mean(values**2)) for values in (shift, _mean(draws, plain)))
    return sharding.same_everywhere(Noise(_mean(draws, draws.particles), left, without, offset))


@_compiled
def _score(plan, point, rows):
    return sharding.same_everywhere(plan.target.scores(point[None], rows)[0])


def _in_sds(draws, scores, errors):
    """Return errors of scores as the errors of positions that follow, in sds of the cloud, as `mean_error` does."""
    frame, shares = Cloud().frame(draws.particles), _shares(draws)
    known = jnp.where(jnp.all(jnp.isfinite(scores), axis=1, keepdims=True), scores, 0.0)
    curvature = dispersion_of(frame.points(draws.particles), frame.scores(known), shares)
    return frame.scores(errors) / jnp.maximum(jnp.abs(curvature), 1e-3)


def _mean(draws, rows):
    """Return the mean over all draws."""
    return _shares(draws) @ jnp.nan_to_num(rows)


def _shares(draws):
    """Return the weight of every row, in compiled code."""
    rows = jnp.arange(len(draws.particles)) % (len(draws.particles) // draws.num_chains)
    weights = jnp.ones_like(draws.particles[:, 0]) if draws.weights is None else draws.weights
    weights = weights if draws.count is None else jnp.where(rows < draws.count, weights, 0.0)
    return weights / jnp.sum(weights)


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
