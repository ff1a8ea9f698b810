"""PyMC models as targets: PyMC's own transforms and draws, its log density compiled by JAX."""

import contextlib
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.base import Target
from steinflow.targets.observations import Labels, Observations
from steinflow.typing import Array

if TYPE_CHECKING:
    import pymc


def from_pymc(model: "pymc.Model") -> "PyMCTarget":
    """Return a PyMC model as a target.

    Particles are dictionaries by variable name, as PyMC's users know them (a positive sigma, not its logarithm), with
    the deterministics beside them; runs start from prior draws. `result.to_arviz()` has the likelihood and predictive
    draws of the observed variables, with the model's coordinates and dimensions. The data are those that the model has
    now: after `pm.set_data` call this again. `result.predictive(X=X_new)` predicts for other values of the model's
    `pm.Data`, which stay as they are.

    JAX computes in 32 bits unless told otherwise, PyMC in 64: `jax.config.update("jax_enable_x64", True)` before
    anything else makes them agree. Needs `pip install 'steinflow[pymc]'`.

    Args:
        model: the model, outside of or inside its `with` block.

    Example:
        ```python
        import pymc as pm, steinflow as sf

        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 10)
            pm.Normal("y", mean, 1, observed=[1.2, 0.8, 2.0])

        result = sf.fit(sf.from_pymc(model), num_steps=300)
        ```
    """
    try:
        import pymc as pm
    except ModuleNotFoundError as error:
        if error.name != "pymc":
            raise
        raise ModuleNotFoundError("from_pymc needs PyMC: pip install 'steinflow[pymc]'.", name="pymc") from error
    if not isinstance(model, pm.Model):
        raise TypeError(f"from_pymc takes a pymc.Model; got {model!r}.")
    _check(model)
    with _no_side_effects():
        graphs = _Graphs(model)
    return PyMCTarget(graphs)


class PyMCTarget(Target):
    """A PyMC model as a target; `from_pymc` makes it."""

    graphs: "_Graphs"  # compared by identity: JAX does not look inside

    def log_density(self, params, batch=None):
        return self.graphs.log_density(self._values(params))[0]

    def constrain(self, params):
        values = self.graphs.constrain(self._values(params))
        return dict(zip(self.graphs.reported, values, strict=True))

    def unconstrain(self, params):
        missing = [name for name in self.graphs.free if name not in params]
        if missing:
            raise ValueError(
                f"particles must be a dictionary with an array for each of {list(self.graphs.free)}; "
                f"{missing} are missing."
            )
        values = self.graphs.unconstrain(self._values(params))
        return dict(zip(self.graphs.free, values, strict=True))

    def sample_prior(self, key):
        # One call of PyMC's own sampler for all particles: vmap adds an axis to the seed.
        seed = jax.random.bits(key, (2,))
        return jax.pure_callback(self.graphs.draw_prior, self.graphs.prior_shapes, seed, vmap_method="expand_dims")

    @property
    def observations(self) -> Observations:
        return PyMCObservations(self)

    def _values(self, params):
        return [params[name] for name in self.graphs.free]


class PyMCObservations(Observations):
    """The observed variables of a PyMC model."""

    model: PyMCTarget

    def observed(self):
        return self.model.graphs.observed

    @eqx.filter_jit
    def log_likelihoods(self, particles):
        graphs = self.model.graphs

        def one(params):
            unconstrained = self.model.unconstrain(params)
            values = graphs.log_likelihoods([unconstrained[name] for name in graphs.free])
            return dict(zip(graphs.observed_names, values, strict=True))

        return jax.vmap(one)({name: jnp.asarray(particles[name]) for name in graphs.free})

    def predictive(self, particles, *args, key, **kwargs):
        if args:
            raise TypeError("A PyMC model has no arguments but its pm.Data, by name: result.predictive(X=X_new).")
        return self.model.graphs.draw_predictive(particles, kwargs, int(jax.random.bits(key) >> 1))

    def labels(self):
        return Labels(self.model.graphs.dims, self.model.graphs.coords)


class _Graphs:
    """What PyMC and JAX make of the model, once: functions on arrays, in the order of the model's free variables."""

    def __init__(self, model):
        self.model = model
        self.free = tuple(rv.name for rv in model.free_RVs)
        reported = [*model.free_RVs, *model.deterministics]
        self.reported = tuple(variable.name for variable in reported)
        self.observed_names = tuple(rv.name for rv in model.observed_RVs)
        self.coords = {name: list(places) for name, places in model.coords.items() if places is not None}
        self.dims = {name: tuple(dims) for name, dims in model.named_vars_to_dims.items()}
        observations = [model.rvs_to_values[rv] for rv in model.observed_RVs]
        log_density, log_likelihoods = model.logp(), model.logp(vars=model.observed_RVs, sum=False)
        values = model.replace_rvs_by_values(reported)
        self.log_density = _jaxified(model.value_vars, [log_density])
        self.log_likelihoods = _jaxified(model.value_vars, log_likelihoods)
        self.constrain = _jaxified(model.value_vars, values)
        self.unconstrain = _jaxified(*_way_to_values(model))
        self.observed = dict(zip(self.observed_names, _jaxified([], observations)([]), strict=True))
        self._draw = _prior_sampler(model)
        self.prior_shapes = {
            name: jax.ShapeDtypeStruct(np.shape(value), jnp.result_type(float)) for name, value in self._draw(0).items()
        }

    def draw_prior(self, seeds):
        """Draw one particle for every row of seeds."""
        seeds = np.asarray(seeds)
        draws = [self._draw([int(word) for word in seed]) for seed in seeds.reshape(-1, seeds.shape[-1])]
        return {
            name: np.stack([draw[name] for draw in draws]).astype(like.dtype).reshape(seeds.shape[:-1] + like.shape)
            for name, like in self.prior_shapes.items()
        }

    def draw_predictive(self, particles, data: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
        """Draw the observed variables once for every particle; with new data, which the deterministics follow, too."""
        import pymc as pm

        drawn = [*self.model.observed_RVs, *(self.model.deterministics if data else ())]
        if not drawn:
            return {}
        with _holding(self.model, data):
            # Not pm.sample_posterior_predictive: it draws a free variable anew whose prior depends on a pm.Data.
            inputs, outputs = _given_free_variables(self.model, drawn)
            draw = pm.compile(inputs, outputs, random_seed=seed, mode="FAST_COMPILE", on_unused_input="ignore")
            values = [np.asarray(particles[name], self.model[name].dtype) for name in self.free]
            try:
                rows = [draw(*particle) for particle in zip(*values, strict=True)]
            except ValueError as error:
                if data:
                    error.add_note(
                        "Give the likelihood the shape of its mean, so that it follows new data: "
                        "pm.Normal('y', mean, sigma, observed=y, shape=mean.shape)."
                    )
                raise
        return {
            variable.name: np.stack(column) for variable, column in zip(drawn, zip(*rows, strict=True), strict=True)
        }


@contextlib.contextmanager
def _holding(model, data: Mapping[str, Any]):
    """Let a model hold other data for a while; axes whose length changes are numbered."""
    import pymc as pm
    from pymc.exceptions import ShapeWarning

    known = [variable.name for variable in model.data_vars]
    if unknown := sorted(set(data) - set(known)):
        raise ValueError(f"The model has no pm.Data named {unknown}; it has {known}.")

    def hold(values, coords):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShapeWarning)  # variables that share an axis change in turn
            pm.set_data(values, model, coords=coords)

    old = {name: model[name].get_value() for name in data}
    axes = {name: model.named_vars_to_dims.get(name) or () for name in data}
    lengths = {
        axis: length for name, own in axes.items() for axis, length in zip(own, np.shape(data[name]), strict=False)
    }
    named = {axis: model.coords[axis] for axis in lengths if model.coords.get(axis) is not None}
    changed = {axis: range(lengths[axis]) for axis, positions in named.items() if len(positions) != lengths[axis]}
    try:
        hold(dict(data), changed)
        yield
    finally:
        hold(old, {axis: named[axis] for axis in changed})


def _jaxified(inputs, outputs):
    """Return outputs as a JAX function of a list of inputs."""
    from pymc.sampling.jax import get_jaxified_graph

    function = get_jaxified_graph(inputs, outputs)

    def call(values) -> list[Array]:
        with warnings.catch_warnings():  # PyMC asks for 64 bits; whether there are any is JAX's setting
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return [jnp.asarray(value) for value in function(*values) or []]  # None where there are no outputs

    return call


def _way_to_values(model):
    """Inputs and outputs of the graph from the user's values of the free variables to unconstrained ones."""
    transforms = ((rv, model.rvs_to_transforms[rv]) for rv in model.free_RVs)
    return _given_free_variables(
        model, [rv if way is None else way.forward(rv, *rv.owner.inputs) for rv, way in transforms]
    )


def _given_free_variables(model, outputs):
    """Inputs and outputs of the graph from the user's values of the free variables to these outputs."""
    from pytensor.graph.replace import clone_replace

    users = {rv: rv.type() for rv in model.free_RVs}
    return list(users.values()), clone_replace(outputs, replace=users)


def _prior_sampler(model):
    """A function from a seed to one draw of all free variables; what has no draws starts about its support point."""
    from pymc.distributions.continuous import FlatRV, HalfFlatRV
    from pymc.initial_point import make_initial_point_fn

    def sampler(improper):
        strategies: dict = {rv: "support_point" if rv in improper else "prior" for rv in model.free_RVs}
        draw = make_initial_point_fn(model=model, overrides=strategies, jitter_rvs=improper, return_transformed=False)
        draw(0)
        return draw

    try:
        return sampler({rv for rv in model.free_RVs if isinstance(rv.owner.op, FlatRV | HalfFlatRV)})
    except NotImplementedError:  # custom distributions need no way to draw
        return sampler(set(model.free_RVs))


def _check(model) -> None:
    from pymc.data import MinibatchOp

    discrete = [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]
    if discrete:
        raise ValueError(
            f"The latent variables {discrete} are discrete, and SVGD needs gradients. Sum them out, for instance with "
            "pm.Mixture or pymc_extras.marginalize, or give them observed values."
        )
    if not model.free_RVs:
        raise ValueError("The model has no free variables: there is nothing to infer.")
    if any(isinstance(node.op, MinibatchOp) for node in _nodes(model.basic_RVs + list(model.rvs_to_values.values()))):
        raise ValueError(
            "The model has a pm.Minibatch, whose random state JAX cannot see. Use all the data, or write the model in "
            "NumPyro with numpyro.plate(..., subsample_size=...), or as sf.Posterior(..., batch_size=...)."
        )


def _nodes(variables):
    from pytensor.graph.traversal import ancestors

    return [variable.owner for variable in ancestors(variables) if variable.owner is not None]


@contextlib.contextmanager
def _no_side_effects():
    """Undo what importing PyMC's JAX module does: it switches JAX to 64 bits and asks XLA for 100 devices."""
    x64, flags = jax.config.read("jax_enable_x64"), os.environ.get("XLA_FLAGS")
    try:
        import pymc.sampling.jax  # noqa: F401

        jax.config.update("jax_enable_x64", x64)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")  # JAX brings its own
            yield
    finally:
        jax.config.update("jax_enable_x64", x64)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags
