r"""Ensembles of networks: every particle finds its own mode, explores around it, and networks on its way are kept.

A network has many modes, most of them alike, and far more weights than anybody has particles. No cloud covers that, and
nobody needs it to: what counts are predictions, and those of a few modes, each with its surroundings, are close to
those of all (Sommer et al., arXiv:2502.06335). A run has three parts:

- arriving: Adam with steps that decay, on minibatches, each particle by itself. The Stein direction would mix the
  scores of networks that have nothing in common. Members arrive where they predict rows that are held out best;
- warming up: microcanonical moves on all rows, each particle with a step size of its own, which finds itself. On the
  way the rows held out say how often rows and the prior should count, and whether to move at all (`trials`);
- keeping: the same moves; networks on the way, evenly spaced in time, are the posterior.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from steinflow.methods.base import Draws, Method, Settled, Time
from steinflow.methods.svgd.exploration import Exploration, Microcanonical
from steinflow.methods.svgd.metrics import Euclidean
from steinflow.methods.svgd.steps import DecayingAdam
from steinflow.methods.svgd.trials import Trial, can_hold_out, fitted_rows
from steinflow.methods.svgd.walk import Walk
from steinflow.targets.anchors import rows_of
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Scores

_ARRIVED, _TRIED, _WARM = 15, 40, 55  # percent of the steps after which members have arrived, are tried, and are warm
_MOST_KEPT = 1000  # networks of all particles together
_MOST_NUMBERS = 2**26  # of all networks that are kept: 256 MB in single precision
_LOOKS = 10  # steps of the climb between two looks at how well the rows held out are predicted
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

    @property
    def staying(self) -> Bool[Array, " n"]:
        """Who does not move any more."""
        return jnp.zeros(len(self.particles), bool) if self.trial is None else self.trial.stay


class Ensemble(Method):
    """An ensemble of networks that explore: for targets whose parameters mean nothing by themselves.

    Each particle is a member. The result has many networks of every member, at most 1,000 in all, or as many as fit in
    256 MB; those of one member come one after the other, and are a chain to ArviZ. Members hardly ever change their
    mode: how many of each kind there are is up to their start, not to their mass.

    Of a posterior whose rows are in memory, some are held out until 40% of the steps are made. They decide when members
    have arrived, and how many members explore the posterior, how many let rows count three times or have a narrower
    prior, and how many stay where they have arrived: `members` in `result.info`. Then all rows count.

    Args:
        reach: how far a weight can go while it arrives, in however many steps.
        exploration: how the members move then, `sf.svgd.Microcanonical` with steps of their own by default.

    Raises:
        ValueError: if `reach` is not positive.
    """

    reach: float = 10.0
    exploration: Exploration = Microcanonical(0.001, total_error=math.inf, way=1.0, own_steps=True, first_step=1e-4)

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
        sight = _Sight(target, rows_of(batch), time.step, held_out=time.step < when.tried)
        arriving = climbing = time.step < when.arrived
        warming = time.step < when.warm
        if state.trial is not None:
            warming &= ~when.judging(time.step)  # what is judged moves as carefully as what will be kept
            state = _tried(target, state, time.step, when, key=keys[1])
            climbing |= (time.step >= when.tried) & (time.step < when.warm) & jnp.any(state.staying)
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

        Where rows are held out, members arrive where they predict these best. Those who stay there see all rows in the
        end: they arrive a second time, from where they started, in as many steps. To go on from where they are would
        end in a deeper fit than the one that was judged.
        """
        since = jnp.where(sight.step < when.arrived, 0, when.tried)
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
        trial, arrived = state.trial, jnp.where(known, x + moves, x)
        if trial is None:
            return dataclasses.replace(state, arrived=arrived, adam=adam)
        steps, first = time.step + 1, sight.step < when.arrived
        last = first & (steps == time.num_steps)
        look = first & (steps % _LOOKS == 0) | last
        peak = jax.lax.cond(look, lambda: trial.peak.after(sight.target, arrived, steps), lambda: trial.peak)
        there = ~first & (steps > peak.steps)
        arrived = jnp.where(last, peak.networks, jnp.where(there[:, None], x, arrived))
        return dataclasses.replace(state, arrived=arrived, adam=adam, trial=dataclasses.replace(trial, peak=peak))

    def _explored(self, sight, state, *, warming, key):
        """Return the state after a move of every network; the first one stays where it is, and takes scores."""
        x, walk, scales, keys = state.particles, state.walk, state.scales, jax.random.split(key)
        first = walk.explored == 0
        ahead = jnp.where(first, x, scales * walk.ahead(self.exploration, x / scales, key=keys[0]))
        scores = scales * sight.scores(ahead, state.trial)
        moved, walk = walk.step(self.exploration, x / scales, ahead / scales, scores, warming=warming, keys=(*keys,))
        particles = jnp.where(state.staying[:, None], state.arrived, scales * moved)
        return dataclasses.replace(state, particles=particles, walk=walk)

    def settle(self, target, state):
        num_kept, (num_members, dim) = int(state.num_kept), state.particles.shape
        if num_kept == 0:  # stopped before
            return Settled(state)
        findings = {}
        if state.trial is not None:
            findings = {"members": state.trial.members(), "held_out": state.trial.calibration(target)}
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
    """At which step members have arrived, are tried, and are warm."""

    arrived: Array
    tried: Array
    warm: Array

    @classmethod
    def of(cls, num_steps: Array) -> "_Phases":
        return cls(*(percent * num_steps // 100 for percent in (_ARRIVED, _TRIED, _WARM)))

    def judging(self, step: Array) -> Array:
        """Whether networks are judged before this step: on arrival, and in the second half of the trial."""
        return (step == self.arrived) | ((2 * step > self.arrived + self.tried) & (step <= self.tried))


def _tried(target: FlatTarget, state: EnsembleState, step: Array, when: _Phases, *, key: PRNGKeyArray) -> EnsembleState:
    """Return the state before the moves of this step: networks are judged, and in the end kinds are shared out.

    Who changes its kind sets out anew from where it has arrived: rows that count three times may have led it into a fit
    of noise, out of which there is no way.
    """
    assert state.trial is not None
    trial = jax.lax.cond(
        when.judging(step),
        lambda: state.trial.judged(target, state.particles, moved=step > when.arrived),
        lambda: state.trial,
    )
    over = step == when.tried
    trial = jax.lax.cond(over, lambda: trial.decided(key=key), lambda: trial)
    changed = trial.kinds != state.trial.kinds
    particles = jnp.where(changed[:, None], trial.peak.networks, state.particles)
    walk = dataclasses.replace(state.walk, explored=jnp.where(over, 0, state.walk.explored))
    return dataclasses.replace(state, trial=trial, particles=particles, walk=walk)


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
        once = jnp.ones_like(particles[:, 0])
        return self._counted(target, particles, once, once, all_rows=not target.noisy)

    def scores(self, particles: Particles, trial: Trial | None) -> Scores:
        """Return the scores of what members explore, on all rows where moves can afford them."""
        target = self.target
        all_rows = target.data is None or (target.data.host is None and target.num_rows <= _ALL_ROWS)
        if trial is None:
            return target.scores(particles, None if all_rows else self.batch)
        return self._counted(target, particles, trial.row_counts, trial.prior_counts, all_rows=all_rows)

    def _counted(self, target, particles, row_counts, prior_counts, *, all_rows):
        rows, weights = fitted_rows(target, self.step, all_rows=all_rows, held_out=self.held_out)
        return target.counted_scores(particles, row_counts, prior_counts, rows, weights.astype(particles.dtype))
