r"""Stein variational gradient descent (Liu & Wang, NIPS 2016, Algorithm 1).

$$x_i \leftarrow x_i + \epsilon\, \phi(x_i), \qquad
\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x) \nabla \log p(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

The first term drives the particles towards high density, the second keeps them apart. One particle climbs to the MAP.

As published, it needs a step size for every problem and loses the spread of the posterior as dimensions grow. The
defaults here need no tuning and keep the spread. Four parts of the same update are other than published, each an
argument: a kernel whose reach never fades plus a linear one, whose fixed point has the mean and covariance of a
Gaussian target; the coordinates of the cloud itself; a step that adapts; and exploration, which keeps single particles
from going astray. `docs/tuning-free.md` explains and measures all this.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from steinflow.methods.base import Draws, Method
from steinflow.methods.svgd.exploration import Barker, Exploration, NoExploration
from steinflow.methods.svgd.metrics import Cloud, Euclidean, Metric
from steinflow.methods.svgd.steps import Adaptive, DecayingAdam, StepRule, adagrad, as_step_rule
from steinflow.stein.approximations import Approximation, RandomFeatures
from steinflow.stein.bandwidths import Wide
from steinflow.stein.direction import stein_direction
from steinflow.stein.kernels import IMQ, RBF, Centered, Kernel, Linear, Multiquadric, positive_definite
from steinflow.typing import Particles, Point, Scalar


def _default_kernel(approximation: Approximation | None) -> Kernel:
    if isinstance(approximation, RandomFeatures):  # the multiquadric has no distribution of frequencies
        return Centered(IMQ(Wide()) + 0.02 * Linear())
    return Centered(Multiquadric(Wide()) + 0.02 * Linear())


class SVGDState(eqx.Module):
    """The particles, and what the step rule and the exploration remember."""

    particles: Particles
    step_rule: Any
    exploration: Any


class SVGD(Method):
    """Stein variational gradient descent.

    Particles whose score is not finite add nothing to the sum and are carried by the others; where no score is finite
    nothing moves. A move that is not finite is not made.

    Args:
        kernel: one of `sf.kernels`, as `sf.kernels.RBF()`, a sum of them, or a function k(x, y). None is the best
            measured, `Centered(Multiquadric(Wide()) + 0.02 * Linear())`; with random features `IMQ` for `Multiquadric`.
        metric: the coordinates to work in, `sf.svgd.Cloud()` by default, or `sf.svgd.Euclidean()`.
        optimizer: the step rule, `sf.svgd.Adaptive()` by default, or any optax optimiser. Step sizes of optax want
            `sf.svgd.Euclidean()`, unless they are meant in units of the cloud.
        exploration: how particles move by themselves, `sf.svgd.Barker()` or `sf.svgd.NoExploration()`. By default they
            explore where kernel, metric and optimizer are the defaults too, and nowhere else: no noise that nobody
            asked for.
        approximation: `sf.svgd.Subsample(m)` or `sf.svgd.RandomFeatures(m)`, for very many particles; None is exact.
    """

    kernel: Kernel
    metric: Metric
    step_rule: StepRule
    exploration: Exploration
    approximation: Approximation | None

    def __init__(
        self,
        kernel: Kernel | Callable[[Point, Point], Scalar] | None = None,
        metric: Metric | None = None,
        optimizer: StepRule | optax.GradientTransformation | None = None,
        exploration: Exploration | None = None,
        approximation: Approximation | None = None,
    ):
        all_default = kernel is None and metric is None and optimizer is None
        self.kernel = _default_kernel(approximation) if kernel is None else positive_definite(kernel)
        self.metric = Cloud() if metric is None else metric
        self.step_rule = Adaptive() if optimizer is None else as_step_rule(optimizer)
        self.exploration = (Barker() if all_default else NoExploration()) if exploration is None else exploration
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
        return SVGDState(particles, self.step_rule.init(particles), self.exploration.init(particles))

    def step(self, target, state, batch, *, time, key):
        x = state.particles
        pairs_key, exploration_key = jax.random.split(key)
        scores = target.scores(self.exploration.positions(x, state.exploration, time=time), batch)
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)

        frame = self.metric.frame(x)
        u, s = frame.points(x), frame.scores(jnp.where(known, scores, 0.0))
        phi = self._direction(u, s, key=pairs_key)
        moves, step_rule = self.step_rule.moves(phi, u, state.step_rule, time=time, noisy=target.noisy)
        strolls, exploration = self.exploration.moves(u, s, state.exploration, time=time, key=exploration_key)

        moved = x + frame.moves(moves + strolls)
        possible = jnp.all(jnp.isfinite(moved), axis=1, keepdims=True) & jnp.any(known)
        return SVGDState(jnp.where(possible, moved, x), step_rule, exploration)

    def _direction(self, u, s, *, key):
        if self.approximation is None:
            return stein_direction(u, s, self.kernel)
        return self.approximation.direction(u, s, self.kernel, key=key)

    def draws(self, target, state, *, key):
        return Draws(state.particles)
