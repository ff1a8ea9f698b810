"""What a run computes, compiled: its steps, what is watched on the way, and the posterior at the end."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.compilation import Program, compiled, split
from steinflow.inference.plan import Plan
from steinflow.inference.views import NOISE, Noise, View, metrics_of, noise_of, viewed
from steinflow.methods.base import Time
from steinflow.results.measures import WATCHED
from steinflow.targets.anchors import Anchor
from steinflow.targets.feed import Block
from steinflow.typing import Batch, Params, Particles, Point, PRNGKeyArray, PyTree

_FINAL_BATCHES = 100  # what the final scores are averaged over
_LOOKS = 50  # about as often is a run watched
_LITTLE = 2**26  # bytes, which are not worth a question to the compiler

Record = Mapping[str, Callable[[Params], PyTree]]


class Run:
    """A plan on the current mesh, compiled."""

    def __init__(self, plan: Plan):
        self._parts, self._noisy, self._method = split(plan.placed()), plan.target.noisy, plan.method
        self._num_steps, self._chosen = int(plan.num_steps), {}
        self._asked_for_more = bool(plan.record) or plan.target.noisy
        self._knows_log_density = plan.target.knows_log_density

    def init(self, particles: Particles, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state to start from."""
        return _init(*self._parts, num_steps, *sharding.replicate((particles, key)))

    def advance(self, state, start: int, stop: int, block: Block | None, anchor: Anchor | None = None) -> Any:
        """Return the state after steps start .. stop-1, in one compiled call for all lengths."""
        arguments = *self._parts, state, _number(start), _number(stop), block, anchor
        return _finished(self._compiled(_advance, self._num_steps, arguments)(*arguments))

    def _compiled(self, program: Program, times: int, arguments: tuple) -> Any:
        """Return a program as a run that passes through it so many times wants it compiled."""
        if program not in self._chosen:
            self._chosen[program] = program.for_passes(times, *arguments)
        return self._chosen[program]

    def done(self, state) -> bool:
        """Say whether more steps would add nothing."""
        return self._method.done(sharding.bring_home(state))

    def watch(self, state, step: int, block: Block | None, anchor: Anchor | None = None) -> dict[str, PyTree]:
        """Return what the history records now; nothing is computed anew where the state knows it."""
        seen = None if self._asked_for_more else self._method.seen(sharding.bring_home(state))
        if seen is not None:
            finite = np.all(np.isfinite(seen.scores), axis=1)
            finite &= np.isfinite(seen.log_densities) | (not self._knows_log_density)
            return metrics_of(seen.particles, np.where(finite[:, None], seen.scores, 0), finite)
        view = self._view(_view, state, step, block, anchor)
        return jax.tree.map(np.asarray, {**view.metrics(), **view.records})

    def final(self, state, step: int, block: Block | None, anchor: Anchor | None = None) -> View:
        """Return the posterior after `step` steps."""
        return self._view(_averaged_view if self._noisy else _view, state, step, block, anchor).cut()

    def _view(self, program, state, step, block, anchor) -> View:
        arguments = *self._parts, state, _number(step), block, anchor
        return sharding.bring_home(_finished(self._compiled(program, _LOOKS, arguments)(*arguments)))

    def noise(self, state, step: int, block: Block | None, anchor: Anchor) -> Noise:
        """Return what the minibatch of this step does to the scores of the cloud."""
        return sharding.bring_home(_finished(_noise(*self._parts, state, _number(step), block, anchor)))

    def score(self, point: Point, rows: Batch) -> np.ndarray:
        """Return the score at one point by these rows, as if they were all, in double precision."""
        return np.asarray(sharding.bring_home(_finished(_score(*self._parts, point, rows))), float)

    def influences(self, point: Point, deviations: Particles, rows: Batch) -> np.ndarray:
        """Return how much each of these rows matters to a cloud around a point, in double precision."""
        found = _finished(_influences(*self._parts, point, deviations, rows))
        return np.asarray(sharding.bring_home(found), float)

    def step_memory(self, state, block: Block | None, anchor: Anchor | None = None) -> int:
        """Return the bytes that compiled steps take beside their arguments, over all devices of this process.

        Where they are few, this is what all numbers of a step take together.
        """
        arguments = *self._parts, state, _number(0), _number(0), block, anchor
        if (at_most := 8 * _advance.work(*arguments)) < _LITTLE:
            return int(at_most)
        statistics = self._compiled(_advance, self._num_steps, arguments).lower(*arguments).compile().memory_analysis()
        if statistics is None:  # a backend that does not say
            return 0
        devices = jax.local_device_count() if sharding.axis_size(sharding.PARTICLES) > 1 else 1
        return devices * (statistics.temp_size_in_bytes + statistics.output_size_in_bytes)

    def records(self, state, block: Block | None, anchor: Anchor | None = None) -> dict[str, PyTree]:
        """Return the shapes of what the history records."""
        view = _view.jitted.eval_shape(*self._parts, state, _number(0), block, anchor)
        weights = {} if view.draws.weights is None and view.draws.count is None else {"weights": view.log_densities}
        noise = () if view.noise is None else NOISE
        return {**dict.fromkeys((*WATCHED, *noise, "finite"), view.log_densities), **weights, **view.records}


def _finished(results: PyTree) -> PyTree:
    """Wait for the device, also when a KeyboardInterrupt comes meanwhile: no computation outlives its call."""
    try:
        return jax.block_until_ready(results)
    except KeyboardInterrupt:
        jax.block_until_ready(results)
        raise


@compiled(static=(2,), once=True)  # num_steps may size buffers
def _init(plan, num_steps, particles, key):
    state = plan.method.init(plan.target, particles, num_steps=num_steps, key=key)
    return sharding.same_everywhere(strongly_typed(state))


def strongly_typed(state: PyTree) -> PyTree:
    """Return a state whose numbers are of the type that a step leaves them in.

    A number such as `jnp.asarray(0)` is weakly typed, what a loop returns is not, and the types of its arguments are
    part of a compiled function: everything that takes the state would be compiled twice.
    """

    def strong(leaf):
        return jax.lax.convert_element_type(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf

    return jax.tree.map(strong, state)


@compiled()
def _advance(plan, state, start, stop, block, anchor):
    def body(step, state):
        batch, key = plan.batch(step, block, anchor), jax.random.fold_in(plan.key, step)
        state = plan.method.step(plan.target, state, batch, time=Time(step, plan.num_steps), key=key)
        return sharding.same_everywhere(state)

    # Also at the end: what a loop hands on, the compiler may split as it likes.
    return sharding.same_everywhere(jax.lax.fori_loop(start, stop, body, state))


@compiled()
def _view(plan, state, step, block, anchor):
    return viewed(plan, state, jnp.maximum(step - 1, 0)[None], block, anchor)


@compiled()
def _averaged_view(plan, state, step, block, anchor):
    """Look at several minibatches, those that come next or those at hand, so that verdicts see less noise."""
    first, length = (step, _FINAL_BATCHES) if block is None else (block.first, min(_FINAL_BATCHES, block.length))
    return viewed(plan, state, first + jnp.arange(length, dtype=step.dtype), block, anchor)


_noise = Program(noise_of)


@compiled()
def _score(plan, point, rows):
    return sharding.same_everywhere(plan.target.scores(point[None], rows)[0])


@compiled()
def _influences(plan, point, deviations, rows):
    return sharding.same_everywhere(plan.target.influences(point, deviations, rows))


def _number(step: int) -> np.ndarray:
    # NumPy's, because with many processes an array of JAX's would live on a device of one of them.
    return np.asarray(step, np.int32)
