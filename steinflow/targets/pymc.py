"""PyMC models as targets: PyMC's own transforms and draws, its log density compiled by JAX."""

import contextlib
import os
import warnings
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.base import Target
from steinflow.targets.data import Rows
from steinflow.targets.observations import Labels, Observations
from steinflow.targets.pymc_graphs import Graphs

if TYPE_CHECKING:
    import pymc


def from_pymc(model: "pymc.Model") -> "PyMCTarget":
    """Return a PyMC model as a target.

    Particles are dictionaries by variable name, on the scale that PyMC users know (a positive sigma, not its
    logarithm), and include the deterministics. Runs start from prior draws. `result.to_arviz()` includes the likelihood
    and predictive draws of the observed variables, with the model's coordinates and dimensions. The target keeps the
    data that the model has now: after `pm.set_data`, call `from_pymc` again. `result.predictive(X=X_new)` predicts for
    other values of the model's `pm.Data` and does not change them. Many data sets, of the shapes that the `pm.Data`
    have now, are fitted by `sf.fit_many(sf.from_pymc(model).given, {"y": data_sets})`.

    A `pm.Minibatch` makes minibatches: every row once per epoch, the same rows for all particles, their scores
    corrected at an anchor. Likelihoods and predictions are those of all rows; deterministics that depend on rows are
    among the predictions, not among the particles.

    JAX computes in 32 bits by default, PyMC in 64. To make them agree, call
    `jax.config.update("jax_enable_x64", True)` before anything else. Needs `pip install 'steinflow[pymc]'`.

    Args:
        model: the model. `from_pymc` may be called inside or outside its `with` block.

    Raises:
        TypeError: if `model` is none of PyMC.
        ModuleNotFoundError: where PyMC is not installed.

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
        graphs = Graphs(model)
        target = PyMCTarget(graphs, graphs.rows())
    if graphs.minibatched is not None:
        _check_rows(target, graphs.minibatched.batch_size)
    return target


class PyMCTarget(Target):
    """A PyMC model as a target; `from_pymc` makes it."""

    graphs: Graphs  # compared by identity: JAX does not look inside
    minibatched: Rows | None = None
    varied: tuple[jax.Array, ...] = ()  # values of some of the model's data, in the order of the graphs

    def log_density(self, params, batch=None):
        return self.graphs.log_density([*self._values(params), *self._rows(batch), *self.varied])[0]

    def given(self, data):
        """Return the same model with other values of its `pm.Data`, by name, of the shapes that they have now."""
        names = tuple(sorted(data))
        with _no_side_effects():
            graphs = self.graphs.with_varied(names)
        return PyMCTarget(graphs, varied=tuple(jnp.asarray(data[name]) for name in names))

    @property
    def data(self):
        return self.minibatched

    def constrain(self, params):
        values = self.graphs.constrain([*self._values(params), *self.varied])
        return dict(zip(self.graphs.reported, values, strict=True))

    def unconstrain(self, params):
        missing = [name for name in self.graphs.free if name not in params]
        if missing:
            raise ValueError(
                f"particles must be a dictionary with an array for each of {list(self.graphs.free)}; "
                f"{missing} are missing."
            )
        values = self.graphs.unconstrain([*self._values(params), *self.varied])
        return dict(zip(self.graphs.free, values, strict=True))

    def sample_prior(self, key):
        if self.graphs.prior_varies:
            raise ValueError(
                f"The prior depends on the data {list(self.graphs.varied)}, which are others now, and PyMC draws with "
                "those of the model: pass particles=."
            )
        # One call of PyMC's own sampler for all particles: vmap adds an axis to the seed.
        seed = jax.random.bits(key, (2,))
        return jax.pure_callback(self.graphs.draw_prior, self.graphs.prior_shapes, seed, vmap_method="expand_dims")

    @property
    def observations(self) -> Observations:
        return PyMCObservations(self)

    def log_likelihoods(self, params):
        """Return the log likelihoods of all rows at one particle, unconstrained, by observed variable."""
        values = self.graphs.log_likelihoods([*self._values(params), *self._rows(None), *self.varied])
        return dict(zip(self.graphs.observed_names, values, strict=True))

    def _values(self, params):
        return [params[name] for name in self.graphs.free]

    def _rows(self, batch):
        """The rows of a batch, or all of them; none where the model has no `pm.Minibatch`."""
        return () if self.minibatched is None else self.minibatched.rows(batch)


class PyMCObservations(Observations):
    """The observed variables of a PyMC model."""

    model: PyMCTarget

    def observed(self):
        graphs = self.model.graphs
        return dict(zip(graphs.observed_names, graphs.observed([*self.model.varied]), strict=True))

    @eqx.filter_jit
    def log_likelihoods(self, particles):
        def one(params):
            return self.model.log_likelihoods(self.model.unconstrain(params))

        return jax.vmap(one)({name: jnp.asarray(particles[name]) for name in self.model.graphs.free})

    def predictive(self, particles, *args, key, **kwargs):
        if args:
            raise TypeError("A PyMC model has no arguments but its pm.Data, by name: result.predictive(X=X_new).")
        held = dict(zip(self.model.graphs.varied, map(np.asarray, self.model.varied), strict=True))
        return self.model.graphs.draw_predictive(particles, kwargs, int(jax.random.bits(key) >> 1), held=held)

    def labels(self):
        return Labels(self.model.graphs.dims, self.model.graphs.coords)


def _check(model) -> None:
    discrete = [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]
    if discrete:
        raise ValueError(
            f"The latent variables {discrete} are discrete, and SVGD needs gradients. Sum them out, for instance with "
            "pm.Mixture or pymc_extras.marginalize, or give them observed values."
        )
    if not model.free_RVs:
        raise ValueError("The model has no free variables: there is nothing to infer.")


def _check_rows(target: PyMCTarget, batch_size: int) -> None:
    """Refuse a model whose likelihood has a length of its own, before anything runs."""
    params = jax.eval_shape(target.unconstrain, target.graphs.prior_shapes)
    try:
        jax.eval_shape(target.log_likelihoods, params)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The model takes {batch_size} rows and no other number, although a step may see half of a "
            "minibatch, and predictions see all rows. Give every array of that length to pm.Minibatch too."
        ) from error


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
