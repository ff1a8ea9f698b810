r"""Stein variational gradient descent (Liu & Wang, NIPS 2016, Algorithm 1).

$$x_i \leftarrow x_i + \epsilon\, \phi(x_i), \qquad
\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x) \nabla \log p(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

The first term drives the particles towards high density, the second keeps them apart. One particle climbs to the MAP.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax

from steinflow.approximations import Approximation
from steinflow.kernels import RBF, Kernel, as_kernel
from steinflow.methods.base import Draws, Method
from steinflow.metrics import Euclidean, Metric
from steinflow.optimizers import adagrad
from steinflow.stein import stein_direction
from steinflow.typing import Particles


class SVGDState(eqx.Module):
    """The particles, and what the optimiser remembers."""

    particles: Particles
    optimizer_state: Any


class SVGD(Method):
    """Stein variational gradient descent.

    Particles whose score is not finite add nothing to the sum and are carried by the others; a move that is not finite
    is not made.

    Args:
        kernel: `sf.RBF()`, `sf.IMQ()`, `sf.Linear()`, a sum of them, or a function k(x, y).
        metric: the coordinates to work in.
        optimizer: any optax optimiser; it sees the negative direction in the metric's coordinates.
        approximation: `sf.Subsample(m)` or `sf.RandomFeatures(m)`, for very many particles; None is exact.
    """

    kernel: Kernel = eqx.field(default=RBF(), converter=as_kernel)
    metric: Metric = Euclidean()
    optimizer: optax.GradientTransformation = adagrad()
    approximation: Approximation | None = None

    @classmethod
    def paper(cls, step_size: float = 0.1) -> "SVGD":
        """Return Algorithm 1 as published: RBF kernel, median bandwidth, AdaGrad."""
        return cls(kernel=RBF(), metric=Euclidean(), optimizer=adagrad(step_size))

    def init(self, target, particles, *, num_steps, key):
        return SVGDState(particles, self.optimizer.init(particles))

    def step(self, target, state, batch, *, key):
        x = state.particles
        scores = target.scores(x, batch)
        scores = jnp.where(jnp.all(jnp.isfinite(scores), axis=1, keepdims=True), scores, 0.0)

        frame = self.metric.frame(x)
        u = frame.points(x)
        if self.approximation is None:
            direction = stein_direction(u, frame.scores(scores), self.kernel)
        else:
            direction = self.approximation.direction(u, frame.scores(scores), self.kernel, key=key)

        # optax descends, the Stein direction ascends: the one change of sign.
        updates, optimizer_state = self.optimizer.update(-direction, state.optimizer_state, u)
        moved = x + frame.moves(jnp.asarray(updates))
        finite = jnp.all(jnp.isfinite(moved), axis=1, keepdims=True)
        return SVGDState(jnp.where(finite, moved, x), optimizer_state)

    def draws(self, target, state, *, key):
        return Draws(state.particles)
