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
from steinflow.models.heads import Head, log_prior_of_auxiliary
from steinflow.models.neural_network import USUAL_SCALE, FanIn
from steinflow.models.supervised import Supervised, log_gamma_prior
from steinflow.targets.posterior import CountablePrior
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar


def from_network(
    network: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    family: Family | Head = Gaussian(),
    prior_scale: float = USUAL_SCALE,
    log_prior: Callable[[Params], Scalar] | None = None,
    random: Callable[[Params], Params] | None = None,
    batch_size: int | None = None,
    standardize: bool = True,
) -> "NetworkPosterior":
    """Return the posterior of a network's parameters.

    Particles are dictionaries: `network` holds the module's parameters in its own structure, and for real y `log_gamma`
    holds the log precision of the noise on the standardised scale; other parameters of the family are in `auxiliary`,
    as `log_alpha` or `logit_zi`. `sf.models.uncertainty(target, result.particles, X)` splits the uncertainty of
    predictions into epistemic and aleatoric parts; `target.predict` and `target.evaluate` work as for all models.

    Args:
        network: a function from a key to an Equinox module (called on one row) or an nnx module (called on a batch), a
            module itself, or a Flax linen module. Particles start from the module's own initialisation if there is one
            (for a function, or linen), otherwise from the prior. Dropout is off.
        X: one row per example; rows may have any shape.
        y: one entry per row.
        family: what the outputs mean, any of `sf.models`: `Gaussian()`, `Bernoulli()`, `Categorical(K)`, `Poisson()`,
            `NegativeBinomial()`, ..., or a `Head`, such as `VaryingGaussian()` and `VaryingStudentT()` (two outputs).
        prior_scale: parameters have the prior N(0, prior_scale² / fan_in), with fan_in = 1 for biases and other
            vectors. Members of `sf.Ensemble` try a quarter of that, too.
        log_prior: a function of the module's parameters that returns a log density, instead of that prior.
        random: a function of the module's parameters that returns those to infer, such as
            `lambda params: params.layers[-1]` for the last layer of an Equinox MLP, or
            `lambda params: params["Dense_1"]` for a layer in linen. The others keep their values in the module, which
            may be trained already. `network` in the particles and `log_prior` then hold only the inferred ones. By
            default all are inferred.
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
    if random is not None:
        module = _Part(params=random(module.params), whole=module, random=random, outputs_last=module.outputs_last)
    prior = FanIn(prior_scale, outputs_last=module.outputs_last)
    return NetworkPosterior(
        X,
        y,
        module,
        log_prior or prior,
        start=module.sample if module.starts_by_itself else eqx.Partial(prior.sample, module.params),
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
            _Forward(module, shape, Head.of(family).num_outputs),
            _Prior(log_prior),
            family=family,
            batch_size=batch_size,
            standardize=standardize,
        )

    @property
    def identified(self) -> bool:
        return False

    def sample_prior(self, key: PRNGKeyArray) -> Params:
        return self.with_first_noise({"network": self.start(key)}, key)


class _Forward(eqx.Module):
    """The outputs of all rows, with one axis less where there is one output."""

    module: "_Module"
    shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __call__(self, params, X):
        outputs = self.module(params["network"], X.reshape(-1, *self.shape))
        expected = (len(X),) if self.num_outputs == 1 else (len(X), self.num_outputs)
        if outputs.size != np.prod(expected):
            found = outputs.size // len(X)
            raise ValueError(
                f"The family needs {self.num_outputs} output(s) for every row; the network gives {found}. For classes "
                f"pass family=sf.models.Categorical({found}); for numbers with a noise of their own, "
                "family=sf.models.VaryingGaussian(), which takes two outputs, a mean and a log scale."
            )
        return outputs.reshape(expected)


class _Prior(CountablePrior):
    """The prior of the network's parameters, and that of the noise precision: Gamma(1, 0.1)."""

    network: Callable[[Params], Scalar]

    def counted(self, params, count):
        value = count * self.network(params["network"])
        if "log_gamma" in params:
            value += log_gamma_prior(params["log_gamma"], shape=1.0, rate=0.1)
        if "auxiliary" in params:
            value += log_prior_of_auxiliary(params["auxiliary"])
        return value


class _Module(eqx.Module):
    """A module of some library: its parameters, how it draws them, and what it computes."""

    params: eqx.AbstractVar[Params]
    outputs_last: eqx.AbstractVar[bool]  # the last axis of a weight counts outputs; for Equinox it is the first

    @property
    @abc.abstractmethod
    def starts_by_itself(self) -> bool:
        """Whether it has an initialisation of its own."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Params:
        """Draw parameters from the module's own initialisation."""

    @abc.abstractmethod
    def __call__(self, params: Params, X: Array) -> Array:
        """Return the outputs of every row."""


class _Equinox(_Module):
    params: Params
    rest: Any
    build: Callable[[PRNGKeyArray], Any] | None
    outputs_last: bool

    @classmethod
    def of(cls, network: Any, build: Callable[[PRNGKeyArray], Any] | None) -> "_Equinox":
        params, rest = cls._split(network)
        return cls(params=params, rest=rest, build=build, outputs_last=False)

    @property
    def starts_by_itself(self):
        return self.build is not None

    def sample(self, key):
        assert self.build is not None
        return self._split(self.build(key))[0]

    def __call__(self, params, X):
        return jax.vmap(eqx.combine(params, self.rest))(X)

    @staticmethod
    def _split(module):
        return eqx.partition(eqx.nn.inference_mode(module), eqx.is_inexact_array)


class _Nnx(_Module):
    graph: Any = eqx.field(static=True)
    params: Params
    rest: Any
    build: Callable[[PRNGKeyArray], Any] | None
    outputs_last: bool

    @classmethod
    def of(cls, network: Any, build: Callable[[PRNGKeyArray], Any] | None) -> "_Nnx":
        graph, params, rest = cls._split(network)
        return cls(graph=graph, params=params, rest=rest, build=build, outputs_last=True)

    @property
    def starts_by_itself(self):
        return self.build is not None

    def sample(self, key):
        assert self.build is not None
        return self._split(self.build(key))[1]

    def __call__(self, params, X):
        from flax import nnx

        return nnx.merge(self.graph, params, self.rest)(X)

    @staticmethod
    def _split(module):
        from flax import nnx

        module.eval()
        return nnx.split(module, nnx.Param, ...)


class _Linen(_Module):
    params: Params
    rest: Any
    module: Any
    row: Array
    outputs_last: bool

    @classmethod
    def of(cls, network: Any, row: Array) -> "_Linen":
        variables = network.init(jax.random.key(0), row)
        rest = {name: values for name, values in variables.items() if name != "params"}
        return cls(params=variables["params"], rest=rest, module=network, row=row, outputs_last=True)

    @property
    def starts_by_itself(self):
        return True

    def sample(self, key):
        return self.module.init(key, self.row)["params"]

    def __call__(self, params, X):
        return self.module.apply({"params": params, **self.rest}, X)


class _Part(_Module):
    """A module of which only some parameters are inferred."""

    params: Params
    whole: _Module
    random: Callable[[Params], Params]
    outputs_last: bool

    @property
    def starts_by_itself(self):
        return self.whole.starts_by_itself

    def sample(self, key):
        return self.random(self.whole.sample(key))

    def __call__(self, params, X):
        return self.whole(eqx.tree_at(self.random, self.whole.params, params), X)


def _adapt(network, row) -> _Module:
    """Find out whose module this is, without importing what the user did not."""
    linen = sys.modules.get("flax.linen")
    if linen is not None and isinstance(network, linen.Module):
        return _Linen.of(network, row)
    build = None if _is_module(network) else network
    if build is not None:
        if not callable(build):
            raise _unknown(network)
        network = build(jax.random.key(0))
    if isinstance(network, eqx.Module):
        return _Equinox.of(network, build)
    if _is_module(network):
        return _Nnx.of(network, build)
    raise _unknown(network)


def _is_module(network) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return isinstance(network, eqx.Module) or (nnx is not None and isinstance(network, nnx.Module))


def _unknown(network):
    return TypeError(
        "A network must be a function from a key to an Equinox or nnx module, such a module itself, or a Flax linen "
        f"module (pip install 'steinflow[flax]'); got {network!r}."
    )
