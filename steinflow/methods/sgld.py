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
from steinflow.methods.base import Draws, Method
from steinflow.methods.trace import Trace
from steinflow.typing import Array, Particles, Point, Scalar


class Schedule(eqx.Module):
    """Steps a (b + t)^-kappa; kappa between 1/2 and 1 makes the bias vanish in the limit, 0 is a constant step."""

    step_size: float
    decay: float = 0.55
    offset: float = 1.0

    def __check_init__(self):
        if not (self.step_size > 0 and 0 <= self.decay <= 1 and self.offset > 0):
            raise ValueError(
                "step_size and offset are positive and decay lies between 0 and 1; "
                f"got {self.step_size}, {self.offset} and {self.decay}."
            )

    def __call__(self, step: Array) -> Scalar:
        return self.step_size * (self.offset + step) ** -self.decay


def langevin(x: Particles, scores: Particles, step_size: Scalar, temperature: float, key) -> Particles:
    """Return the points one Langevin step later; a move that is not finite is not made."""
    # A branch is compiled by itself: fused with scores that are glued together, drawing would take three times as long.
    noise = jax.lax.cond(step_size > 0, lambda: normal(key, x.shape, x.dtype), lambda: jnp.zeros_like(x))
    noise = jnp.sqrt(temperature * step_size) * noise
    moved = x + 0.5 * step_size * scores + noise
    return jnp.where(jnp.all(jnp.isfinite(moved), axis=-1, keepdims=True), moved, x)


class SGLDState(eqx.Module):
    """Where the chain is, the points that it keeps, and the number of the step."""

    x: Point
    trace: Trace
    step: Array


class SGLD(Method):
    r"""One Langevin chain, from the first of the particles; its last points are the posterior.

    It keeps as many points as there are particles: `num_particles=100` gives the last 100 iterates, as in the paper.

    Known bias: the spread is too wide by the step size (a factor $1/(1 - \delta / (4 s^2))$ of the variance on a
    Gaussian) and by minibatch noise, too narrow while the chain has not travelled far: successive points are close.

    Args:
        step_size: a; it must stay below four times the smallest posterior variance.
        decay: kappa; 0 for a constant step.
        thin: keep every so many steps.
        offset: b.
    """

    step_size: float = 0.1
    decay: float = 0.55
    thin: int = 1
    offset: float = 1.0

    def __check_init__(self):
        Schedule(self.step_size, self.decay, self.offset)
        if self.thin < 1:
            raise ValueError(f"thin must be at least 1; got {self.thin}.")

    def init(self, target, particles, *, num_steps, key):
        x = particles[0]
        return SGLDState(x, Trace.starting_at(x, len(particles)), jnp.zeros((), jnp.int32))

    def step(self, target, state, batch, *, key):
        score = target.scores(state.x[None], batch)[0]
        size = Schedule(self.step_size, self.decay, self.offset)(state.step).astype(state.x.dtype)
        x = langevin(state.x, score, size, 1.0, key)
        step = state.step + 1
        trace = jax.lax.cond(step % self.thin == 0, lambda: state.trace.keep(x), lambda: state.trace)
        return SGLDState(x, trace, step)

    def draws(self, target, state, *, key):
        return Draws(state.trace.in_order())


class ParallelSGLDState(eqx.Module):
    """Where the chains are, and the number of the step."""

    particles: Particles
    step: Array


class ParallelSGLD(Method):
    r"""Independent Langevin chains, one per particle; the last point of each is the posterior.

    As in the paper the step of each of the n chains is $\delta_t = \epsilon_t / n$, with $\epsilon_t$ on the scale of
    SVGD's steps, in the drift and in the variance of the noise alike. The chains share their minibatch.

    Known bias: as for `SGLD`, the step widens the spread; and the chains forget their start only slowly.

    Args:
        step_size: a of $\epsilon_t$; it must stay below 4 n times the smallest posterior variance.
        decay: kappa; 0 for a constant step.
        temper: divide only the drift by n, not the noise. This samples $p^{1/n}$, n times too wide: it is here because
            published replications do it.
        offset: b.
    """

    step_size: float = 10.0
    decay: float = 0.55
    temper: bool = eqx.field(default=False, kw_only=True)
    offset: float = 1.0

    def __check_init__(self):
        Schedule(self.step_size, self.decay, self.offset)

    def init(self, target, particles, *, num_steps, key):
        return ParallelSGLDState(particles, jnp.zeros((), jnp.int32))

    def step(self, target, state, batch, *, key):
        x, n = state.particles, len(state.particles)
        size = Schedule(self.step_size, self.decay, self.offset)(state.step).astype(x.dtype) / n
        temperature = float(n) if self.temper else 1.0
        moved = langevin(x, target.scores(x, batch), size, temperature, key)
        return ParallelSGLDState(moved, state.step + 1)

    def draws(self, target, state, *, key):
        # One chain for ArviZ: its draws are independent, and statistics over chains of one draw each mean nothing.
        return Draws(state.particles)
