r"""Stein variational gradient descent (Liu & Wang, NIPS 2016, Algorithm 1).

$$x_i \leftarrow x_i + \epsilon\, \phi(x_i), \qquad
\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x) \nabla \log p(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

The first term drives the particles towards high density, the second keeps them apart. One particle climbs to the MAP.

As published, it needs a step size for every problem and loses the spread of the posterior as dimensions grow. The
defaults here need no tuning and keep the spread. Three parts of the same update are other than published, each an
argument: a kernel whose reach never fades plus a linear one, whose fixed point has the mean and covariance of a
Gaussian target; the coordinates of the cloud itself; and a step that adapts. A run has three phases: the Stein flow
arrives where the mass is, then the particles explore it by themselves and remember what they see, and at the end they
settle to represent all of it. `docs/tuning-free.md` explains and measures all this.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.devices.branches import either
from steinflow.methods.base import Draws, Method, Seen, Settled
from steinflow.methods.svgd.arrival import astray, has_arrived, homes, shortened
from steinflow.methods.svgd.exploration import Exploration, Microcanonical
from steinflow.methods.svgd.frames import Frame
from steinflow.methods.svgd.metrics import Cloud, Euclidean, Metric
from steinflow.methods.svgd.phases import Journey, Moved, Phase
from steinflow.methods.svgd.recollection import Moments, Recollection
from steinflow.methods.svgd.settling import Tail, all_settled, settled
from steinflow.methods.svgd.steps import Adaptive, DecayingAdam, StepRule, adagrad, as_step_rule
from steinflow.stein.approximations import Approximation, RandomFeatures
from steinflow.stein.bandwidths import Wide
from steinflow.stein.direction import stein_direction
from steinflow.stein.kernels import IMQ, RBF, Centered, Kernel, Linear, Multiquadric, positive_definite
from steinflow.typing import Array, Particles, Point, Scalar

if TYPE_CHECKING:
    import optax

_FEWEST_PARTICLES = 10  # whose scatter says something
_FEWEST_STEPS = 100  # scouts take twenty of them, and chains ask every tenth whether they agree


# The weight of the linear part, which knows the covariance. With minibatches steps are short, nothing explores after,
# and many rows leave little beside a covariance to know.
_LINEAR, _LINEAR_OF_BATCHES = 0.02, 0.2


def _default_kernel(approximation: Approximation | None, linear: float) -> Kernel:
    if isinstance(approximation, RandomFeatures):  # the multiquadric has no distribution of frequencies
        return Centered(IMQ(Wide()) + linear * Linear())
    return Centered(Multiquadric(Wide()) + linear * Linear())


class SVGDState(eqx.Module):
    """The particles, what the step rule remembers, and what exploring adds: None where there is no exploration."""

    particles: Particles
    step_rule: Any
    journey: Journey | None = None


class _Flowed(NamedTuple):
    """A step of the Stein flow: where it leads, and what the particles knew before."""

    particles: Particles
    step_rule: Any
    frame: Frame
    arrived: Array
    heat: Scalar  # the variance of the noise of the scores in the worst coordinate of the cloud, where theirs is 1


class SVGD(Method):
    """Stein variational gradient descent.

    Particles whose score is not finite add nothing to the sum and are carried by the others; where no score is finite
    nothing moves. A move that is not finite is not made. Runs that explore know where a density ends, its logarithm
    being minus infinity: nobody stays there, and who starts there is brought to where it is not.

    Args:
        kernel: one of `sf.kernels`, as `sf.kernels.RBF()`, a sum of them, or a function k(x, y). None is the best
            measured, `Centered(Multiquadric(Wide()) + 0.02 * Linear())`; with random features `IMQ` for `Multiquadric`,
            and with minibatches `0.2 * Linear()`.
        metric: the coordinates to work in, `sf.svgd.Cloud()` by default, or `sf.svgd.Euclidean()`.
        optimizer: the step rule, `sf.svgd.Adaptive()` by default, or any optax optimiser. Step sizes of optax want
            `sf.svgd.Euclidean()`, unless they are meant in units of the cloud.
        exploration: how particles move by themselves, `sf.svgd.Microcanonical()`, or None. By default they explore
            where kernel, metric and optimizer are the defaults too, and nowhere else: no noise that nobody asked for.
            Runs of fewer than 10 particles or of fewer than 100 steps do not explore, and those of minibatches only
            where an anchor leaves little of their noise.
        approximation: `sf.svgd.Subsample(m)` or `sf.svgd.RandomFeatures(m)`, for very many particles; None is exact.
    """

    kernel: Kernel
    kernel_of_batches: Kernel
    metric: Metric
    step_rule: StepRule
    exploration: Exploration | None
    approximation: Approximation | None

    def __init__(
        self,
        kernel: Kernel | Callable[[Point, Point], Scalar] | None = None,
        metric: Metric | None = None,
        optimizer: "StepRule | optax.GradientTransformation | None" = None,
        exploration: Exploration | Literal["default"] | None = "default",
        approximation: Approximation | None = None,
    ):
        all_default = kernel is None and metric is None and optimizer is None
        self.kernel, self.kernel_of_batches = (
            _default_kernel(approximation, linear) if kernel is None else positive_definite(kernel)
            for linear in (_LINEAR, _LINEAR_OF_BATCHES)
        )
        self.metric = Cloud() if metric is None else metric
        self.step_rule = Adaptive() if optimizer is None else as_step_rule(optimizer)
        unasked = Microcanonical() if all_default else None
        self.exploration = unasked if exploration == "default" else exploration
        self.approximation = approximation

    @classmethod
    def paper(cls, step_size: float = 0.1) -> "SVGD":
        """Return Algorithm 1 as published: RBF kernel, median bandwidth, AdaGrad."""
        return cls(kernel=RBF(), metric=Euclidean(), optimizer=adagrad(step_size))

    @classmethod
    def for_networks(cls, reach: float = 5.0) -> "SVGD":
        """Return what suits networks, whose weights outnumber the particles: the paper's kernel, Adam that decays.

        There the cloud has no covariance to work in. `reach` is how far a weight can go in the whole run, in however
        many steps; a short one keeps the weights of a hierarchical prior from falling into its funnel, where all of
        them vanish.
        """
        return cls(kernel=RBF(), metric=Euclidean(), optimizer=DecayingAdam(reach))

    def init(self, target, particles, *, num_steps, key):
        step_rule = self.step_rule.init(particles)
        few = len(particles) < _FEWEST_PARTICLES or num_steps < _FEWEST_STEPS
        if self.exploration is None or few or (target.noisy and not target.identified):
            return SVGDState(particles, step_rule)
        journey = Journey.start(self.exploration, particles, self.metric, num_steps=num_steps, key=key)
        return SVGDState(particles, step_rule, journey)

    def step(self, target, state, batch, *, time, key):
        x, journey = state.particles, state.journey
        if journey is None:
            found = target.estimate(x, batch)
            flowed = self._flowed(x, found.scores, state.step_rule, time=time, key=key, noise=found.noise)
            return SVGDState(flowed.particles, flowed.step_rule)
        scouts, walk, phase, keys = journey.scouts, journey.walk, Phase.of(journey, target, time), jax.random.split(key)
        ahead = jnp.where(phase.moving, walk.ahead(self.exploration, x, key=keys[0]), x)
        ahead = jnp.where(phase.scouting, scouts.ahead, ahead)
        # Once, whatever the phase: this is what compiles longest.
        found = target.estimate(ahead, batch)
        # Autodiff takes the slope of a density for zero where it has ended.
        ended = jnp.isneginf(found.log_densities)
        scores = jnp.where(ended[:, None], jnp.nan, found.scores)
        footing = journey.footing.after(ahead, scores, found.log_densities)
        before = Moved(x, state.step_rule, scouts, journey.footing, walk, journey.arrived, journey.heat)

        def scout():
            return before._replace(scouts=scouts.climbed(scores, found.log_densities))

        def arrive():
            here, times = footing.particles, {"time": phase.arrival, "key": key}
            flowed = self._flowed(here, footing.scores, state.step_rule, **times, arriving=True, noise=found.noise)
            heat = journey.recent_heat(flowed.heat)
            arrived = phase.ends_arrival(flowed.arrived & ~target.is_tempered, heat)
            missed = arrived & scouts.missed(here, footing.log_densities, flowed.frame)
            particles = scouts.followed(flowed.particles, missed)
            return Moved(particles, flowed.step_rule, scouts, footing, walk.begun(flowed.frame), arrived, heat)

        def explore():
            here = jnp.where(phase.moving, x, footing.particles)  # nobody moves in the first step
            there = jnp.where(phase.moving, ahead, footing.particles)
            found_there = jnp.where(phase.moving, scores, footing.scores)
            moved, next_walk = walk.step(
                self.exploration, here, there, found_there, warming=~journey.warm, keys=(keys[0], keys[1])
            )
            home = homes(journey.lost | (~journey.warm & astray(footing.log_densities, x.shape[1])))
            next_walk = next_walk.at(home, anew=jnp.any(journey.lost))
            return before._replace(particles=moved[home], footing=footing.at(home), walk=next_walk)

        def on_the_way():
            return either(phase.scouting, scout, arrive)

        moved = either(journey.arrived, explore, on_the_way if found.noise is None else arrive)
        journey = journey.after(self.exploration, moved, ended, phase)
        return SVGDState(moved.particles, moved.step_rule, journey)

    def _flowed(self, x, scores, step_rule, *, time, key, arriving=False, noise=None):
        """Return the particles after a step of the Stein flow."""
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        frame = self.metric.frame(x)
        u, s = frame.points(x), frame.scores(jnp.where(known, scores, 0.0))
        kernel = self.kernel if noise is None else self.kernel_of_batches
        phi = self._direction(u, shortened(s) if arriving and noise is None else s, kernel, key=key)
        heat = jnp.zeros((), x.dtype)
        if noise is not None:  # the direction is linear in the scores
            noise = frame.scores(jnp.where(known & jnp.isfinite(noise), noise, 0.0))
            heat = jnp.max(jnp.mean(noise**2, axis=0))
            noise = self._direction(u, s + noise, kernel, key=key) - phi
        moves, step_rule = self.step_rule.moves(phi, u, step_rule, time=time, noise=noise)
        moved = x + frame.moves(moves)
        possible = jnp.all(jnp.isfinite(moved), axis=1, keepdims=True) & jnp.any(known)
        return _Flowed(jnp.where(possible, moved, x), step_rule, frame, has_arrived(u, s), heat)

    def _direction(self, u, s, kernel, *, key):
        if self.approximation is None:
            return stein_direction(u, s, kernel)
        return self.approximation.direction(u, s, kernel, key=key)

    def num_gradients(self, num_particles, num_steps):
        return num_particles * num_steps

    def settle(self, target, state):
        recalled = _recalled(state)
        if recalled is None:
            return Settled(state)
        end = settled(target, np.asarray(state.particles), recalled)
        return _at_the_end(state, *end, recalled, recalled.best_moments)

    def settle_all(self, targets, states):
        recalled = list(map(_recalled, states))
        ends = [Settled(state) for state in states]
        if known := [k for k, each in enumerate(recalled) if each is not None]:
            filled = known + known[:1] * (len(states) - len(known))  # one compiled program, whoever knows something
            memories = [memory for k in filled if (memory := recalled[k]) is not None]
            particles = [np.asarray(states[k].particles) for k in filled]
            found = all_settled([targets[k] for k in filled], particles, memories)
            for k, end, memory in zip(known, found, memories, strict=False):
                ends[k] = _at_the_end(states[k], *end, memory, memory.moments())
        return ends

    def seen(self, state):
        if state.journey is None:
            return None
        footing = state.journey.footing
        found = Seen(*map(np.asarray, (footing.particles, footing.log_densities, footing.scores)))
        return None if np.all(np.isnan(found.scores)) else found  # as long as scouts look elsewhere

    def done(self, state):
        recalled = _recalled(state)
        return recalled is not None and recalled.enough

    def draws(self, target, state, *, key):
        journey = state.journey
        if journey is None:
            return Draws(state.particles)
        # Who is arriving has moved without looking; where the density ends, all may have stepped off.
        return Draws(jnp.where(journey.walk.explored > 0, state.particles, journey.footing.particles))


def _at_the_end(
    state: SVGDState, particles: np.ndarray, tail: Tail, recalled: Recollection, moments: Moments
) -> Settled:
    assert state.journey is not None
    end = dataclasses.replace(state, particles=as_array(particles, state.particles.dtype))
    steps = {"explored": int(state.journey.walk.explored), "remembered": recalled.count}
    trajectory = {**recalled.findings(moments), "tail": tail.length, "tail_of": tail.column}
    return Settled(end, {"steps": steps, "trajectory": trajectory}, recalled.states)


def _recalled(state: SVGDState) -> Recollection | None:
    """Return what the particles remember of their way, if anything."""
    journey = state.journey
    if journey is None or not (journey.warm and journey.memory.count):
        return None
    return journey.memory.recalled(noisy=bool(np.asarray(journey.heat) > 0))
