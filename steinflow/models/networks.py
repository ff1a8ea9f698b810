"""Any Equinox or Flax (linen, nnx) module as a Bayesian network: a prior over its parameters and a likelihood."""

import abc
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from steinflow.models.families import Family, Gaussian
from steinflow.models.neural_network import SHORT_REACH, FanIn
from steinflow.models.supervised import Supervised, log_gamma_prior
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar


def from_network(
    network: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    family: Family = Gaussian(),
    prior_scale: float = 1.0,
    log_prior: Callable[[Params], Scalar] | None = None,
    batch_size: int | None = None,
    standardize: bool = True,
) -> "NetworkPosterior":
    """Return the posterior of a network's parameters.

    Particles are dictionaries: `network` holds the module's parameters in its own structure, and for real y `log_gamma`
    the noise precision on the standardised scale. `sf.models.uncertainty(target, result.particles, X)` splits the
    uncertainty of predictions into epistemic and aleatoric parts; `target.predict` and `target.evaluate` are those of
    all models.

    Args:
        network: a function from a key to an Equinox module (called on one row) or an nnx module (called on a batch), a
            module itself, or a Flax linen module. Particles start from the module's own initialisation where there is
            one (a function, or linen), from the prior otherwise. Dropout is off.
        X: one row per example; rows may have any shape.
        y: one entry per row.
        family: `sf.models.Gaussian()`, `Bernoulli()`, `Categorical(K)`, `Poisson()`: what the outputs mean.
        prior_scale: parameters have the prior N(0, prior_scale² / fan_in), with fan_in = 1 for biases and other
            vectors.
        log_prior: takes the module's parameters to a log density, in place of that prior.
        batch_size: rows per step; all of them if not given.
        standardize: shift and scale the features, and a real-valued y, to mean 0 and sd 1.

    Example:
        ```python
        import equinox as eqx, numpy as np, steinflow as sf

        X = np.linspace(-2, 2, 100)[:, None]
        target = sf.from_network(lambda key: eqx.nn.MLP(1, 1, 20, 1, key=key), X, np.sin(X[:, 0]))
        result = sf.fit(target, num_particles=20, num_steps=300, progress=False)
        ```
    """
    shape = np.shape(X)[1:]
    module = _adapt(network, jnp.zeros((1, *shape)))
    prior = FanIn(prior_scale, module.outputs_last)
    return NetworkPosterior(
        X,
        y,
        module,
        log_prior or prior,
        start=module.start or (lambda key: prior.sample(module.params, key)),
        shape=shape,
        family=family,
        batch_size=batch_size,
        standardize=standardize,
    )


class NetworkPosterior(Supervised):
    """A Bayesian network; `from_network` makes it."""

    start: Callable[[PRNGKeyArray], Params] = eqx.field(kw_only=True)

    def __init__(self, X, y, module, log_prior, *, start, shape, family, batch_size, standardize):
        self.start = start
        super().__init__(
            X,
            y,
            _Forward(module, shape, family.num_outputs),
            _Prior(log_prior),
            family=family,
            batch_size=batch_size,
            standardize=standardize,
        )

    @property
    def reach(self) -> float | None:
        return SHORT_REACH

    def sample_prior(self, key: PRNGKeyArray) -> Params:
        return self.with_first_noise({"network": self.start(key)})


class _Forward(eqx.Module):
    """The outputs of all rows, with one axis less where there is one output."""

    module: "_Module"
    shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __call__(self, params, X):
        outputs = self.module(params["network"], X.reshape(-1, *self.shape))
        expected = (len(X),) if self.num_outputs == 1 else (len(X), self.num_outputs)
        if outputs.size != np.prod(expected):
            raise ValueError(
                f"The family needs {self.num_outputs} output(s) for every row; the network gives {outputs.shape[1:]}."
            )
        return outputs.reshape(expected)


class _Prior(eqx.Module):
    """The prior of the network's parameters, and that of the noise precision: Gamma(1, 0.1)."""

    network: Callable[[Params], Scalar]

    def __call__(self, params):
        value = self.network(params["network"])
        if "log_gamma" in params:
            value += log_gamma_prior(params["log_gamma"], shape=1.0, rate=0.1)
        return value


class _Module(eqx.Module):
    """A module of some library: its parameters, how they start (None: no way of its own) and what it computes."""

    params: eqx.AbstractVar[Params]
    start: eqx.AbstractVar[Callable[[PRNGKeyArray], Params] | None]
    outputs_last: eqx.AbstractVar[bool]  # the last axis of a weight counts outputs; for Equinox it is the first

    @abc.abstractmethod
    def __call__(self, params: Params, X: Array) -> Array:
        """Return the outputs of every row."""


class _Equinox(_Module):
    params: Params
    start: Callable[[PRNGKeyArray], Params] | None
    rest: Any
    outputs_last: bool = False

    def __call__(self, params, X):
        return jax.vmap(eqx.combine(params, self.rest))(X)


class _Nnx(_Module):
    params: Params
    start: Callable[[PRNGKeyArray], Params] | None
    graph: Any = eqx.field(static=True)
    rest: Any
    outputs_last: bool = True

    def __call__(self, params, X):
        from flax import nnx

        return nnx.merge(self.graph, params, self.rest)(X)


class _Linen(_Module):
    params: Params
    start: Callable[[PRNGKeyArray], Params] | None
    module: Any
    rest: Any
    outputs_last: bool = True

    def __call__(self, params, X):
        return self.module.apply({"params": params, **self.rest}, X)


def _adapt(network, row) -> _Module:
    """Find out whose module this is, without importing what the user did not."""
    linen = sys.modules.get("flax.linen")
    if linen is not None and isinstance(network, linen.Module):
        variables = network.init(jax.random.key(0), row)
        rest = {name: values for name, values in variables.items() if name != "params"}
        return _Linen(
            params=variables["params"],
            start=lambda key: network.init(key, row)["params"],
            module=network,
            rest=rest,
        )
    build = None if _is_module(network) else network
    if build is not None:
        if not callable(build):
            raise _unknown(network)
        network = build(jax.random.key(0))
    if isinstance(network, eqx.Module):
        return _equinox(network, build)
    if _is_module(network):
        return _nnx(network, build)
    raise _unknown(network)


def _equinox(network, build):
    def split(module):
        return eqx.partition(eqx.nn.inference_mode(module), eqx.is_inexact_array)

    params, rest = split(network)
    start = None if build is None else lambda key: split(build(key))[0]
    return _Equinox(params=params, start=start, rest=rest)


def _nnx(network, build):
    from flax import nnx

    def split(module):
        module.eval()
        return nnx.split(module, nnx.Param, ...)

    graph, params, rest = split(network)
    start = None if build is None else lambda key: split(build(key))[1]
    return _Nnx(params=params, start=start, graph=graph, rest=rest)


def _is_module(network) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return isinstance(network, eqx.Module) or (nnx is not None and isinstance(network, nnx.Module))


def _unknown(network):
    return TypeError(
        "A network is a function from a key to an Equinox or nnx module, such a module, or a Flax linen module "
        f"(pip install 'steinflow[flax]'); got {network!r}."
    )
