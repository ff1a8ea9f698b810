"""What PyMC and JAX make of a PyMC model: functions on arrays, and draws."""

import contextlib
import functools
import warnings
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.data import Rows
from steinflow.targets.pymc_minibatch import Minibatched
from steinflow.typing import Array


class Graphs:
    """What PyMC and JAX make of the model, once: functions on arrays, in the order of the model's free variables.

    Args:
        model: the model.
        varied: names of `pm.Data` whose values are further arguments of the functions, the last ones.

    """

    def __init__(self, model, varied: tuple[str, ...] = ()):
        from pytensor.graph.traversal import ancestors

        self.model, self.varied = model, varied
        self.minibatched = minibatched = Minibatched.find(model)
        self.free = tuple(rv.name for rv in model.free_RVs)
        reported = [*model.free_RVs, *self._deterministics(of_rows=False)]
        self.reported = tuple(variable.name for variable in reported)
        self.observed_names = tuple(rv.name for rv in model.observed_RVs)
        self.coords = {name: list(places) for name, places in model.coords.items() if places is not None}
        self.dims = {name: tuple(dims) for name, dims in model.named_vars_to_dims.items()}
        values = model.replace_rvs_by_values(reported)
        observations = [model.rvs_to_values[rv] for rv in model.observed_RVs]
        inputs, terms = list(model.value_vars), {}
        if minibatched is not None:
            given = dict(zip(model.free_RVs, values, strict=False))  # which come first
            inputs += minibatched.rows
            terms = {rv: minibatched.log_likelihood(rv, minibatched.rows, given) for rv in minibatched.observed}
            observations = minibatched.follow(observations, minibatched.sources, {})
        others = [term for term in (*model.free_RVs, *model.observed_RVs, *model.potentials) if term not in terms]
        log_density = sum((term.sum() for term in terms.values()), start=model.logp(vars=others))
        log_likelihoods = [
            terms[rv] if rv in terms else model.logp(vars=[rv], sum=False)[0] for rv in model.observed_RVs
        ]
        data = {model[name]: _like(model[name]) for name in varied}
        self.log_density = _jaxified(inputs, [log_density], data)
        self.log_likelihoods = _jaxified(inputs, log_likelihoods, data)
        self.constrain = _jaxified(model.value_vars, values, data)
        self.unconstrain = _jaxified(*_way_to_values(model), data)
        self.observed = _jaxified([], observations, data)
        self._draw = _prior_sampler(model)
        self.prior_shapes = {
            name: jax.ShapeDtypeStruct(np.shape(value), jnp.result_type(float)) for name, value in self._draw(0).items()
        }
        self.prior_varies = not set(data).isdisjoint(ancestors(model.free_RVs))

    def with_varied(self, names: tuple[str, ...]) -> "Graphs":
        """Return the same functions with data by these names as further arguments.

        Raises:
            ValueError: if the model has no such data, or sees a part of them at every step.
        """
        _check_names(self.model, names)
        if self.minibatched is not None:
            raise ValueError("A model with a pm.Minibatch cannot take other data: give it all rows at every step.")
        return _varied(self, names)

    def rows(self) -> Rows | None:
        """Return the data of a `pm.Minibatch`; None where the model has none."""
        if self.minibatched is None:
            return None
        return Rows(tuple(_jaxified([], self.minibatched.sources)([])), self.minibatched.batch_size)

    def draw_prior(self, seeds):
        """Draw one particle for every row of seeds."""
        seeds = np.asarray(seeds)
        draws = [self._draw([int(word) for word in seed]) for seed in seeds.reshape(-1, seeds.shape[-1])]
        return {
            name: np.stack([draw[name] for draw in draws]).astype(like.dtype).reshape(seeds.shape[:-1] + like.shape)
            for name, like in self.prior_shapes.items()
        }

    def draw_predictive(
        self, particles, data: Mapping[str, Any], seed: int, *, held: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Draw the observed variables once for every particle; with new data, which the deterministics follow, too.

        Data that the model does not hold now are `held` for a while.
        """
        import pymc as pm

        drawn = [*self.model.observed_RVs, *(self.model.deterministics if data else self._deterministics(of_rows=True))]
        if not drawn:
            return {}
        with _holding(self.model, {**held, **data}):
            # Not pm.sample_posterior_predictive: it draws a free variable anew whose prior depends on a pm.Data.
            inputs, outputs = _given_free_variables(self.model, drawn, self.minibatched)
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

    def _deterministics(self, *, of_rows: bool):
        """The deterministics that depend on rows of a `pm.Minibatch`, or the others."""
        found = self.minibatched
        return [each for each in self.model.deterministics if of_rows == (found is not None and found.depends(each))]


@contextlib.contextmanager
def _holding(model, data: Mapping[str, Any]):
    """Let a model hold other data for a while; axes whose length changes are numbered."""
    import pymc as pm
    from pymc.exceptions import ShapeWarning

    _check_names(model, data)

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


@functools.lru_cache(maxsize=8)  # and not in the graphs, which would then not be what they were
def _varied(graphs: Graphs, names: tuple[str, ...]) -> Graphs:
    with jax.ensure_compile_time_eval():
        return Graphs(graphs.model, names)


def _check_names(model, names: Iterable[str]) -> None:
    known = [variable.name for variable in model.data_vars]
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"The model has no pm.Data named {unknown}; it has {known}.")


def _like(data):
    """Return an input in place of a `pm.Data`, of the shape that it has now: JAX needs to know shapes."""
    return data.type.clone(shape=data.get_value(borrow=True).shape)()


def _jaxified(inputs, outputs, data: Mapping[Any, Any] | None = None):
    """Return outputs as a JAX function of a list of inputs, and of what stands for some of the data."""
    from pymc.sampling.jax import get_jaxified_graph
    from pytensor.graph.replace import clone_replace

    if data:
        inputs, outputs = [*inputs, *data.values()], clone_replace(outputs, replace=data)
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


def _given_free_variables(model, outputs, minibatched: Minibatched | None = None):
    """Inputs and outputs of the graph from the user's values of the free variables to these outputs, on all rows."""
    from pytensor.graph.replace import clone_replace

    users = {rv: rv.type() for rv in model.free_RVs}
    if minibatched is None:
        return list(users.values()), clone_replace(outputs, replace=users)
    return list(users.values()), minibatched.drawn_anew(outputs, users)


def _prior_sampler(model):
    """A function from a seed to one draw of all free variables; what has no draws starts about its support point.

    Variables that a transform keeps in order are put in order: of a prior's own draws of six numbers one in 720 is.
    """
    from pymc.distributions.continuous import FlatRV, HalfFlatRV
    from pymc.initial_point import make_initial_point_fn

    transforms = {rv: _sorting() if _orders(t) else t for rv, t in model.rvs_to_transforms.items()}
    start: Any = SimpleNamespace(  # what PyMC asks of a model here
        free_RVs=model.free_RVs, rvs_to_transforms=transforms, rvs_to_initial_values=model.rvs_to_initial_values
    )

    def sampler(improper):
        strategies: dict = {rv: "support_point" if rv in improper else "prior" for rv in model.free_RVs}
        draw = make_initial_point_fn(model=start, overrides=strategies, jitter_rvs=improper, return_transformed=False)
        draw(0)
        return draw

    try:
        return sampler({rv for rv in model.free_RVs if isinstance(rv.owner.op, FlatRV | HalfFlatRV)})
    except NotImplementedError:  # custom distributions need no way to draw
        return sampler(set(model.free_RVs))


def _orders(transform) -> bool:
    from pymc.distributions.transforms import Chain, Ordered

    if isinstance(transform, Chain):
        return any(map(_orders, transform.transform_list))
    return isinstance(transform, Ordered)


def _sorting():
    """Return a transform whose numbers are those of the user, in order."""
    import pytensor.tensor as pt
    from pymc.logprob.transforms import Transform

    class Sorting(Transform):
        name = "sorting"

        def forward(self, value, *inputs) -> Any:
            return pt.sort(value, axis=-1)

        def backward(self, value, *inputs) -> Any:
            return value

        def log_jac_det(self, value, *inputs) -> Any:
            raise NotImplementedError  # draws have no density here

    return Sorting()
