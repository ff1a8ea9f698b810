"""What many runs compute together, compiled: their starts, their steps, and the posteriors at the end."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from steinflow.devices import sharding
from steinflow.devices.compilation import compiled, split
from steinflow.inference.compiled import strongly_typed
from steinflow.inference.plan import Plan
from steinflow.inference.views import View, viewed
from steinflow.methods.base import Method, Time
from steinflow.targets.flat import FlatTarget, prior_draws
from steinflow.targets.varied import Varied
from steinflow.typing import Array, Params, PRNGKeyArray, PyTree


class Runs(eqx.Module):
    """What all runs have in common: the method, how a target is made, and the structure of its particles."""

    method: Method
    make: Callable
    unravel: Callable = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    num_steps: Array
    key_kind: str = eqx.field(static=True)  # of random keys, which are kept as plain numbers

    def key(self, numbers: Array) -> PRNGKeyArray:
        """Return the random key that these numbers are."""
        return jax.random.wrap_key_data(numbers, impl=self.key_kind)

    def target(self, item: PyTree) -> FlatTarget:
        """Return the target of one item."""
        return FlatTarget(Varied(self.make, item), self.unravel, self.dim)


class Block(eqx.Module):
    """Runs that are advanced together; every leaf has a leading axis of runs.

    Attributes:
        rows: their numbers.
        active: which of them go on; the others have ended, or only fill the block, so that one program serves.
        items: what the target of each is made from.
        keys: the random numbers of the steps of each.
        states: of the method.
        steps: how many are done; runs that were left over from other blocks have done more than others.
    """

    rows: np.ndarray
    active: np.ndarray
    items: PyTree
    keys: Array | np.ndarray
    states: Any
    steps: np.ndarray

    def at(self, rows: np.ndarray) -> "Block":
        """Return some of the runs, by NumPy: JAX would compile an operation for every number of them."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], self)

    def going_on(self) -> "Block":
        """Return the runs that have not ended."""
        return self.at(np.flatnonzero(self.active))

    def filled(self, size: int) -> "Block":
        """Return a block of this size, in which the first run is repeated."""
        block = self.at(filled(np.arange(len(self.rows)), size))
        return dataclasses.replace(block, active=block.active & (np.arange(size) < len(self.rows)))

    def share(self) -> float:
        """Return how many of the runs go on, of those that there were."""
        return np.sum(self.active) / len(np.unique(self.rows))

    @classmethod
    def of(cls, blocks: "list[Block]") -> "Block":
        """Return the runs of several blocks as one."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *blocks)


def row_of(tree: PyTree, row: int | np.integer | np.ndarray) -> PyTree:
    """Return what a tree with a leading axis of runs says about one of them, or about some."""
    return jax.tree.map(lambda leaf: leaf[row], tree)


def together(trees: Sequence[PyTree]) -> PyTree:
    """Return trees of one shape as one with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def of_one_shape(trees: Sequence[PyTree]) -> list[list[int]]:
    """Return the positions of trees, grouped by their structures and shapes."""
    groups: dict[Any, list[int]] = {}
    for k, tree in enumerate(trees):
        leaves, structure = jax.tree.flatten(tree)
        groups.setdefault((structure, *map(np.shape, leaves)), []).append(k)
    return list(groups.values())


def filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Return as many rows as a block has, the first of them repeated where there are fewer."""
    return np.concatenate([rows, np.full(size - len(rows), rows[0])])


class BlockRun:
    """Runs of one shape, compiled.

    Args:
        runs: what they have in common.
        num_steps: of each.
        mesh: of devices, each of which takes its share of the runs; all get the results.
    """

    def __init__(self, runs: Runs, num_steps: int, mesh: Mesh | None = None):
        self.runs, self.num_steps, self._mesh = runs, num_steps, mesh
        with sharding.use(mesh):
            self._parts, self.num_devices = split(sharding.replicate(runs)), sharding.axis_size(sharding.PARTICLES)

    def drawn(self, items: PyTree, num_particles: int, keys: np.ndarray) -> Array:
        """Return particles from the prior of every target, as rows of a matrix each."""
        return self._on_mesh(_drawn, num_particles, items, keys)

    def unconstrained(self, items: PyTree, particles: Params) -> Array:
        """Return the user's particles as rows of a matrix for every target."""
        return self._on_mesh(_unconstrained, items, particles)

    def start(
        self,
        rows: np.ndarray,
        items: PyTree,
        particles: Array | np.ndarray,
        init_keys: np.ndarray,
        run_keys: np.ndarray,
    ) -> Block:
        """Return runs that have not made a step."""
        states = self._on_mesh(_start, self.num_steps, items, particles, init_keys)
        return Block(rows, np.ones(len(rows), bool), items, run_keys, states, np.zeros(len(rows), np.int32))

    def like(self, items: PyTree, particles: Array, keys: np.ndarray) -> Any:
        """Return what the states of runs look like, of which some are given."""
        return self._on_mesh(_start.jitted.eval_shape, self.num_steps, items, particles, keys)

    def advance(self, block: Block, count: int) -> Block:
        """Return the runs after `count` more steps."""
        states = jax.block_until_ready(self._on_mesh(_advance, block, np.int32(count)))
        return dataclasses.replace(block, states=states, steps=block.steps + np.int32(count))

    def view(self, items: PyTree, states: Any) -> View:
        """Return the posteriors that states represent."""
        return jax.tree.map(np.asarray, self._on_mesh(_view, items, states))

    def step_memory(self, block: Block) -> int:
        """Return the bytes that a step takes beside its arguments, over all devices of this process."""
        compiled = self._on_mesh(_advance.jitted.lower, block, np.int32(0)).compile()
        if (statistics := compiled.memory_analysis()) is None:
            return 0
        devices = jax.local_device_count() if self.num_devices > 1 else 1
        return devices * (statistics.temp_size_in_bytes + statistics.output_size_in_bytes)

    def _on_mesh(self, program: Callable[..., PyTree], *arguments: Any) -> Any:
        with sharding.use(self._mesh):
            return program(*self._parts, *arguments)


def _of_each(one: Callable[..., PyTree], runs: Runs, *rows: PyTree) -> PyTree:
    """Return what a function of one run returns for all of them, each device for its share."""
    return sharding.split_particles(lambda runs, rows: jax.vmap(functools.partial(one, runs))(*rows), runs, rows)


@compiled(static=(2,), once=True)
def _drawn(runs, num_particles, items, keys):
    def one(runs, item, key):
        return jax.vmap(lambda x: ravel_pytree(x)[0])(
            prior_draws(Varied(runs.make, item), num_particles, runs.key(key))
        )

    return _of_each(one, runs, items, keys)


@compiled(once=True)
def _unconstrained(runs, items, particles):
    return _of_each(lambda runs, item, particles: runs.target(item).from_user(particles), runs, items, particles)


@compiled(static=(2,), once=True)
def _start(runs, num_steps, items, particles, keys):
    def one(runs, item, particles, key):
        return strongly_typed(runs.method.init(runs.target(item), particles, num_steps=num_steps, key=runs.key(key)))

    return _of_each(one, runs, items, particles, keys)


@compiled()
def _advance(runs, block, count):
    def one(runs, item, key, state, step):
        time = Time(step, runs.num_steps)
        return runs.method.step(runs.target(item), state, None, time=time, key=jax.random.fold_in(runs.key(key), step))

    def advanced(shared, block):
        runs, count = shared

        def body(made, states):
            return jax.vmap(functools.partial(one, runs))(block.items, block.keys, states, block.steps + made)

        return jax.lax.fori_loop(0, count, body, block.states)

    return sharding.split_particles(advanced, (runs, count), block)


@compiled()
def _view(runs, items, states):
    def one(runs, item, state):
        key = jax.random.key(0)
        plan = Plan(runs.method, runs.target(item), {}, runs.num_steps, key, key)
        return viewed(plan, state, jnp.zeros(1, jnp.int32), None, None)

    return _of_each(one, runs, items, states)
