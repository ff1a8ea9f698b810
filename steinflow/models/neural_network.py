r"""Bayesian neural networks, fully connected, of any depth, activation and family.

$f(x) = W_L^\top g(\dots g(W_1^\top x + b_1) \dots) + b_L$; every weight and bias $\sim N(0, 1/\lambda)$; for real y
the noise is $N(0, 1/\gamma)$; $\gamma, \lambda \sim \mathrm{Gamma}(1, 0.1)$ with rate 0.1. The paper's network has one
hidden layer of ReLUs. Few particles cannot infer $\lambda$: the density of all weights is highest where they vanish.
With a prior of fixed width there is no such place to fall into, but no width suits all data: members of an ensemble
try two (`sf.Ensemble`).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from steinflow.devices.arrays import as_array
from steinflow.models.families import Family, Gaussian
from steinflow.models.heads import Head, log_prior_of_auxiliary
from steinflow.models.supervised import Supervised, log_gamma_prior, sample_log_gamma
from steinflow.targets.posterior import CountablePrior
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar

USUAL_SCALE = 4.0  # of weights; a scale that members of ensembles may find too wide


class _Layers(eqx.Module):
    activation: Callable[[Array], Array]

    def __call__(self, params, X):
        layers = list(zip(params["weights"], params["biases"], strict=True))
        outputs = through_layers(layers, X, self.activation)
        return outputs[..., 0] if outputs.shape[-1] == 1 else outputs


def through_layers(layers: Sequence[tuple[Any, Any]], X: Any, activation: Callable[[Any], Any]) -> Any:
    """Return the outputs of a network for every row, the last axis; arrays are of JAX or of NumPy, all of them.

    Args:
        layers: weights, inputs x outputs, and biases of every layer; those of many particles have an axis in front.
        X: one row per example.
        activation: between layers; it is given rows.
    """
    *hidden, (last, last_biases) = layers
    columns = _flipped(X)  # one example per column: with many particles this takes half the time of rows
    for weights, biases in hidden:
        columns = _flipped(activation(_flipped(_flipped(weights) @ columns + biases[..., None])))
    return _flipped(_flipped(last) @ columns + last_biases[..., None])


def _flipped(x):
    return x.swapaxes(-1, -2)


class FanIn(eqx.Module):
    """Every parameter N(0, scale^2 / fan_in), with fan_in = 1 for biases and other vectors.

    Attributes:
        scale: of weights and biases; an array, so that all scales share compiled code.
        outputs_last: whether the last axis of a weight counts outputs, or the first.
    """

    scale: Array = eqx.field(converter=lambda scale: as_array(scale, float))
    outputs_last: bool = True

    def __check_init__(self):
        if self.scale <= 0:
            raise ValueError(f"prior_scale must be positive; got {self.scale}.")

    def __call__(self, params: Params) -> Scalar:
        return -0.5 * jnp.asarray(sum(jnp.sum((x / self._sd(x)) ** 2) for x in jax.tree.leaves(params)))

    def sample(self, params: Params, key: PRNGKeyArray) -> Params:
        """Draw parameters of these shapes."""
        leaves, structure = jax.tree.flatten(params)
        keys = jax.random.split(key, len(leaves))
        draws = [self._sd(x) * jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(structure, draws)

    def _sd(self, x):
        return self.scale / np.sqrt(fan_in(x, outputs_last=self.outputs_last))


def fan_in(x: Array, *, outputs_last: bool) -> int:
    """Return the number of inputs of a unit, given its weights; 1 for biases and other vectors."""
    return int(np.prod(x.shape[:-1] if outputs_last else x.shape[1:])) if x.ndim > 1 else 1


class _Prior(CountablePrior):
    shape: float
    rate: Array
    of_weights: FanIn | None
    output_widths: np.ndarray

    def counted(self, params, count):
        if self.of_weights is None:
            value = self._of_inferred_width([*params["weights"], *params["biases"]], params["log_lambda"])
        else:
            (*weights, last), (*biases, last_biases) = params["weights"], params["biases"]
            widths = jnp.asarray(self.output_widths, last.dtype)
            value = count * self.of_weights([*weights, last / widths, *biases, last_biases / widths])
        if "log_gamma" in params:
            value += log_gamma_prior(params["log_gamma"], shape=self.shape, rate=self.rate)
        if "auxiliary" in params:
            value += log_prior_of_auxiliary(params["auxiliary"])
        return value

    def _of_inferred_width(self, leaves, log_lambda):
        squares = sum(jnp.sum(leaf**2) for leaf in leaves)
        value = 0.5 * sum(leaf.size for leaf in leaves) * log_lambda - 0.5 * jnp.exp(log_lambda) * squares
        return value + log_gamma_prior(log_lambda, shape=self.shape, rate=self.rate)


class NeuralNetwork(Supervised):
    """A Bayesian neural network.

    The particle is a dict: `weights` and `biases`, a tuple with one array per layer, `log_lambda` unless `prior_scale`
    is given, and for real y `log_gamma`, the noise precision on the standardised scale. Other parameters of the family
    are in the entry `auxiliary`, such as `log_alpha`.

    Args:
        X: one row per example.
        y: one entry per row.
        hidden: units of every hidden layer.
        activation: "relu", "tanh" or any other function in `jax.nn`, or a function of an array.
        family: as for `GeneralizedLinear`.
        batch_size: rows per step; all of them if not given.

    Particles start as in the authors' code: weights from N(0, 1/(fan_in + 1)), biases at zero, lambda small, from
    Gamma(shape, 1 / rate), and the noise at the particle's own training error.

    Other arguments:
        prior_scale: weights have the prior N(0, prior_scale² / fan_in), and biases N(0, prior_scale²); an output that
            is the logarithm of a scale, a quarter of that. None means the paper's prior: one precision for all weights
            and biases, which is inferred.
        standardize: shift and scale the features, and a real-valued y, to mean 0 and sd 1 on the training rows.
        shape, rate: of the Gamma priors of lambda and gamma.

    Raises:
        ValueError: if X and y do not fit together or to the family, or a hidden layer has no units.

    Example:
        ```python
        import numpy as np, steinflow as sf

        X = np.linspace(-2, 2, 100)[:, None]
        model = sf.models.NeuralNetwork(X, np.sin(X[:, 0]), hidden=(20,), activation="tanh")
        result = sf.fit(model, num_particles=20, num_steps=500, key=0, progress=False)
        metrics = model.evaluate(result.particles, X, np.sin(X[:, 0]))
        ```
    """

    hyper: _Prior = eqx.field(kw_only=True)
    activation: Callable[[Array], Array] = eqx.field(kw_only=True)
    sizes: tuple[int, ...] = eqx.field(kw_only=True)

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        hidden: Sequence[int] = (50,),
        activation: str | Callable[[Array], Array] = "relu",
        *,
        family: Family | Head = Gaussian(),
        batch_size: int | None = None,
        prior_scale: float | None = None,
        standardize: bool = True,
        shape: float = 1.0,
        rate: float = 0.1,
    ):
        if any(units < 1 for units in hidden):
            raise ValueError(
                f"hidden must list the number of units in each hidden layer, such as (50,); got {tuple(hidden)}."
            )
        of_weights = None if prior_scale is None else FanIn(prior_scale)
        self.hyper = _Prior(shape, as_array(rate, float), of_weights, Head.of(family).output_widths)
        self.activation = _activation(activation)
        super().__init__(
            X,
            y,
            _Layers(self.activation),
            self.hyper,
            family=family,
            batch_size=batch_size,
            standardize=standardize,
        )
        self.sizes = (self.data.values["X"].shape[1], *map(int, hidden), self.head.num_outputs)

    @property
    def identified(self) -> bool:
        return False

    @eqx.filter_jit  # a dozen small operations, each of which would be compiled by itself
    def sample_prior(self, key: PRNGKeyArray) -> Params:
        lambda_key, *keys = jax.random.split(key, len(self.sizes))
        shapes = list(itertools.pairwise(self.sizes))
        prior = self.hyper
        params: Params = {
            "weights": tuple(
                jax.random.normal(k, shape) / jnp.sqrt(shape[0] + 1.0) for k, shape in zip(keys, shapes, strict=True)
            ),
            "biases": tuple(jnp.zeros(fan_out) for _, fan_out in shapes),
        }
        if prior.of_weights is None:
            params["log_lambda"] = sample_log_gamma(lambda_key, shape=prior.shape, rate=1 / prior.rate)
        return self.with_first_noise(params, lambda_key)


def _activation(activation: str | Callable[[Array], Array]) -> Callable[[Array], Array]:
    if not isinstance(activation, str):
        return activation
    function = getattr(jax.nn, activation, None)
    if function is None:
        raise ValueError(
            f"activation must be a function, or the name of one in jax.nn, such as 'relu' or 'tanh'; "
            f"got {activation!r}."
        )
    return function
