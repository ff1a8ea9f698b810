r"""Stochastic gradient Langevin dynamics (Welling & Teh, ICML 2011), one chain or many.

$$x \leftarrow x + \frac{\delta_t}{2} \nabla \log p(x) + \sqrt{\delta_t}\, \xi, \qquad \xi \sim N(0, I), \qquad
\delta_t = a\, (b + t)^{-\kappa}$$

with the gradient of a minibatch where there are minibatches. There is no rejection, so the step biases the spread: on
$N(m, s^2)$ a constant step gives the mean m and the variance $s^2 / (1 - \delta / (4 s^2))$, and it diverges for
$\delta \ge 4 s^2$ (the narrowest direction decides). The noise of minibatches widens the spread further.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.normals import normal
from steinflow.methods.base import Draws, Method, Time
from steinflow.methods.trace import Trace
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Particles, Point, PRNGKeyArray, Scalar

_LONGEST = 0.1  # for parameters of unit scale, without data


class Schedule(eqx.Module):
    """Steps a (b + t)^-kappa; kappa between 1/2 and 1 makes the bias vanish in the limit, 0 is a constant step.

    Where a is not given it is 0.1, and with more than ten rows of data 1/N: variances fall as 1/N, and a step that is
    longer than four of them diverges.
    """

    step_size: float | None
    decay: float = 0.55
    offset: float = 1.0

    def __check_init__(self):
        if not ((self.step_size is None or self.step_size > 0) and 0 <= self.decay <= 1 and self.offset > 0):
            raise ValueError(
                "step_size and offset must be positive, and decay must be between 0 and 1; "
                f"got {self.step_size}, {self.offset} and {self.decay}."
            )

    def __call__(self, time: Time, target: FlatTarget, num_chains: int = 1) -> Scalar:
        """Return the step of one of so many chains, which share the step size where it is given."""
        by_rows = min(_LONGEST, 1 / target.num_rows)
        size = by_rows if self.step_size is None else self.step_size / num_chains
        return size * (self.offset + time.step.astype(float)) ** -self.decay


def langevin(x: Array, scores: Array, step_size: Scalar, *, key: PRNGKeyArray) -> Array:
    """Return the points one Langevin step later; a move that is not finite is not made."""
    # A branch is compiled by itself: fused with scores that are glued together, drawing would take three times as long.
    noise = jax.lax.cond(step_size > 0, lambda: normal(key, x.shape, x.dtype), lambda: jnp.zeros_like(x))
    moved = x + 0.5 * step_size * scores + jnp.sqrt(step_size) * noise
    return jnp.where(jnp.all(jnp.isfinite(moved), axis=-1, keepdims=True), moved, x)


class SGLDState(eqx.Module):
    """Where the chain is, and the points that it keeps."""

    x: Point
    trace: Trace


class SGLD(Method):
    r"""One Langevin chain, from the first of the particles; its last points are the posterior.

    It keeps as many points as there are particles: `num_particles=100` gives the last 100 iterates, as in the paper,
    or all iterates if there are fewer.

    Known bias: the step size makes the spread too wide (by a factor $1/(1 - \delta / (4 s^2))$ of the variance on a
    Gaussian), and so does minibatch noise. The spread is too narrow until the chain has travelled far, because
    successive points are close.

    Args:
        step_size: a; it must stay below four times the smallest posterior variance. By default 1/N for N rows of data,
            which is short enough where columns have unit scale, and at most 0.1.
        decay: kappa; 0 for a constant step.
        thin: keep one point every `thin` steps.
        offset: b.

    Raises:
        ValueError: if `thin` is less than 1.
    """

    step_size: float | None = None
    decay: float = 0.55
    thin: int = 1
    offset: float = 1.0

    def __check_init__(self):
        Schedule(self.step_size, self.decay, self.offset)
        if self.thin < 1:
            raise ValueError(f"thin must be at least 1; got {self.thin}.")

    def init(self, target, particles, *, num_steps, key):
        x = particles[0]
        return SGLDState(x, Trace.starting_at(x, len(particles)))

    def step(self, target, state, batch, *, time, key):
        score = target.scores(state.x[None], batch)[0]
        size = Schedule(self.step_size, self.decay, self.offset)(time, target).astype(state.x.dtype)
        x = langevin(state.x, score, size, key=key)
        due = (time.step + 1) % self.thin == 0
        return SGLDState(x, jax.lax.cond(due, lambda: state.trace.keep(x), lambda: state.trace))

    def draws(self, target, state, *, key):
        return Draws(state.trace.in_order(), count=state.trace.num_kept)


class ParallelSGLDState(eqx.Module):
    """Where the chains are."""

    particles: Particles


class ParallelSGLD(Method):
    r"""Independent Langevin chains, one per particle; the last point of each is the posterior.

    As in the paper the step of each of the n chains is $\delta_t = \epsilon_t / n$, with $\epsilon_t$ on the scale of
    SVGD's steps, in the drift and in the variance of the noise alike. The chains share their minibatch.

    Known bias: as for `SGLD`, the step widens the spread; and the chains forget their start only slowly.

    Args:
        step_size: a of $\epsilon_t$; it must stay below 4 n times the smallest posterior variance. By default n/N for N
            rows of data, and at most n/10.
        decay: kappa; 0 for a constant step.
        offset: b.
    """

    step_size: float | None = None
    decay: float = 0.55
    offset: float = 1.0

    def __check_init__(self):
        Schedule(self.step_size, self.decay, self.offset)

    def init(self, target, particles, *, num_steps, key):
        return ParallelSGLDState(particles)

    def step(self, target, state, batch, *, time, key):
        x, n = state.particles, len(state.particles)
        size = Schedule(self.step_size, self.decay, self.offset)(time, target, n).astype(x.dtype)
        return ParallelSGLDState(langevin(x, target.scores(x, batch), size, key=key))

    def draws(self, target, state, *, key):
        # One chain for ArviZ: its draws are independent, and statistics over chains of one draw each mean nothing.
        return Draws(state.particles)
