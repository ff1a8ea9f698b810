"""NumPyro models as targets: named sites, NumPyro's own transforms, prior draws, subsampled plates as minibatches."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Unit
from numpyro.infer import init_to_sample
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn
from numpyro.primitives import Messenger

from steinflow.targets.base import Target
from steinflow.targets.batches import batch_indices
from steinflow.targets.data import Data
from steinflow.targets.observations import Labels, Observations
from steinflow.typing import Array


def from_numpyro(model: Callable, *args, **kwargs) -> "NumPyroTarget":
    """Return a NumPyro model, with its data, as a target.

    Particles are dictionaries by site name, in the support of each site, with the deterministic sites beside them; runs
    start from prior draws. A plate with `subsample_size` makes minibatches: every row once per epoch, the same rows for
    all particles. `result.to_arviz()` has the likelihood and predictive draws of the observed sites, and plates as
    names of axes; `numpyro.infer.Predictive(model, result.particles)` works as well.

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
    arrays = jax.tree.map(lambda leaf: jnp.asarray(leaf) if _is_numeric(leaf) else leaf, (args, kwargs))
    constant = _Constant(args, kwargs)
    if not all(eqx.is_array(leaf) or _is_hashable(leaf) for leaf in jax.tree.leaves(arrays)):
        return NumPyroTarget(model, constant, _inspect(model, constant))
    try:
        arguments = _Arguments(*arrays)
        return NumPyroTarget(model, arguments, _inspect(model, arguments))
    except jax.errors.JAXTypeError:  # the model needs values, not only shapes
        return NumPyroTarget(model, constant, _inspect(model, constant))


class Plate(NamedTuple):
    """A plate that subsamples."""

    name: str
    size: int
    subsample_size: int


class Sites(NamedTuple):
    """What a model consists of; hashable, so that it is part of what compiled code depends on."""

    latent: tuple[str, ...]
    observed: tuple[str, ...]
    plates: tuple[Plate, ...]
    dims: tuple[tuple[str, tuple[str | None, ...]], ...]


class _Arguments(eqx.Module):
    """The data as arguments of the compiled code: other data of the same shape compile nothing."""

    args: tuple
    kwargs: dict


class _Constant:
    """The data as constants of the compiled code; compared by identity, so that JAX does not look inside."""

    def __init__(self, args: tuple, kwargs: dict):
        self.args = args
        self.kwargs = kwargs


class NumPyroTarget(Target):
    """A NumPyro model as a target; `from_numpyro` makes it."""

    model: Callable
    arguments: Any
    sites: Sites = eqx.field(static=True)

    def log_density(self, params, batch=None):
        energy = potential_energy(self._model(batch), self.arguments.args, self.arguments.kwargs, params)
        return -jnp.asarray(energy)

    def constrain(self, params):
        return constrain_fn(
            self._model(), self.arguments.args, self.arguments.kwargs, params, return_deterministic=True
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
        model = handlers.substitute(self._model(key=key), substitute_fn=init_to_sample)
        trace = handlers.trace(model).get_trace(*self.arguments.args, **self.arguments.kwargs)
        return {name: trace[name]["value"] for name in self.sites.latent}

    @property
    def data(self) -> "Plates | None":
        return Plates(self.sites.plates) if self.sites.plates else None

    @property
    def observations(self) -> Observations:
        return NumPyroObservations(self)

    def traced(self, params, *, key=None):
        """Return the trace of the model on all rows at these latent values; a key draws the observed sites anew."""
        model = self._model() if key is None else handlers.seed(_Unobserve(self._on_rows()), key)
        model = handlers.substitute(model, data=params)
        return handlers.trace(model).get_trace(*self.arguments.args, **self.arguments.kwargs)

    def _model(self, batch=None, *, key=None):
        """The model on these rows, or all of them; the key serves what is random beside the latent sites."""
        return handlers.seed(self._on_rows(batch), jax.random.key(0) if key is None else key)

    def _on_rows(self, batch=None):
        rows = batch or {plate.name: jnp.arange(plate.size) for plate in self.sites.plates}
        return _Rows(self.model, rows) if rows else self.model


class Plates(Data):
    """Plates that subsample: a batch says which rows each of them sees. The plate with the most batches counts."""

    plates: tuple[Plate, ...] = eqx.field(static=True)

    @property
    def num_rows(self):
        return self._longest.size

    @property
    def batch_size(self):
        return self._longest.subsample_size

    def minibatch(self, key, step):
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
        trace = self.model.traced({})
        return {name: trace[name]["value"] for name in self.model.sites.observed}

    @eqx.filter_jit
    def log_likelihoods(self, particles):
        def one(params):
            trace = self.model.traced(params)
            return {name: trace[name]["fn"].log_prob(trace[name]["value"]) for name in self.model.sites.observed}

        return jax.vmap(one)(self._latent(particles))

    @eqx.filter_jit
    def predictive(self, particles, *, key):
        def one(params, key):
            trace = self.model.traced(params, key=key)
            return {name: trace[name]["value"] for name in self.model.sites.observed}

        particles = self._latent(particles)
        keys = jax.random.split(key, len(jax.tree.leaves(particles)[0]))
        return jax.vmap(one)(particles, keys)

    def labels(self):
        return Labels(dict(self.model.sites.dims))

    def _latent(self, particles) -> dict[str, Array]:
        return {name: jnp.asarray(particles[name]) for name in self.model.sites.latent}


class _Rows(Messenger):
    """Say which rows a subsampled plate sees: those given, or all, in which case the plate is put on record."""

    def __init__(self, model, rows=None):
        super().__init__(model)
        self.rows = rows
        self.plates: list[Plate] = []

    def process_message(self, msg):
        if msg["type"] != "plate":
            return
        size, subsample_size = msg["args"]
        if self.rows is None and subsample_size not in (None, size):
            self.plates.append(Plate(msg["name"], size, subsample_size))
            msg["value"] = jnp.arange(size)
        elif self.rows is not None and msg["name"] in self.rows:
            msg["value"] = self.rows[msg["name"]]
        else:
            return
        msg["args"] = (size, len(msg["value"]))


class _Unobserve(Messenger):
    """Draw the observed sites anew."""

    def process_message(self, msg):
        if msg["type"] == "sample" and msg["is_observed"] and not isinstance(msg["fn"], Unit):
            msg["value"], msg["is_observed"] = None, False


def _inspect(model, arguments) -> Sites:
    """Trace the model once, on shapes alone, and refuse what has no density on R^d."""
    found = []

    def trace(args, kwargs):
        seeded = handlers.seed(model, jax.random.key(0))
        rows = _Rows(handlers.substitute(seeded, substitute_fn=init_to_sample))  # flat priors cannot be drawn from
        with numpyro.validation_enabled(False):
            sites = handlers.trace(rows).get_trace(*args, **kwargs)
        found.append(_classify(sites, rows.plates))
        return 0

    if isinstance(arguments, _Constant):
        jax.eval_shape(lambda: trace(arguments.args, arguments.kwargs))
    else:
        eqx.filter_eval_shape(trace, arguments.args, arguments.kwargs)
    return found[0]


def _classify(trace, plates) -> Sites:
    subsampled = {plate.name for plate in plates}
    latent, observed, dims = [], [], {}
    for name, site in trace.items():
        if site["type"] == "param":
            raise ValueError(
                f"The model has a parameter without a prior: numpyro.param({name!r}). Give it one with numpyro.sample; "
                "dist.ImproperUniform(support, (), event_shape) is a flat one."
            )
        if site["type"] == "deterministic" or (site["type"] == "sample" and not isinstance(site["fn"], Unit)):
            dims[name] = _dims(site)
        if site["type"] != "sample":
            continue
        if site["is_observed"]:
            if not isinstance(site["fn"], Unit):
                observed.append(name)
            continue
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"The latent site {name!r} is discrete, and SVGD needs gradients. Sum it out, for instance with "
                "dist.MixtureSameFamily, or with numpyro.factor and jax.nn.logsumexp over its values."
            )
        inside = subsampled & {frame.name for frame in site["cond_indep_stack"]}
        if inside:
            raise ValueError(
                f"The latent site {name!r} has one value per row of the subsampled plate {min(inside)!r}: "
                "a minibatch would leave the other rows without any. Remove subsample_size from that plate."
            )
        latent.append(name)
    if not latent:
        raise ValueError(
            "The model has no latent sites: there is nothing to infer. Leave obs=... away from what is unknown."
        )
    return Sites(tuple(latent), tuple(observed), tuple(plates), tuple(dims.items()))


def _dims(site) -> tuple[str | None, ...]:
    """The plate behind every axis of a site; NumPyro's own `infer={"event_dims": [...]}` names the others."""
    shape = np.shape(site["value"])
    event = site["fn"].event_dim if site["type"] == "sample" else 0
    names: list[str | None] = [None] * len(shape)
    for frame in site["cond_indep_stack"]:
        axis = len(shape) - event + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    named = (site.get("infer") or {}).get("event_dims", ())
    if event and len(named) == event:
        names[len(shape) - event :] = named
    return tuple(names)


def _is_numeric(leaf) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc"


def _is_hashable(leaf) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True
