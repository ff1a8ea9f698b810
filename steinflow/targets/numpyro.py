"""NumPyro models as targets: named sites, NumPyro's own transforms, prior draws, subsampled plates as minibatches."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from steinflow.devices.arrays import as_array
from steinflow.targets.base import Target
from steinflow.targets.batches import batch_indices
from steinflow.targets.data import Data
from steinflow.targets.numpyro_sites import Plate, Rows, Sites, Unobserve, inspect, start_value
from steinflow.targets.observations import Labels, Observations
from steinflow.typing import Array


def from_numpyro(model: Callable, *args, **kwargs) -> "NumPyroTarget":
    """Return a NumPyro model, with its data, as a target.

    Particles are dictionaries by site name, in the support of each site, and include the deterministic sites. Runs
    start from prior draws, or near the middle of the support if a prior cannot be drawn from. A plate with
    `subsample_size` makes minibatches: every row once per epoch, the same rows for all particles. Discrete sites that
    are marked `infer={"enumerate": "parallel"}` are summed out by NumPyro, with `pip install 'steinflow[funsor]'`; such
    a model reports no deterministic sites and no likelihoods, because both would need values of the discrete sites.

    `result.predictive(*args, **kwargs)` predicts for new arguments. `result.to_arviz()` includes the likelihood and
    predictive draws of the observed sites, and uses plates as names of axes.

    Args:
        model: a function of NumPyro primitives.
        args: what the model is called with.
        kwargs: the same, by name.

    Example:
        ```python
        import numpyro, numpyro.distributions as dist, steinflow as sf


        def model(y):
            mean = numpyro.sample("mean", dist.Normal(0, 10))
            sd = numpyro.sample("sd", dist.HalfNormal(10))
            numpyro.sample("y", dist.Normal(mean, sd), obs=y)


        result = sf.fit(sf.from_numpyro(model, y=jnp.array([1.2, 0.8, 2.0])), num_steps=300)
        ```
    """

    def make(arguments):
        found = []
        eqx.filter_eval_shape(lambda given: found.append(inspect(model, given.args, given.kwargs)), arguments)
        return NumPyroTarget(model, arguments, found[0])

    return _with_arguments(make, args, kwargs)


class _Arguments(eqx.Module):
    """The data as arguments of the compiled code: other data of the same shape compile nothing."""

    args: tuple
    kwargs: dict


class _Constant:
    """The data as constants of the compiled code; compared by identity, so that JAX does not look inside."""

    def __init__(self, args: tuple, kwargs: dict):
        self.args = args
        self.kwargs = kwargs


def _with_arguments(function: Callable, args: tuple, kwargs: dict):
    """Call a function with the arguments of a model, as constants if the model needs values and not only shapes."""
    arrays = jax.tree.map(lambda leaf: as_array(leaf) if _is_numeric(leaf) else leaf, (args, kwargs))
    constant = _Constant(args, kwargs)
    if not all(eqx.is_array(leaf) or _is_hashable(leaf) for leaf in jax.tree.leaves(arrays)):
        return function(constant)
    try:
        return function(_Arguments(*arrays))
    except jax.errors.JAXTypeError:
        return function(constant)


class NumPyroTarget(Target):
    """A NumPyro model as a target; `from_numpyro` makes it."""

    model: Callable
    arguments: Any
    sites: Sites = eqx.field(static=True)

    def log_density(self, params, batch=None):
        model, enumerates = self._model(batch), bool(self.sites.enumerated)
        if enumerates:
            from numpyro.contrib.funsor import enum

            model = enum(model, -self.sites.depth - 1)
        energy = potential_energy(model, self.arguments.args, self.arguments.kwargs, params, enum=enumerates)
        return -jnp.asarray(energy)

    def constrain(self, params):
        reports = not self.sites.enumerated
        return constrain_fn(
            self._model(), self.arguments.args, self.arguments.kwargs, params, return_deterministic=reports
        )

    def unconstrain(self, params):
        missing = [name for name in self.sites.latent if name not in params]
        if missing:
            raise ValueError(
                f"particles must be a dictionary with an array for each of the sites {list(self.sites.latent)}; "
                f"{missing} are missing."
            )
        params = {name: params[name] for name in self.sites.latent}
        return unconstrain_fn(self._model(), self.arguments.args, self.arguments.kwargs, params)

    def sample_prior(self, key):
        model = handlers.substitute(self._model(key=key), substitute_fn=start_value)
        trace = handlers.trace(model).get_trace(*self.arguments.args, **self.arguments.kwargs)
        return {name: trace[name]["value"] for name in self.sites.latent}

    def simulate(self, params, key):
        if self.sites.improper:
            raise ValueError(
                f"The prior of {list(self.sites.improper)} is improper: nothing can be drawn from it. Give it a proper "
                "prior, or pass prior=, a function of a key."
            )
        trace = self.drawn({name: params[name] for name in self.sites.latent}, self.arguments, key=key)
        return {name: trace[name]["value"] for name in self.sites.observed}

    def given(self, data):
        return NumPyroTarget(Given(self.model, data), self.arguments, self.sites)

    @property
    def data(self) -> "Plates | None":
        return Plates(self.sites.plates) if self.sites.plates else None

    @property
    def observations(self) -> Observations:
        return NumPyroObservations(self)

    def traced(self, params):
        """Return the trace of the model on all rows at these latent values."""
        return self._trace(handlers.substitute(self._model(), data=params), self.arguments)

    def drawn(self, params, arguments, *, key):
        """Return the trace of the model with these arguments, its observed sites drawn anew."""
        model = handlers.seed(Unobserve(Rows(self.model)), key)
        return self._trace(handlers.substitute(model, data=params), arguments)

    def _trace(self, model, arguments):
        return handlers.trace(model).get_trace(*arguments.args, **arguments.kwargs)

    def _model(self, batch=None, *, key=None):
        """The model on these rows, or all of them; the key serves what is random beside the latent sites."""
        return handlers.seed(Rows(self.model, batch), jax.random.key(0) if key is None else key)


class Given(eqx.Module):
    """A model whose observed sites have other values."""

    model: Callable
    values: dict[str, Any]

    def __call__(self, *args, **kwargs):
        return handlers.condition(Unobserve(self.model), data=self.values)(*args, **kwargs)


class Plates(Data):
    """Plates that subsample: a batch says which rows each of them sees. The plate with the most batches counts."""

    plates: tuple[Plate, ...] = eqx.field(static=True)

    @property
    def num_rows(self):
        return self._longest.size

    @property
    def batch_size(self):
        return self._longest.subsample_size

    def minibatch(self, key, step, influence=None):
        return {
            plate.name: batch_indices(
                jax.random.fold_in(key, number), step, num_rows=plate.size, batch_size=plate.subsample_size
            )
            for number, plate in enumerate(self.plates)
        }

    def blocks(self, num_rows, *, key):
        # The data are the model's arguments, in memory, and a model says nothing of a part of several plates.
        return iter([{plate.name: jnp.arange(plate.size) for plate in self.plates}])

    @property
    def _longest(self) -> Plate:
        return max(self.plates, key=lambda plate: plate.size / plate.subsample_size)


class NumPyroObservations(Observations):
    """The observed sites of a NumPyro model."""

    model: NumPyroTarget

    def observed(self):
        trace = self.model.traced(self.model.sample_prior(jax.random.key(0)))
        return {name: trace[name]["value"] for name in self.model.sites.observed}

    @eqx.filter_jit
    def log_likelihoods(self, particles):
        def one(params):
            trace = self.model.traced(params)
            return {name: trace[name]["fn"].log_prob(trace[name]["value"]) for name in self.model.sites.observed}

        return {} if self.model.sites.enumerated else jax.vmap(one)(self._latent(particles))

    def predictive(self, particles, *args, key, **kwargs):
        sites = self.model.sites
        if not (args or kwargs):
            return self._draw(particles, self.model.arguments, sites.observed, key)
        # Deterministic sites of the particles are those of the old arguments.
        names = sites.observed + sites.deterministic
        return _with_arguments(lambda arguments: self._draw(particles, arguments, names, key), args, kwargs)

    @eqx.filter_jit
    def _draw(self, particles, arguments, names: Iterable[str], key):
        def one(params, key):
            trace = self.model.drawn(params, arguments, key=key)
            if missing := [name for name in names if name not in trace]:
                raise ValueError(
                    f"With these arguments the model does not come to {missing}. Let it sample them without "
                    "observations too: numpyro.sample(name, fn, obs=None)."
                )
            return {name: trace[name]["value"] for name in names}

        particles = self._latent(particles)
        keys = jax.random.split(key, len(jax.tree.leaves(particles)[0]))
        return jax.vmap(one)(particles, keys)

    def labels(self):
        return Labels(dict(self.model.sites.dims))

    def _latent(self, particles) -> dict[str, Array]:
        return {name: jnp.asarray(particles[name]) for name in self.model.sites.latent}


def _is_numeric(leaf) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc"


def _is_hashable(leaf) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True
