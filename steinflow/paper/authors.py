"""What the authors' code and later replications do differently from the paper: kept here, to repeat their results."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike

import steinflow as sf
from steinflow.models.supervised import as_features
from steinflow.typing import Array, Params, PRNGKeyArray, PyTree


class AccumulatorState(NamedTuple):
    """The running mean of squared directions; the first step starts it."""

    step: jax.Array
    mean_square: PyTree


@functools.cache  # the same object for the same settings, so that a second fit does not compile again
def adagrad_with_momentum(step_size: float = 1e-3, decay: float = 0.9) -> optax.GradientTransformation:
    r"""Return the accumulator that the authors call AdaGrad with momentum.

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


def large_start(model: sf.models.GeneralizedLinear, key: PRNGKeyArray) -> Params:
    """Draw a starting particle with the rate b of alpha's prior taken for a scale: weights are 1/b times too large."""
    particle, rate = model.sample_prior(key), model.hyper.rate
    return {**particle, "log_alpha": particle["log_alpha"] + 2 * jnp.log(rate), "w": particle["w"] / rate}


class TemperedSGLD(sf.Method):
    """Parallel SGLD as in published replications: the drift alone is divided by n, and not the noise.

    This is parallel SGLD of p^(1/n), whose variance is n times too large.
    """

    step_size: float = 10.0
    decay: float = 0.55

    def init(self, target, particles, *, num_steps, key):
        return sf.ParallelSGLD().init(target, particles, num_steps=num_steps, key=key)

    def step(self, target, state, batch, *, time, key):
        n = len(state.particles)
        chains = sf.ParallelSGLD(n * self.step_size, self.decay)
        return chains.step(target.tempered(jnp.asarray(1 / n)), state, batch, time=time, key=key)

    def draws(self, target, state, *, key):
        return sf.ParallelSGLD().draws(target, state, key=key)


def num_dev_rows(num_rows: int) -> int:
    """Return how many training rows, the last ones, the authors hold out for the noise of networks."""
    return min(round(0.1 * num_rows), 500)


def with_dev_noise(model: sf.models.NeuralNetwork, particles: Params, X: ArrayLike, y: ArrayLike) -> Params:
    """Return the particles, each with the noise that suits these held-out rows best: its mean squared error.

    The authors' code does this before it computes test log-likelihoods: it compares the posterior noise with the
    maximiser on rows held out from training, and the maximiser always wins.
    """
    y = model.responses(model.checked(y))
    return {**particles, "log_gamma": _dev_log_gamma(model, particles, as_features(X), y)}


@eqx.filter_jit
def _dev_log_gamma(model, particles, X, y) -> Array:
    def log_gamma(params):
        return -jnp.log(jnp.mean((model.forward(params, model.inputs(X)) - y) ** 2))

    return jax.vmap(log_gamma)(particles)
