r"""Probabilistic backpropagation (Hernández-Lobato & Adams, ICML 2015), for regression networks of ReLUs.

Every weight has a Gaussian $N(m, v)$ of its own, the precisions of noise and weights a Gamma(a, b) each. A row (x, y)
is sent through the network as means and variances, matched layer by layer; with $Z = N(y; m, v + b/(a-1))$ at the end,

$$m \leftarrow m + v\, \partial_m \log Z, \qquad
v \leftarrow v - v^2 \bigl[ (\partial_m \log Z)^2 - 2\, \partial_v \log Z \bigr]$$

for every weight at once (assumed density filtering). A step is an epoch: one pass over the rows in a new order, then
one over the prior factors of the weights, which also updates the precision that they share.
"""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import ArrayLike

from steinflow.methods.base import Draws, Method, refuse_minibatches
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar

_PRIOR = 6.0  # shape and rate of both Gamma priors
_HALF_LOG_2PI = 0.9189385332046727


class Gamma(NamedTuple):
    """Shape and rate of a precision."""

    a: Array
    b: Array


class Factors(NamedTuple):
    """What the prior of each weight contributes, as natural parameters, in the order of the sweep."""

    m: Array
    v: Array
    a: Array
    b: Array


class PBPState(eqx.Module):
    """The approximate posterior: layers of shape (units, inputs + 1), the last column being the bias."""

    means: tuple[Array, ...]
    variances: tuple[Array, ...]
    noise: Gamma
    precision: Gamma
    factors: Factors
    num_draws: int = eqx.field(static=True)


class Predictions(NamedTuple):
    """On the scale of the raw y: mean and variance of the network's output, and the variance of the noise."""

    mean: Array
    variance: Array
    noise: Array


class PBP(Method):
    """Probabilistic backpropagation; a step is an epoch, and 40 are the authors' choice.

    The target is `sf.models.NeuralNetwork(X, y)`, with ReLUs, a real y and all rows. The network that is trained is the
    authors': layers divided by the square root of their inputs, Gamma(6, 6) priors; weights in the result carry that
    division, so that the model predicts from them. `train` and `evaluate` give the closed-form predictions of the
    paper. It starts from its own random weights, whatever the particles; there are as many draws as particles.

    Known bias: rows are counted again in every epoch, so the weights are overconfident. All weights are independent.
    """

    def init(self, target, particles, *, num_steps, key):
        refuse_minibatches(target, "PBP", "it takes the rows one at a time, all of them in each step")
        return initial_state(_checked(target.posterior).sizes, len(particles), key)

    def step(self, target, state, batch, *, time, key):
        return epoch(state, target.data.values["X"], target.data.values["y"], key)

    def draws(self, target, state, *, key):
        return Draws(target.from_user(jax.vmap(lambda k: _draw(state, k))(jax.random.split(key, state.num_draws))))

    def train(self, model: Any, *, num_epochs: int = 40, key: PRNGKeyArray) -> PBPState:
        """Return the approximate posterior itself, for `predict` and `evaluate`."""
        return _train(_checked(model), num_epochs, key)

    def predict(self, model: Any, state: PBPState, X: ArrayLike) -> Predictions:
        """Return the closed-form predictions for raw rows X."""
        return _predict(model, state, jnp.asarray(X, model.data.values["X"].dtype))

    def evaluate(self, model: Any, state: PBPState, X: ArrayLike, y: ArrayLike) -> dict[str, float]:
        """Return the test `rmse` and mean `log_likelihood` of the closed-form predictions."""
        mean, variance, noise = self.predict(model, state, X)
        errors, total = jnp.asarray(y) - mean, variance + noise
        log_likelihood = jnp.mean(-0.5 * jnp.log(2 * jnp.pi * total) - 0.5 * errors**2 / total)
        return {"rmse": float(jnp.sqrt(jnp.mean(errors**2))), "log_likelihood": float(log_likelihood)}


def initial_state(sizes: tuple[int, ...], num_draws: int, key: PRNGKeyArray) -> PBPState:
    """Return the prior, with random means to break the symmetry."""
    shapes = [(units, inputs + 1) for inputs, units in itertools.pairwise(sizes)]
    keys = jax.random.split(key, len(shapes))
    means = tuple(jax.random.normal(k, shape) / shape[1] ** 0.5 for k, shape in zip(keys, shapes, strict=True))
    variances = tuple(jnp.full(shape, _PRIOR / (_PRIOR - 1)) for shape in shapes)
    zeros = jnp.zeros(sum(units * inputs for units, inputs in shapes))
    prior = Gamma(jnp.full((), _PRIOR), jnp.full((), _PRIOR))
    factors = Factors(zeros, jnp.full_like(zeros, (_PRIOR - 1) / _PRIOR), zeros, zeros)
    return PBPState(means, variances, prior, prior, factors, num_draws)


def relu_moments(m: Array, v: Array) -> tuple[Array, Array]:
    """Return mean and variance of max(0, x) for x ~ N(m, v), also far in the tail."""
    sd = jnp.sqrt(v)
    far = m / sd < (-30.0 if m.dtype == jnp.float64 else -10.0)
    # Two ways, each kept away from where it fails so that its gradient stays finite.
    z = jnp.where(far, -1.0, m / sd)
    tail = jnp.where(far, m / sd, -40.0)
    g = jnp.where(far, -tail - 1 / tail + 2 / tail**3, jnp.exp(-0.5 * z**2 - _HALF_LOG_2PI - log_ndtr(z)))
    rest = jnp.where(far, 1 / tail**2 - 6 / tail**4, 1 - g * (g + z))
    shift = jnp.where(far, -1 / tail + 2 / tail**3, g + z)
    p = ndtr(m / sd)
    mean = p * sd * shift
    return mean, mean * sd * shift * ndtr(-m / sd) + p * v * rest


def forward(means: tuple[Array, ...], variances: tuple[Array, ...], x: Array) -> tuple[Scalar, Scalar]:
    """Return mean and variance of the network's output for one row."""
    m, v = x, jnp.zeros_like(x)
    for layer, (M, V) in enumerate(zip(means, variances, strict=True)):
        if layer:
            m, v = relu_moments(m, v)
        m, v = jnp.append(m, 1.0), jnp.append(v, 0.0)
        inputs = M.shape[1]
        m, v = M @ m / inputs**0.5, (V @ (v + m**2) + M**2 @ v) / inputs
    return m[0], v[0]


def gamma_update(gamma: Gamma, v: Scalar, residual: Scalar) -> Gamma:
    r"""Return the Gamma that matches two moments after seeing a residual with variance v plus noise.

    With $\log Z_i = -\frac12 (\log V_i + r^2/V_i)$ and $V = v + b/(a-1),\ v + b/a,\ v + b/(a+1)$. The differences of
    the $\log Z_i$ are of order 1/a and theirs of order 1/a^2, so they are taken in closed form: a may be thousands.
    """
    a, b = gamma
    v0, v1, v2 = v + b / (a - 1), v + b / a, v + b / (a + 1)
    step10, step21 = b / (a * (a - 1)), b / (a * (a + 1))  # V0 - V1, V1 - V2
    log10 = -0.5 * (jnp.log1p(-step10 / v0) + residual**2 * step10 / (v0 * v1))
    log21 = -0.5 * (jnp.log1p(-step21 / v1) + residual**2 * step21 / (v1 * v2))
    bend = log21 - log10
    new_a = 1 / jnp.expm1(bend + jnp.log1p(1 / a))
    new_b = b / (a * jnp.exp(log10) * jnp.expm1(bend) + jnp.exp(log21))
    return Gamma(new_a, new_b)


def filter_row(means, variances, noise: Gamma, x: Array, y: Scalar):
    """Return means, variances and noise after one row."""

    def log_z(means, variances):
        m, v = forward(means, variances, x)
        total = v + noise.b / (noise.a - 1)
        return -0.5 * (jnp.log(total) + (y - m) ** 2 / total), (m, v)

    (by_mean, by_variance), (m, v) = jax.grad(log_z, argnums=(0, 1), has_aux=True)(means, variances)

    def update(m, v, dm, dv):
        new_m, new_v = m + v * dm, v - v**2 * (dm**2 - 2 * dv)
        valid = (new_v > jnp.maximum(1e-100, jnp.finfo(v.dtype).tiny)) & jnp.isfinite(new_m) & jnp.isfinite(new_v)
        return jnp.where(valid, new_m, m), jnp.where(valid, new_v, v)

    layers = [update(*leaves) for leaves in zip(means, variances, by_mean, by_variance, strict=True)]
    new_means, new_variances = zip(*layers, strict=True)
    return new_means, new_variances, gamma_update(noise, v, y - m)


class Weight(NamedTuple):
    """One weight and what its prior factor contributes to it."""

    m: Array
    v: Array
    factors: Factors


def refine_weight(precision: Gamma, weight: Weight) -> tuple[Gamma, Weight]:
    """Take out the prior factor of one weight, and put it back in anew."""
    m, v, old = weight
    cavity_v = 1 / (1 / v - old.v)
    cavity_m = cavity_v * (m / v - old.m)
    cavity = Gamma(precision.a - old.a, precision.b + old.b)
    valid = (cavity_v > 0) & (cavity_v < 1e6) & (cavity.b > 0) & (cavity.a > 1)
    # Where the cavity is no distribution everything stays; 1 keeps the formulas finite meanwhile.
    safe_v = jnp.where(valid, cavity_v, 1.0)
    safe_m = jnp.where(valid, cavity_m, 1.0)
    safe = Gamma(jnp.where(valid, cavity.a, 2.0), jnp.where(valid, cavity.b, 1.0))

    prior_v = safe.b / (safe.a - 1)
    new_m, new_v = safe_m * prior_v / (safe_v + prior_v), safe_v * prior_v / (safe_v + prior_v)
    refined = gamma_update(safe, safe_v, safe_m)
    factors = Factors(new_m / new_v - safe_m / safe_v, 1 / new_v - 1 / safe_v, refined.a - safe.a, safe.b - refined.b)
    new = (refined, Weight(new_m, new_v, factors))
    return jax.tree.map(lambda new, old: jnp.where(valid, new, old), new, (precision, weight))


def epoch(state: PBPState, X: Array, y: Array, key: PRNGKeyArray) -> PBPState:
    """Return the state after one pass over the rows and one over the prior factors."""
    order = jax.random.permutation(key, len(y))

    def row(carry, i):
        means, variances, noise = carry
        return filter_row(means, variances, noise, X[i], y[i]), None

    (means, variances, noise), _ = jax.lax.scan(row, (state.means, state.variances, state.noise), order)

    sweep = Weight(_flat(means), _flat(variances), state.factors)
    precision, refined = jax.lax.scan(refine_weight, state.precision, sweep)
    return PBPState(
        _layers(refined.m, means), _layers(refined.v, variances), noise, precision, refined.factors, state.num_draws
    )


@eqx.filter_jit
def _train(model, num_epochs, key):
    init_key, key = jax.random.split(key)
    X, y = model.data.values["X"], model.data.values["y"]
    state = initial_state(model.sizes, 1, init_key)
    return jax.lax.fori_loop(0, num_epochs, lambda i, state: epoch(state, X, y, jax.random.fold_in(key, i)), state)


@eqx.filter_jit
def _predict(model, state, X):
    mean, variance = jax.vmap(lambda x: forward(state.means, state.variances, x))(model.inputs(X))
    scale, shift = model.responses.scale, model.responses.shift
    return Predictions(mean * scale + shift, variance * scale**2, state.noise.b / (state.noise.a - 1) * scale**2)


def _draw(state: PBPState, key: PRNGKeyArray) -> Params:
    """Draw one network in the parameters of the model, the division by the square root of the inputs included."""
    noise_key, precision_key, *keys = jax.random.split(key, 2 + len(state.means))
    layers = [
        (m + jnp.sqrt(v) * jax.random.normal(k, m.shape, m.dtype)) / m.shape[1] ** 0.5
        for k, m, v in zip(keys, state.means, state.variances, strict=True)
    ]
    return {
        "weights": tuple(layer[:, :-1].T for layer in layers),
        "biases": tuple(layer[:, -1] for layer in layers),
        "log_gamma": jax.random.loggamma(noise_key, state.noise.a) - jnp.log(state.noise.b),
        "log_lambda": jax.random.loggamma(precision_key, state.precision.a) - jnp.log(state.precision.b),
    }


def _flat(layers):
    return jnp.concatenate([layer.reshape(-1) for layer in layers])


def _layers(flat, like):
    ends = list(itertools.accumulate(layer.size for layer in like))
    return tuple(flat[end - layer.size : end].reshape(layer.shape) for end, layer in zip(ends, like, strict=True))


def _checked(model: Any) -> Any:
    """Return the model if it is the network that this method is made for."""
    relu = getattr(model, "activation", None) is jax.nn.relu
    head: Any = getattr(model, "head", None)
    one_noise = getattr(head, "noisy", False) and head.family.name == "gaussian"
    if not (hasattr(model, "sizes") and relu and one_noise):
        raise ValueError(
            "PBP works on regression networks of ReLUs only: sf.models.NeuralNetwork(X, y, hidden=(50,)) with "
            f"activation 'relu' and the family Gaussian(); got {type(model).__name__}. For this target use sf.SVGD()."
        )
    return model
