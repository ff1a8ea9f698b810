"""What we infer: a log density over the user's parameters, with its prior, its constraints and its data.

The user's space is where people think: named parameters, positive scales, probabilities that sum to one. Methods work
elsewhere: on points x of R^d, without constraints. `Target` is the first, `FlatTarget` the second; the log-determinant
of the way between them is part of the density.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from steinflow.targets import transforms
from steinflow.targets.batches import batch_indices
from steinflow.targets.streams import HostData, Stream, as_data
from steinflow.typing import Array, Batch, Params, PRNGKeyArray, PyTree, Scalar


class Labels(NamedTuple):
    """Names for ArviZ: the axes of each variable (None where an axis has no name), and the places on an axis."""

    dims: Mapping[str, Sequence[str | None]] = {}
    coords: Mapping[str, Sequence] = {}


class Target(eqx.Module):
    """A log density, up to a constant, over a pytree of unconstrained parameters.

    To add one: implement `log_density`; implement the others where they differ from the defaults.
    """

    @abc.abstractmethod
    def log_density(self, params: Params, batch: Batch | None = None) -> Scalar:
        """Return log p at unconstrained `params`, estimated from `batch` if there is one."""

    def constrain(self, params: Params) -> Params:
        """Take one unconstrained particle to the user's space."""
        return params

    def unconstrain(self, params: Params) -> Params:
        """Take one particle from the user's space to the unconstrained one."""
        return params

    def sample_prior(self, key: PRNGKeyArray) -> Params:
        """Draw one particle, in the user's space."""
        raise ValueError(
            "This target has no prior to draw starting particles from. Pass fit(..., particles=x0) with a leading axis "
            "of particles, or give the target a prior: Density(..., prior=lambda key: one_draw)."
        )

    @property
    def knows_log_density(self) -> bool:
        """Whether `log_density` has a value; where a target knows its scores alone, it is NaN."""
        return True

    @property
    def reach(self) -> float | None:
        """How far a weight may go in a run, where the parameters are a network's: `fit` has another default there."""
        return None

    def sample(self, key: PRNGKeyArray) -> Params:
        """Draw one exact sample, in the user's space, where that is possible."""
        raise ValueError(
            "This target cannot be sampled exactly. Use sf.NUTS() or sf.SVGD(), or give the draws yourself: "
            "sf.MonteCarlo(lambda key: one_draw)."
        )

    def laplacian(self, params: Params) -> Scalar:
        """Return the trace of the Hessian of log p at unconstrained `params`, by autodiff unless a target knows it."""
        x, unravel = ravel_pytree(params)
        score = jax.grad(lambda x: self.log_density(unravel(x)))
        basis = jnp.eye(len(x), dtype=x.dtype)
        return jnp.sum(jax.vmap(lambda e: e @ jax.jvp(score, (x,), (e,))[1])(basis))

    def minibatch(self, key: PRNGKeyArray, step: Array) -> Batch | None:
        """Return the rows of the data that step number `step` sees; None stands for all of them."""
        return None

    @property
    def batches_per_epoch(self) -> float | None:
        """How many minibatches it takes to see all of the data; None where every step sees all of it."""
        return None

    @property
    def host_data(self) -> HostData | None:
        """The data, where they stay on the host and batches are fed from there; `minibatch` is not called then."""
        return None

    def batch_shape(self) -> Batch | None:
        """Return the shapes of a batch, where there is no log density without one."""
        return None

    def rows(self, batch: Batch | None) -> Batch | None:
        """Return the rows whose terms add up to the log density, for devices to share; None where there are none."""
        return None

    def observed(self) -> Mapping[str, Array]:
        """Return what was observed, by name."""
        return {}

    def log_likelihoods(self, particles: Params) -> Mapping[str, Array]:
        """Return the log likelihood of every observation under every particle, in the user's space, by name."""
        return {}

    def predictive(self, particles: Params, *, key: PRNGKeyArray) -> Mapping[str, Array]:
        """Return one new data set for every particle, by name: draws from the posterior predictive."""
        return {}

    def labels(self) -> Labels:
        """Return the names of axes and of the places on them."""
        return Labels()


class ConstrainedTarget(Target):
    """A target written in the user's space: the way to R^d and its log-determinant are taken care of here."""

    prior: Callable[[PRNGKeyArray], Params] | None = eqx.field(default=None, kw_only=True)
    constraints: PyTree = eqx.field(default=None, kw_only=True)

    @abc.abstractmethod
    def user_log_density(self, params: Params, batch: Batch | None) -> Scalar:
        """Return log p at `params` in the user's space, without any log-determinant."""

    def log_density(self, params, batch=None):
        params, log_determinant = transforms.constrain(self.constraints, params)
        return self.user_log_density(params, batch) + log_determinant

    def constrain(self, params):
        return transforms.constrain(self.constraints, params)[0]

    def unconstrain(self, params):
        return transforms.unconstrain(self.constraints, params)

    def sample_prior(self, key):
        return super().sample_prior(key) if self.prior is None else self.prior(key)


class Density(ConstrainedTarget):
    """A target given by a function of one particle.

    Args:
        function: takes one particle, in the user's space, to its log density up to a constant.
        prior: takes a key to one starting particle.
        constraints: where parameters live, as `sf.constraints` (positive, unit_interval, simplex, ...): one for all, or
            a pytree that matches the particle, or a prefix of it; None leaves a parameter on the real line.

    Example:
        ```python
        import jax.numpy as jnp, steinflow as sf

        gamma = sf.Density(lambda x: jnp.log(x) - x, constraints=sf.constraints.positive)
        ```
    """

    function: Callable[[Params], Scalar]

    def __check_init__(self):
        if not callable(self.function):
            raise TypeError(
                f"Density takes a function of one particle that returns its log density; got {self.function!r}."
            )

    def user_log_density(self, params, batch):
        return _as_scalar(self.function(params), "log density")


def _as_rows(data: Batch) -> Batch:
    try:
        return as_data(data)
    except TypeError as error:
        raise TypeError(
            "data must be arrays of numbers, in any pytree; encode text and categories as numbers first."
        ) from error


class Posterior(ConstrainedTarget):
    r"""Prior times likelihood of data, on all rows or on minibatches.

    $\log p(x) \approx \log p_0(x) + \frac{N}{|B|} \sum_{k \in B} \log p(D_k \mid x)$, one batch B per step, shared
    by all particles, no row twice in an epoch.

    Args:
        log_prior: takes one particle to its log prior density.
        log_likelihood: takes one particle and rows of the data to one value per row.
        data: a pytree of arrays with the same leading axis. Arrays of `numpy.memmap`, HDF5 or Zarr stay on disk, and
            are read by batches; so are those in `sf.Mapped(...)`. `sf.Stream(...)` takes batches from anywhere.
        batch_size: rows per step; all of them if not given.
        prior: takes a key to one starting particle.
        constraints: as for `Density`.
    """

    log_prior: Callable[[Params], Scalar]
    log_likelihood: Callable[[Params, Batch], Array]
    data: Batch = eqx.field(converter=_as_rows)
    batch_size: int | None = None

    def __check_init__(self):
        if isinstance(self.data, HostData):
            if self.batch_size is None and not isinstance(self.data, Stream):
                raise ValueError(
                    "Data that stay on the host are read by batches: pass Posterior(..., batch_size=256), say; or load "
                    "them, as with np.asarray, if they fit in memory."
                )
            self._check_batch_size()
            return
        lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(self.data)}
        if lengths == {0}:
            raise ValueError("data has no rows. Without data the posterior is the prior: use sf.Density(log_prior).")
        if len(lengths) != 1 or None in lengths:
            raise ValueError(
                "All arrays in data need the same leading axis, one entry per row; "
                f"got lengths {sorted(map(str, lengths))}."
            )
        self._check_batch_size()

    def _check_batch_size(self):
        if self.batch_size is None:
            return
        if not isinstance(self.batch_size, int) or not 1 <= self.batch_size <= self.num_data:
            raise ValueError(
                f"batch_size must be an int between 1 and the {self.num_data} rows of the data; "
                f"got {self.batch_size!r}."
            )

    @property
    def num_data(self) -> int:
        """The number of rows, N."""
        return self.data.num_data if isinstance(self.data, HostData) else len(jax.tree.leaves(self.data)[0])

    @property
    def batches_per_epoch(self):
        if self.host_data is None:
            return None if self.batch_size is None else self.num_data / self.batch_size
        return self.num_data / len(jax.tree.leaves(self.batch_shape())[0])

    @property
    def host_data(self):
        return self.data if isinstance(self.data, HostData) else None

    def batch_shape(self):
        return None if self.host_data is None else self.host_data.batch_shape(self.batch_size)

    def rows(self, batch):
        if batch is None and self.host_data is not None:
            raise ValueError(
                "The data of this posterior stay on the host, so its log density needs a batch. To look at all rows, "
                "make a second Posterior of arrays in memory."
            )
        return self.data if batch is None else batch

    def user_log_density(self, params, batch):
        rows = self.rows(batch)
        num_rows = len(jax.tree.leaves(rows)[0])
        values = self.log_likelihood(params, rows)
        if jnp.shape(values) != (num_rows,):
            raise ValueError(
                f"log_likelihood must return one value per row, shape ({num_rows},); got shape {jnp.shape(values)}. "
                "Sum over all axes but the first."
            )
        log_prior = _as_scalar(self.log_prior(params), "log prior")
        return log_prior + self.num_data / num_rows * jnp.sum(values)

    def minibatch(self, key, step):
        if self.batch_size is None or self.host_data is not None:
            return None
        rows = batch_indices(key, step, num_data=self.num_data, batch_size=self.batch_size)
        return jax.tree.map(lambda leaf: leaf[rows], self.data)

    def observed(self):
        if self.host_data is not None:
            return {}
        leaves = jax.tree_util.tree_leaves_with_path(self.data)
        return {jax.tree_util.keystr(path, simple=True, separator=".") or "data": leaf for path, leaf in leaves}

    def log_likelihoods(self, particles):
        if self.host_data is not None:
            return {}
        return {"likelihood": jax.vmap(self.log_likelihood, in_axes=(0, None))(particles, self.data)}


def as_target(target: Target | Callable[[Params], Scalar]) -> Target:
    """Accept a target, or a plain log density of one particle."""
    if isinstance(target, Target):
        return target
    if callable(target):
        return Density(target)
    raise TypeError(
        "A target is a function of one particle that returns its log density, or sf.Density, sf.Posterior, ...; "
        f"got {target!r}."
    )


def _as_scalar(value, name) -> Scalar:
    if not isinstance(value, float | int | jax.Array | np.ndarray | np.generic):
        raise TypeError(
            f"The {name} of one particle must be a single number; got {value!r}. Does the function return its value?"
        )
    if jnp.shape(value) != ():
        raise ValueError(
            f"The {name} of one particle must be a single number; got shape {jnp.shape(value)}. "
            "The function sees ONE particle, without the leading axis: sum over its coordinates."
        )
    if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise TypeError(f"The {name} must be a real number that can be differentiated; got {jnp.result_type(value)}.")
    return jnp.asarray(value)
