r"""Ensembles of networks: every particle finds its own mode, explores around it, and networks on its way are kept.

A network has many modes, most of them alike, and far more weights than anybody has particles. No cloud covers that, and
nobody needs it to: what counts are predictions, and those of a few modes, each with its surroundings, are close to
those of all (Sommer et al., arXiv:2502.06335). A run has three parts:

- arriving: Adam with steps that decay, on minibatches, each particle by itself. The Stein direction would mix the
  scores of networks that have nothing in common;
- warming up: microcanonical moves on all rows, each particle with a step size of its own, which finds itself. On the
  way rows that are held out say how often rows should count, and whether to move at all (`trials`);
- keeping: the same moves; networks on the way, evenly spaced in time, are the posterior.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Draws, Method, Settled, Time
from steinflow.methods.svgd.exploration import Exploration, Microcanonical
from steinflow.methods.svgd.metrics import Euclidean
from steinflow.methods.svgd.steps import DecayingAdam
from steinflow.methods.svgd.trials import Trial, can_hold_out, fitted_rows
from steinflow.methods.svgd.walk import Walk
from steinflow.targets.anchors import rows_of
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Scores, Weights

# When each part ends, in percent of the steps: arriving, the trial of every count, and warming up.
_ARRIVED, _TRIED, _WARM = 15, (25, 40), 55
_MOST_KEPT = 1000  # networks of all particles together
_MOST_NUMBERS = 2**26  # of all networks that are kept: 256 MB in single precision
_LEAST_STEEPNESS = 0.01  # of a weight, relative to the mean: none gets a scale above 10
_ALL_ROWS = 20_000  # up to here a move sees all of them
_LONGEST_STEP = 0.05  # of a weight while it arrives, on average: in short runs it cannot go as far as it might
_NO_METRIC = Euclidean()
_SHORT = 1000  # steps, however many there are: modes that nobody finds outweigh the bias of larger ones


class EnsembleState(eqx.Module):
    """The networks, where they started and have arrived, their walk, and those kept: steps x particles x weights.

    The walk is in coordinates in which every weight of every network has a scale of its own.
    """

    particles: Particles
    start: Particles
    arrived: Particles
    adam: Any
    walk: Walk
    scales: Array
    trial: Trial | None
    kept: Array
    num_kept: Array


class Ensemble(Method):
    """An ensemble of networks that explore: for targets whose parameters mean nothing by themselves.

    Each particle is a member. The result has many networks of every member, at most 1,000 in all, or as many as fit in
    256 MB; those of one member come one after the other, and are a chain to ArviZ. Members hardly ever change their
    mode: how many of each kind there are is up to their start, not to their mass.

    Of a posterior whose rows are in memory, some are held out for the first half of the run. They decide for how many
    members rows count once, three times, or so often that the member stays where it has arrived: `members_by_count` in
    `result.info`. Then all rows count.

    Args:
        reach: how far a weight can go while it arrives, in however many steps.
        exploration: how the members move then, `sf.svgd.Microcanonical` with steps of their own by default.

    Raises:
        ValueError: if `reach` is not positive.
    """

    reach: float = 10.0
    exploration: Exploration = Microcanonical(0.02, total_error=math.inf, way=1.0, own_steps=True, first_step=1e-4)

    def __check_init__(self):
        if not self.reach > 0:
            raise ValueError(f"reach, how far a weight can go, must be positive; got {self.reach}.")

    def init(self, target, particles, *, num_steps, key):
        walk = Walk.start(self.exploration, particles, _NO_METRIC, num_steps=_SHORT, key=key)
        walk = walk.begun(_NO_METRIC.frame(particles))
        most = min(_MOST_KEPT // len(particles), _MOST_NUMBERS // particles.size)
        num_keeping = num_steps * (100 - _WARM) // 100
        kept = jnp.zeros((max(1, min(most, num_keeping)), *particles.shape), particles.dtype)
        return EnsembleState(
            particles=particles,
            start=particles,
            arrived=particles,
            adam=DecayingAdam(self.reach).init(particles),
            walk=walk,
            scales=jnp.ones_like(particles),
            trial=Trial.start(target, particles),
            kept=kept,
            num_kept=jnp.zeros((), jnp.int32),
        )

    def step(self, target, state, batch, *, time, key):
        when, keys = _Phases.of(time.num_steps), jax.random.split(key)
        sight = _Sight(target, rows_of(batch), time.step, held_out=time.step < when.tried[-1])
        arriving = climbing = time.step < when.arrived
        warming = time.step < when.warm
        if state.trial is not None:
            warming &= ~when.judging(time.step)  # what is judged moves as carefully as what will be kept
            trial = _trial(target, state, time.step, when, key=keys[1])
            state = dataclasses.replace(state, trial=trial)
            climbing |= (time.step >= when.tried[-1]) & (time.step < when.warm) & jnp.any(trial.stay)
        state = jax.lax.cond(climbing, lambda: self._climbed(sight, state, when), lambda: state)
        moved = jax.lax.cond(
            arriving,
            lambda: dataclasses.replace(state, particles=state.arrived, scales=_scales(state.adam)),
            lambda: self._explored(sight, state, warming=warming, key=keys[0]),
        )
        due = (time.step + 1 - when.warm) * len(state.kept) // jnp.maximum(time.num_steps - when.warm, 1)
        slot = jnp.where(due > state.num_kept, state.num_kept, len(state.kept))  # one beyond the end is dropped
        kept = state.kept.at[slot].set(moved.particles, mode="drop")
        num_kept = jnp.maximum(due, state.num_kept).astype(jnp.int32)
        return dataclasses.replace(moved, kept=kept, num_kept=num_kept)

    def _climbed(self, sight, state, when):
        """Return the state after a step of Adam.

        Where rows were held out, those who stay where they have arrived see them too: they arrive a second time, from
        where they started, as they did when they were judged. To go on from where they are would end in a deeper fit
        than the one that was judged.
        """
        since = jnp.where(sight.step < when.arrived, 0, when.tried[-1])
        until = jnp.where(sight.step < when.arrived, when.arrived, when.warm)
        time = Time(sight.step - since, until - since)
        climb = DecayingAdam(jnp.minimum(self.reach, time.num_steps.astype(state.start.dtype) * _LONGEST_STEP))
        x, adam = jax.tree.map(
            lambda first, now: jnp.where(time.step == 0, first, now),
            (state.start, climb.init(state.start)),
            (state.arrived, state.adam),
        )
        scores = sight.scores_to_climb(x)
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        moves, adam = climb.moves(jnp.where(known, scores, 0.0), x, adam, time=time)
        return dataclasses.replace(state, arrived=jnp.where(known, x + moves, x), adam=adam)

    def _explored(self, sight, state, *, warming, key):
        """Return the state after a move of every network; the first one stays where it is, and takes scores."""
        x, walk, scales, trial, keys = state.particles, state.walk, state.scales, state.trial, jax.random.split(key)
        first = walk.explored == 0
        ahead = jnp.where(first, x, scales * walk.ahead(self.exploration, x / scales, key=keys[0]))
        scores = scales * sight.scores(ahead, None if trial is None else trial.counts)
        moved, walk = walk.step(self.exploration, x / scales, ahead / scales, scores, warming=warming, keys=(*keys,))
        particles = scales * moved if trial is None else jnp.where(trial.stay[:, None], state.arrived, scales * moved)
        return dataclasses.replace(state, particles=particles, walk=walk)

    def settle(self, target, state):
        num_kept, (num_members, dim) = int(state.num_kept), state.particles.shape
        if num_kept == 0:  # stopped before
            return Settled(state)
        findings = {}
        if state.trial is not None:
            findings = {"members_by_count": state.trial.members(), "held_out": state.trial.calibration(target)}
        networks = jnp.swapaxes(state.kept[:num_kept], 0, 1).reshape(num_kept * num_members, dim)
        return Settled(dataclasses.replace(state, particles=networks), findings)

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


class _Phases(NamedTuple):
    """At which step members have arrived, have tried every count but the first, and are warm."""

    arrived: Array
    tried: tuple[Array, ...]
    warm: Array

    @classmethod
    def of(cls, num_steps: Array) -> "_Phases":
        arrived, *tried, warm = (percent * num_steps // 100 for percent in (_ARRIVED, *_TRIED, _WARM))
        return cls(arrived, tuple(tried), warm)

    @property
    def bounds(self) -> Array:
        """When members have arrived, and when each count but the first, which takes no moves, has been tried."""
        return jnp.stack([self.arrived, *self.tried])

    def tried_by(self, step: Array) -> Array:
        """Return the number of the count that the moves before this step have tried; 0: they have only arrived."""
        return jnp.searchsorted(self.bounds[:-1], step)

    def judging(self, step: Array) -> Array:
        """Whether networks are judged before the moves of this step: in the second half of the time of a count."""
        number = self.tried_by(step)
        late = (number == 0) | (2 * step > self.bounds[jnp.maximum(number - 1, 0)] + self.bounds[number])
        return late & (step >= self.arrived) & (step <= self.tried[-1])


def _trial(target: FlatTarget, state: EnsembleState, step: Array, when: _Phases, *, key: PRNGKeyArray) -> Trial:
    """Return the trial before the moves of this step."""
    assert state.trial is not None
    trial = jax.lax.cond(
        when.judging(step),
        lambda: state.trial.judged(target, state.particles, when.tried_by(step)),
        lambda: state.trial,
    )
    trial = jax.lax.cond(step == when.tried[-1], lambda: trial.decided(key=key), lambda: trial)
    now = jnp.maximum(jnp.searchsorted(when.bounds[:-1], step, side="right"), 1).astype(trial.choices.dtype)
    return dataclasses.replace(trial, choices=jnp.where(step < when.tried[-1], now, trial.choices))


class _Sight(eqx.Module):
    """What a step sees of the target: all of its rows or a minibatch, those that are held out excepted."""

    target: FlatTarget
    batch: Batch | None
    step: Array
    held_out: Array

    def scores_to_climb(self, particles: Particles) -> Scores:
        """Return the scores of what members climb while they arrive, on minibatches where there are such."""
        target = self.target.approach
        if not can_hold_out(target):
            return target.scores(particles, self.batch)
        return self._counted(target, particles, jnp.ones_like(particles[:, 0]), all_rows=not target.noisy)

    def scores(self, particles: Particles, counts: Weights | None) -> Scores:
        """Return the scores of the target, on all rows where moves can afford them."""
        target = self.target
        all_rows = target.data is None or (target.data.host is None and target.num_rows <= _ALL_ROWS)
        if counts is None:
            return target.scores(particles, None if all_rows else self.batch)
        return self._counted(target, particles, counts, all_rows=all_rows)

    def _counted(self, target, particles, counts, *, all_rows):
        rows, weights = fitted_rows(target, self.step, all_rows=all_rows, held_out=self.held_out)
        return target.counted_scores(particles, counts, rows, weights.astype(particles.dtype))
