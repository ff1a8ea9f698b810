r"""Ensembles of networks: every particle finds its own mode, explores around it, and networks on its way are kept.

A network has many modes, most of them alike, and far more weights than anybody has particles. No cloud covers that, and
nobody needs it to: what counts are predictions, and those of a few modes, each with its surroundings, are close to
those of all (Sommer et al., arXiv:2502.06335). A run has three parts:

- arriving: Adam with steps that decay, on minibatches, each particle by itself. The Stein direction would mix the
  scores of networks that have nothing in common;
- warming up: microcanonical moves on all rows, each particle with a step size of its own, which finds itself;
- keeping: the same moves; networks on the way, evenly spaced in time, are the posterior.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Draws, Method, Settled, Time
from steinflow.methods.svgd.exploration import Exploration, Microcanonical, Walk
from steinflow.methods.svgd.metrics import Euclidean
from steinflow.methods.svgd.steps import DecayingAdam
from steinflow.targets.anchors import rows_of
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Particles

_ARRIVING, _WARMING = 15, 35  # percent of the steps
_MOST_KEPT = 1000  # networks of all particles together
_MOST_NUMBERS = 2**26  # of all networks that are kept: 256 MB in single precision
_LEAST_STEEPNESS = 0.01  # of a weight, relative to the mean: none gets a scale above 10
_ALL_ROWS = 20_000  # up to here a move sees all of them
_NO_METRIC = Euclidean()
_SHORT = 1000  # steps, however many there are: modes that nobody finds outweigh the bias of larger ones


class EnsembleState(eqx.Module):
    """The networks, what Adam remembers, their walk, and the networks that were kept: steps x particles x weights.

    The walk is in coordinates in which every weight of every network has a scale of its own.
    """

    particles: Particles
    adam: Any
    walk: Walk
    scales: Array
    kept: Array
    num_kept: Array


class Ensemble(Method):
    """An ensemble of networks that explore: for targets whose parameters mean nothing by themselves.

    Each particle is a member. The result has many networks of every member, at most 1,000 in all, or as many as fit in
    256 MB; those of one member come one after the other, and are a chain to ArviZ. Members hardly ever change their
    mode: how many of each kind there are is up to their start, not to their mass.

    Args:
        reach: how far a weight can go while it arrives, in however many steps.
        exploration: how the members move then, `sf.svgd.Microcanonical` with steps of their own by default.
    """

    reach: float = 10.0
    exploration: Exploration = Microcanonical(0.02, total_error=math.inf, way=1.0, own_steps=True, first_step=1e-4)

    def __check_init__(self):
        if not self.reach > 0:
            raise ValueError(f"reach, how far a weight can go, must be positive; got {self.reach}.")

    def init(self, target, particles, *, num_steps, key):
        walk = Walk.start(self.exploration, particles, _NO_METRIC, num_steps=_SHORT, key=key)
        most = min(_MOST_KEPT // len(particles), _MOST_NUMBERS // particles.size)
        num_keeping = num_steps * (100 - _ARRIVING - _WARMING) // 100
        kept = jnp.zeros((max(1, min(most, num_keeping)), *particles.shape), particles.dtype)
        adam, scales = DecayingAdam(self.reach).init(particles), jnp.ones_like(particles)
        return EnsembleState(particles, adam, walk, scales, kept, jnp.zeros((), jnp.int32))

    def step(self, target, state, batch, *, time, key):
        start, warm = (percent * time.num_steps // 100 for percent in (_ARRIVING, _ARRIVING + _WARMING))
        moved = jax.lax.cond(
            time.step < start,
            lambda: self._arrived(target.approach, state, rows_of(batch), time=Time(time.step, start)),
            lambda: self._explored(target, state, rows_of(batch), warming=time.step < warm, key=key),
        )
        due = (time.step + 1 - warm) * len(state.kept) // jnp.maximum(time.num_steps - warm, 1)
        slot = jnp.where(due > state.num_kept, state.num_kept, len(state.kept))  # one beyond the end is dropped
        kept = state.kept.at[slot].set(moved.particles, mode="drop")
        num_kept = jnp.maximum(due, state.num_kept).astype(jnp.int32)
        return dataclasses.replace(moved, kept=kept, num_kept=num_kept)

    def _arrived(self, target, state, rows, *, time):
        """Return the state after a step of Adam, with the scales that suit the gradients so far."""
        x, scores = state.particles, target.scores(state.particles, rows)
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        moves, adam = DecayingAdam(self.reach).moves(jnp.where(known, scores, 0.0), x, state.adam, time=time)
        return dataclasses.replace(state, particles=jnp.where(known, x + moves, x), adam=adam, scales=_scales(adam))

    def _explored(self, target, state, rows, *, warming, key):
        """Return the state after a move of every network; the first one stays where it is, and takes scores."""
        x, walk, scales, keys = state.particles, state.walk, state.scales, jax.random.split(key)
        first = walk.num_steps == 0
        ahead = jnp.where(first, x, scales * walk.ahead(self.exploration, x / scales, key=keys[0]))
        scores = scales * target.scores(ahead, None if _sees_all_rows(target) else rows)
        moved, walk = walk.step(
            self.exploration, x / scales, ahead / scales, scores, _NO_METRIC, warming=warming | first, keys=(*keys,)
        )
        return dataclasses.replace(state, particles=scales * moved, walk=walk)

    def settle(self, target, state):
        num_kept, (num_members, dim) = int(state.num_kept), state.particles.shape
        if num_kept == 0:  # stopped before
            return Settled(state)
        networks = jnp.swapaxes(state.kept[:num_kept], 0, 1).reshape(num_kept * num_members, dim)
        return Settled(dataclasses.replace(state, particles=networks))

    def draws(self, target, state, *, key):
        return Draws(state.particles, num_chains=len(state.walk.scores))


def _scales(adam: Any) -> Array:
    """Return a scale for every weight of every network: smaller where its gradients are larger, as Adam has seen them.

    In proportion to 1 / gradient, every weight by itself would be as steep as the others. Weights are anything but
    independent, and the square root of that was explored in fewer steps than this, and than no scale at all.
    """
    steepness = jnp.sqrt(adam.nu)
    relative = steepness / jnp.maximum(jnp.mean(steepness, axis=1, keepdims=True), jnp.finfo(steepness.dtype).tiny)
    return jax.lax.rsqrt(relative + _LEAST_STEEPNESS)


def _sees_all_rows(target: FlatTarget) -> bool:
    """Say whether moves can afford all rows, those of a host excluded."""
    return target.data is None or (target.data.host is None and target.num_rows <= _ALL_ROWS)
