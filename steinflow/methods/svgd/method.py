r"""Stein variational gradient descent (Liu & Wang, NIPS 2016, Algorithm 1).

$$x_i \leftarrow x_i + \epsilon\, \phi(x_i), \qquad
\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x) \nabla \log p(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

The first term drives the particles towards high density, the second keeps them apart. One particle climbs to the MAP.

As published, it needs a step size for every problem and loses the spread of the posterior as dimensions grow. The
defaults here need no tuning and keep the spread, by three changes that stay within the same update: a kernel whose
reach never fades plus a linear one, whose fixed point has the mean and covariance of a Gaussian target; the coordinates
of the cloud itself; and a step that adapts. Exploration keeps single particles from going astray.
`docs/tuning-free.md` explains and measures all this.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from steinflow.methods.base import Draws, Method
from steinflow.methods.svgd.metrics import Cloud, Euclidean, Metric
from steinflow.methods.svgd.steps import adagrad, adaptive, decaying_adam
from steinflow.stein.approximations import Approximation, RandomFeatures
from steinflow.stein.bandwidths import Wide
from steinflow.stein.kernels import IMQ, RBF, Centered, Kernel, Linear, Multiquadric, as_kernel, check_definite
from steinflow.stein.operators import stein_direction
from steinflow.targets.base import Target
from steinflow.typing import Array, Particles, Point, Scalar


def _default_kernel(approximation: Approximation | None) -> Kernel:
    if isinstance(approximation, RandomFeatures):  # the multiquadric has no distribution of frequencies
        return Centered(IMQ(Wide()) + 0.02 * Linear())
    return Centered(Multiquadric(Wide()) + 0.02 * Linear())


class SVGDState(eqx.Module):
    """The particles, what the optimiser remembers, which step of how many comes next, and how steep the target is."""

    particles: Particles
    optimizer_state: Any
    step: Array
    num_steps: Array
    steepness: Array


class SVGD(Method):
    """Stein variational gradient descent.

    Particles whose score is not finite add nothing to the sum and are carried by the others; where no score is finite
    nothing moves. A move that is not finite is not made.

    Args:
        kernel: `sf.RBF()`, `sf.IMQ()`, `sf.Linear()`, a sum of them, or a function k(x, y); None is the best measured,
            `sf.Centered(sf.Multiquadric(sf.Wide()) + 0.02 * sf.Linear())`; with random features `sf.IMQ`.
        metric: the coordinates to work in, `sf.Cloud()`, in which particles also explore, or `sf.Euclidean()`.
        optimizer: `sf.adaptive()` or any optax optimiser; it sees the negative direction in the metric's coordinates.
            Step sizes of optax want `sf.Euclidean()`, unless they are meant in units of the cloud.
        approximation: `sf.Subsample(m)` or `sf.RandomFeatures(m)`, for very many particles; None is exact.
    """

    kernel: Kernel
    metric: Metric
    optimizer: optax.GradientTransformation
    approximation: Approximation | None

    def __init__(
        self,
        kernel: Kernel | Callable[[Point, Point], Scalar] | None = None,
        metric: Metric = Cloud(),
        optimizer: optax.GradientTransformation = adaptive(),
        approximation: Approximation | None = None,
    ):
        self.kernel = _default_kernel(approximation) if kernel is None else as_kernel(kernel)
        self.metric, self.optimizer, self.approximation = metric, optimizer, approximation

    def __check_init__(self):
        check_definite(self.kernel)
        if not isinstance(self.optimizer, optax.GradientTransformation):
            raise TypeError(
                f"optimizer is sf.adaptive() or an optax optimiser, as optax.adam(0.1); got {self.optimizer!r}."
            )

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
        return cls(kernel=RBF(), metric=Euclidean(), optimizer=decaying_adam(reach))

    @classmethod
    def default_for(cls, target: Target) -> "SVGD":
        """Return what `sf.fit` takes where no method is given."""
        return cls() if target.reach is None else cls.for_networks(target.reach)

    def init(self, target, particles, *, num_steps, key):
        step, steepness = jnp.zeros((), jnp.int32), jnp.ones((), particles.dtype)
        return SVGDState(particles, self.optimizer.init(particles), step, num_steps, steepness)

    def step(self, target, state, batch, *, key):
        x, exploration = state.particles, self.metric.exploration
        scores = target.scores(x if exploration is None else exploration.places(x, state.step, state.steepness), batch)
        known = jnp.all(jnp.isfinite(scores), axis=1, keepdims=True)
        scores = jnp.where(known, scores, 0.0)

        frame = self.metric.frame(x)
        u, scores = frame.points(x), frame.scores(scores)
        if self.approximation is None:
            direction = stein_direction(u, scores, self.kernel)
        else:
            key, pairs_key = jax.random.split(key)
            direction = self.approximation.direction(u, scores, self.kernel, key=pairs_key)

        # optax descends, the Stein direction ascends: the one change of sign.
        fraction = state.step / state.num_steps
        updates, optimizer_state = optax.with_extra_args_support(self.optimizer).update(
            -direction,
            state.optimizer_state,
            u,
            fraction=fraction,
            num_steps=state.num_steps,
            noisy=batch is not None,
        )
        moves, steepness = jnp.asarray(updates), state.steepness
        if exploration is not None:
            steepness = exploration.steepness(scores)
            moves += exploration.moves(u, scores, fraction, key=key)
        moved = x + frame.moves(moves)
        possible = jnp.all(jnp.isfinite(moved), axis=1, keepdims=True) & jnp.any(known)
        x = jnp.where(possible, moved, x)
        return SVGDState(x, optimizer_state, state.step + 1, state.num_steps, steepness)

    def draws(self, target, state, *, key):
        return Draws(state.particles)
