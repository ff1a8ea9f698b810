r"""Particle mirror descent (Dai, He, Dai & Song, AISTATS 2016), with resampling from a kernel density at every step.

The mirror step is $q_{t+1} \propto q_t^{1-\gamma_t}\, p^{\gamma_t}$. With $q_t = \sum_i \pi_i K_h(\cdot - c_i)$,
$K_h(u) \propto e^{-|u|^2 / h}$ and $h = 0.002\, \mathrm{med}^2$, particles are drawn from $q_t$ and weighted by

$$\log \pi_j = \gamma_t \bigl[ \log p(\theta_j) - \log q_t(\theta_j) \bigr] + \text{const}.$$

It needs no gradients. The weight is the target of the step divided by $q_t$, which the draws come from: leaving out
that division collapses the particles.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.normals import normal
from steinflow.methods.base import Draws, Method, Time, need_log_density
from steinflow.stein.bandwidths import median_distance
from steinflow.stein.geometry import squared_distances
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Particles, Scalar, Weights


class PMDState(eqx.Module):
    """The centres of the kernel density, and their weights."""

    particles: Particles
    log_weights: Weights


class PMD(Method):
    r"""Particle mirror descent, with weights.

    Known bias: the bandwidth is so small that beyond one dimension the kernels hardly overlap. Then $q_t$ looks flat to
    the particles, and they collapse towards the mode. Resampling loses another $1/n$ of the variance per step, and the
    jitter adds $h/2$. If no particle starts near the posterior, a few particles get all the weight (watch the effective
    number $1 / \sum \pi_i^2$). The method fails on the paper's mixture.

    Args:
        step_size: $\gamma_t = $ `step_size` $/ (100 + \sqrt t)$, at most 1. By default $10^4 / N$ for N rows of data,
            as in the paper, and 10 for a target without data.
        bandwidth: h over the squared median distance.
        constant: keep $\gamma$ at `step_size`, the textbook's mirror descent.

    Raises:
        ValueError: if $\gamma$ is to be constant, and `step_size` is not between 0 and 1.
    """

    step_size: float | None = None
    bandwidth: float = 0.002
    constant: bool = eqx.field(default=False, kw_only=True)

    def __check_init__(self):
        if self.constant and not (self.step_size and 0 < self.step_size <= 1):
            raise ValueError(
                f"With PMD(constant=True), step_size is gamma and must be between 0 and 1; got {self.step_size}."
            )

    def init(self, target, particles, *, num_steps, key):
        need_log_density(target, "PMD")
        n = len(particles)
        return PMDState(particles, jnp.full(n, -jnp.log(n), particles.dtype))

    def step(self, target, state, batch, *, time, key):
        centres, log_weights = state.particles, state.log_weights
        h = self.bandwidth * median_distance(centres) ** 2
        h = jnp.maximum(h, jnp.finfo(centres.dtype).tiny)  # particles that all coincide
        pick_key, noise_key = jax.random.split(key)
        picked = centres[jax.random.categorical(pick_key, log_weights, shape=(len(centres),))]
        particles = picked + jnp.sqrt(h / 2) * normal(noise_key, centres.shape, centres.dtype)

        log_q = _log_kernel_density(particles, centres, log_weights, h)
        log_p = target.log_densities(particles, batch)
        log_p = jnp.where(jnp.isfinite(log_p), log_p, -jnp.inf)  # outside the support: no weight
        log_weights = self._rate(target, time).astype(log_q.dtype) * (log_p - log_q)
        lost = jnp.max(log_weights) == -jnp.inf
        log_weights = jnp.where(lost, 0.0, log_weights)
        log_weights = (log_weights - jax.nn.logsumexp(log_weights)).astype(centres.dtype)
        return PMDState(particles, log_weights)

    def draws(self, target, state, *, key):
        return Draws(state.particles, jnp.exp(state.log_weights))

    def _rate(self, target: FlatTarget, time: Time) -> Scalar:
        if self.constant:
            return jnp.asarray(self.step_size)
        default = 10.0 if target.data is None else 1e4 / target.num_rows
        size = default if self.step_size is None else self.step_size
        return jnp.minimum(size / (100 + jnp.sqrt(time.step)), 1.0)


def _log_kernel_density(x: Particles, centres: Particles, log_weights: Weights, h: Scalar) -> Weights:
    """Return log sum_i pi_i exp(-|x_j - c_i|^2 / h) for every row of x; its normaliser cancels."""
    return jax.nn.logsumexp(log_weights - squared_distances(x, centres) / h, axis=1)
