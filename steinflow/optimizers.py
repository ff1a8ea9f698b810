"""Step rules that optax does not have. SVGD takes any optax optimiser; these are in its form.

Factories are cached: the same settings give the same object, so that a second `fit` does not compile again.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from steinflow.typing import PyTree


@functools.cache
def adagrad(step_size: float = 0.1) -> optax.GradientTransformation:
    """AdaGrad, the optimiser of the paper's Algorithm 1."""
    return optax.adagrad(step_size, initial_accumulator_value=0.0, eps=1e-6)


class AccumulatorState(NamedTuple):
    """The running mean of squared directions; the first step starts it."""

    step: jax.Array
    mean_square: PyTree


@functools.cache
def adagrad_with_momentum(step_size: float = 1e-3, decay: float = 0.9) -> optax.GradientTransformation:
    r"""The accumulator of the authors' code, which they call AdaGrad with momentum.

    $G_0 = g_0^2$, $G_t = \rho G_{t-1} + (1 - \rho) g_t^2$, and a step of $\epsilon\, g / (10^{-6} + \sqrt{G})$.
    """

    def init(params):
        return AccumulatorState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None):
        rate = jnp.where(state.step == 0, 0.0, decay)
        mean_square = jax.tree.map(
            lambda old, g: (rate * old + (1 - rate) * g**2).astype(g.dtype),
            state.mean_square,
            updates,
        )
        steps = jax.tree.map(lambda g, square: -step_size * g / (1e-6 + jnp.sqrt(square)), updates, mean_square)
        return steps, AccumulatorState(state.step + 1, mean_square)

    return optax.GradientTransformation(init, update)
