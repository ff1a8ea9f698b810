r"""Exploration: how single particles move by themselves, once the Stein flow has arrived.

Deterministic particles know the target only where they are, and n of them say little about a tail. Particles that move
by themselves fill modes and tails by their mass, and what they have seen on the way, hundreds of times n states, is
remembered (`memory.py`).
"""

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from steinflow.devices.normals import normal
from steinflow.typing import Array, Particles, PRNGKeyArray, Scalar, Scores

_FEWEST_DIMENSIONS = 3  # in which a direction turns; where there are fewer, standard normal coordinates are added
_DIVERGED, _STRAY = 10.0, 10.0  # nats of energy in one step, and sds of what is wanted: unstable beyond both
_STIFFEST = 10.0  # times what is wanted: a particle counts for no more, lest a few stiff ones hold up all
_CURVED = 4.0  # times as much as for most: there, steps are shorter; a step that changes everywhere is biased by 2%
_FLATTEST = 0.1  # curvature; 1 where the target is a Gaussian as wide as the cloud
_STEPS = 5000  # of a run whose errors of energy are those that were measured to be small enough


class Exploration(eqx.Module):
    """How particles explore, in the coordinates of the metric, in which the cloud has unit scale.

    To add one: a state (None where there is nothing to remember), where particles want to go, and the next state.
    """

    @abc.abstractmethod
    def init(self, particles: Particles, *, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state before the first step of a run of so many."""

    @abc.abstractmethod
    def moves(self, scores: Scores, state: Any, *, key: PRNGKeyArray) -> Array:
        """Return the move that every particle would make, given the scores where they are."""

    def durations(self, state: Any) -> Array:
        """Return how long every particle stays where it is, up to a factor: 1, unless steps differ."""
        return jnp.ones(())

    def step(
        self,
        moves: Array,
        scores: Scores,
        scores_there: Scores,
        made: Bool[Array, "n 1"],
        state: Any,
        *,
        warming: Array,
        key: PRNGKeyArray,
    ) -> tuple[Any, Bool[Array, "n 1"]]:
        """Return the next state, and which moves are made indeed.

        Args:
            moves: what `moves` returned.
            scores: those that it was given.
            scores_there: those after the moves.
            made: which moves can be made; those that lead to where the score is not finite cannot.
            state: as before.
            warming: whether this is the warm-up.
            key: for random numbers.
        """
        return state, made


class MicrocanonicalState(eqx.Module):
    """Directions of all particles, the coordinates that are added where there are few, and step sizes.

    Attributes:
        directions: unit vectors.
        added: standard normal coordinates.
        shared_size: the step size of most.
        own_sizes: that of every particle relative to it, as a column: 1, or less where the target is much more curved;
            with steps of their own, whatever suits each.
        energy_error: the variance of the error of energy, per dimension, that the step sizes are to hold.
        turned: who has just turned round, as a column.
    """

    directions: Array
    added: Array
    shared_size: Scalar
    own_sizes: Array
    energy_error: Scalar
    turned: Array

    @property
    def sizes(self) -> Array:
        """The step size of every particle."""
        return self.shared_size * self.own_sizes


class Microcanonical(Exploration):
    r"""Microcanonical Langevin moves (Robnik & Seljak, arXiv:2303.18221).

    A particle moves at a constant speed; the score turns its direction and never changes its speed, so that no score,
    however long, throws it far. With u the direction, half a turn, a step, half a turn:

    $$\dot x = u, \qquad \dot u = \frac{(I - u u^\top)\, s(x)}{d - 1},$$

    then a little noise on the direction, which is forgotten after a way of $3 \sqrt d$. One of $\sqrt d$ is best on a
    Gaussian, but no metric straightens curved ridges and tails, along which a particle keeps its direction for longer.

    All particles share one step size, which holds the variance of the energy's error, per step and dimension, at
    `energy_error`: where it is smaller, the states are less biased and further correlated. A parameter on which all
    others depend sees the errors of all dimensions together, whose variance is at most `total_error`. The error per
    dimension is that of a run of 5,000 steps, and less in a longer one in proportion: bias and chance vanish together.
    The energy's change is taken from the scores at both ends (the trapezoid rule, exact on Gaussians), so that no log
    density is needed, and no large ones are subtracted. A step of a far larger error is unstable, as where the motion
    has gathered in a coordinate that is much too narrow for it: it is not made, and the particle turns round, as it
    does where the density ends. The way back would have the same error.

    Where the target is much more curved than elsewhere, as in the neck of a funnel, a particle takes shorter steps: its
    curvature is $\kappa = |\Delta s| / |\Delta x|$ along its last one, and where that is more than four times what is
    typical, the step is shorter by $\sqrt{4 \kappa_\mathrm{typical} / \kappa}$. The way through continuous time stays
    the same, only more finely cut: what it sees there counts as long as the step is (`durations`).

    Args:
        energy_error: the variance of the error of energy per dimension; five times that in the warm-up.
        total_error: that of all dimensions together, at most; this is less from 2,000 dimensions on.
        way: after which a direction is forgotten, in units of sqrt(d).
        own_steps: every particle adapts its step by its own errors of energy, for particles in different modes, whose
            curvatures have nothing in common.
        first_step: the step size to begin with, in units of sqrt(d).
    """

    energy_error: float = 5e-5
    total_error: float = 0.1
    way: float = 3.0
    own_steps: bool = False
    first_step: float = 0.1

    def init(self, particles, *, num_steps, key):
        num_particles, dim = particles.shape
        all_dims = max(dim, _FEWEST_DIMENSIONS)
        direction_key, added_key = jax.random.split(key)
        directions = normal(direction_key, (num_particles, all_dims), particles.dtype)
        added = normal(added_key, (num_particles, all_dims - dim), particles.dtype)
        first = jnp.asarray(self.first_step * all_dims**0.5, particles.dtype)
        error = min(self.energy_error * min(1.0, _STEPS / num_steps), self.total_error / all_dims)
        ones = jnp.ones_like(particles[:, :1])
        error = jnp.asarray(error, particles.dtype)
        return MicrocanonicalState(_unit(directions), added, first, ones, error, turned=ones < 0)

    def durations(self, state):
        return state.sizes[:, 0]

    def moves(self, scores, state, *, key):
        halfway, _ = _turned(state.directions, scores, state.added, state.sizes)
        return state.sizes * halfway[:, : scores.shape[1]]

    def step(self, moves, scores, scores_there, made, state, *, warming, key):
        sizes, dim, all_dims = state.sizes, moves.shape[1], state.directions.shape[1]
        halfway, gained = _turned(state.directions, scores, state.added, sizes)
        added = state.added + sizes * halfway[:, dim:]
        directions, gained_then = _turned(halfway, scores_there, added, sizes)
        before, there = _joined(scores, state.added), _joined(scores_there, added)
        error = gained + gained_then - 0.5 * sizes[:, 0] * jnp.sum(halfway * (before + there), axis=1)

        wanted = state.energy_error * jnp.where(warming, 5.0, 1.0).astype(error.dtype)
        made &= jnp.isfinite(error)[:, None]
        errors = jnp.where(made[:, 0], error, 0.0) ** 2
        made &= (errors < jnp.maximum(_DIVERGED**2, _STRAY**2 * wanted * all_dims))[:, None]
        errors = jnp.minimum(errors / all_dims, _STIFFEST * wanted)
        if self.own_steps:
            # The error of one move is mostly chance: a step that followed each would depend on where the particle is.
            rate = jnp.where(warming, 0.05, 0.005).astype(error.dtype)
            shared_size, own_sizes = state.shared_size, state.own_sizes * _change(wanted, errors[:, None], rate)
        else:
            shared_size = state.shared_size * _change(wanted, jnp.mean(errors), 0.05)
            curvature = jnp.linalg.norm(there - before, axis=1, keepdims=True) / sizes
            log_curvature = jnp.log(jnp.where(made, jnp.maximum(curvature, _FLATTEST), 1.0))
            suitable = jnp.exp(0.5 * (math.log(_CURVED) + jnp.mean(log_curvature) - log_curvature))
            own_sizes = jnp.sqrt(state.own_sizes * jnp.minimum(suitable, 1.0))
        # Who cannot go on turns round. The way back is as long as that from there, so that nobody is at an edge too
        # seldom; who cannot go back either, goes slower.
        directions = jnp.where(made, directions, -state.directions)
        own_sizes = jnp.where(made, own_sizes, jnp.where(state.turned, 0.5, 1.0).astype(sizes.dtype) * state.own_sizes)
        added = jnp.where(made, added, state.added)
        longest = jnp.asarray(all_dims**0.5, sizes.dtype)  # the radius of a Gaussian as wide as the cloud
        after = MicrocanonicalState(
            directions,
            added,
            jnp.minimum(shared_size, longest),
            jnp.minimum(own_sizes, longest / shared_size) if self.own_steps else own_sizes,
            state.energy_error,
            turned=~made,
        )
        noise = jnp.sqrt((jnp.exp(2 * after.sizes / (self.way * all_dims**0.5)) - 1) / all_dims)
        directions = _unit(directions + noise * normal(key, directions.shape, directions.dtype))
        return dataclasses.replace(after, directions=directions), made


def _change(wanted, found, rate):
    """Return by how much a step grows, given the error of energy that is wanted and the one that was found."""
    return jnp.clip((wanted / jnp.maximum(found, 1e-12)) ** rate, 0.7, 1.3)


def _turned(directions, scores, added, step_size):
    """Return directions after half a turn, and the change of kinetic energy.

    The formulas are those of BlackJAX's `esh_dynamics_momentum_update_one_step`, which the tests compare them with, for
    all particles at once; BlackJAX itself takes longer to import than all of steinflow.
    """
    slopes = _joined(scores, added)
    steepness = jnp.linalg.norm(slopes, axis=1, keepdims=True)
    uphill = slopes / jnp.maximum(steepness, jnp.finfo(slopes.dtype).tiny)
    angle = 0.5 * step_size * steepness / (slopes.shape[1] - 1)
    along, shrunk = jnp.sum(directions * uphill, axis=1, keepdims=True), jnp.exp(-angle)
    turned = _unit(uphill * (1 - shrunk) * (1 + shrunk + along * (1 - shrunk)) + 2 * shrunk * directions)
    gained = angle - math.log(2) + jnp.log1p(along + (1 - along) * shrunk**2)
    return turned, (slopes.shape[1] - 1) * gained[:, 0]


def _joined(scores, added):
    """Return the scores in all coordinates: the added ones are standard normal."""
    return jnp.concatenate([scores, -added], axis=1)


def _unit(rows):
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
