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
from jax.flatten_util import ravel_pytree

from steinflow import transforms
from steinflow.batches import batch_indices
from steinflow.typing import (
    Array,
    Batch,
    Params,
    Particles,
    Point,
    PRNGKeyArray,
    PyTree,
    Scalar,
    Scores,
    Weights,
)


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

    def minibatch(self, key: PRNGKeyArray, step: Array) -> Batch | None:
        """Return the rows of the data that step number `step` sees; None stands for all of them."""
        return None

    def observed(self) -> Mapping[str, Array]:
        """Return what was observed, by name."""
        return {}

    def log_likelihoods(self, particles: Params) -> Mapping[str, Array]:
        """Return the log likelihood of every observation under every particle (the user's, with a leading axis), by name."""
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


class Posterior(ConstrainedTarget):
    r"""Prior times likelihood of data, on all rows or on minibatches.

    $\log p(x) \approx \log p_0(x) + \frac{N}{|B|} \sum_{k \in B} \log p(D_k \mid x)$, one batch B per step, shared
    by all particles, no row twice in an epoch.

    Args:
        log_prior: takes one particle to its log prior density.
        log_likelihood: takes one particle and rows of the data to one value per row.
        data: a pytree of arrays with the same leading axis.
        batch_size: rows per step; all of them if not given.
        prior: takes a key to one starting particle.
        constraints: as for `Density`.
    """

    log_prior: Callable[[Params], Scalar]
    log_likelihood: Callable[[Params, Batch], Array]
    data: Batch = eqx.field(converter=lambda data: jax.tree.map(jnp.asarray, data))
    batch_size: int | None = None

    def __check_init__(self):
        lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(self.data)}
        if len(lengths) != 1 or None in lengths:
            raise ValueError(
                "All arrays in data need the same leading axis, one entry per row; "
                f"got lengths {sorted(map(str, lengths))}."
            )
        if self.batch_size is not None and not 1 <= self.batch_size <= self.num_data:
            raise ValueError(
                f"batch_size must lie between 1 and the {self.num_data} rows of the data; got {self.batch_size}."
            )

    @property
    def num_data(self) -> int:
        """The number of rows, N."""
        return len(jax.tree.leaves(self.data)[0])

    def user_log_density(self, params, batch):
        rows = self.data if batch is None else batch
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
        if self.batch_size is None:
            return None
        rows = batch_indices(key, step, num_data=self.num_data, batch_size=self.batch_size)
        return jax.tree.map(lambda leaf: leaf[rows], self.data)

    def observed(self):
        leaves = jax.tree_util.tree_leaves_with_path(self.data)
        return {jax.tree_util.keystr(path, simple=True, separator=".") or "data": leaf for path, leaf in leaves}

    def log_likelihoods(self, particles):
        return {"likelihood": jax.vmap(self.log_likelihood, in_axes=(0, None))(particles, self.data)}


class FlatTarget(eqx.Module):
    """A target as methods see it: points of R^d without constraints, particles as rows of a matrix."""

    target: Target
    unravel: Callable[[Point], Params] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def log_density(self, x: Point, batch: Batch | None = None) -> Scalar:
        """Return log p(x)."""
        return self.target.log_density(self.unravel(x), batch)

    def log_densities_and_scores(self, particles: Particles, batch: Batch | None = None) -> tuple[Weights, Scores]:
        """Return log p and its gradient at every particle."""
        return jax.vmap(jax.value_and_grad(self.log_density), in_axes=(0, None))(particles, batch)

    def scores(self, particles: Particles, batch: Batch | None = None) -> Scores:
        """Return the gradient of log p at every particle."""
        return self.log_densities_and_scores(particles, batch)[1]

    def minibatch(self, key: PRNGKeyArray, step: Array) -> Batch | None:
        """Return the rows of the data that this step sees."""
        return self.target.minibatch(key, step)

    def to_user(self, particles: Particles) -> Params:
        """Return the particles in the user's space and structure, with a leading axis."""
        return jax.vmap(lambda x: self.target.constrain(self.unravel(x)))(particles)


def flatten(target: Target, particles: Params) -> tuple[FlatTarget, Particles]:
    """Return the target as methods see it, and the user's particles as rows of a matrix."""
    particles = jax.tree.map(_as_float, particles)
    leaves = jax.tree.leaves(particles)
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "particles needs a leading axis of at least one particle, the same in every array; "
            f"got shapes {[leaf.shape for leaf in leaves]}. A single particle x goes in as x[None]."
        )
    unconstrained = jax.vmap(target.unconstrain)(particles)
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], unconstrained))
    matrix = jax.vmap(lambda params: ravel_pytree(params)[0])(unconstrained)
    if matrix.shape[1] == 0:
        raise ValueError("particles have no coordinates: there is nothing to infer.")
    outside = int(jnp.sum(~jnp.all(jnp.isfinite(matrix), axis=1)))
    if outside:
        raise ValueError(
            f"{outside} of {len(matrix)} starting particles are not finite or lie outside their constraints. "
            "Start from points inside the support."
        )
    flat = FlatTarget(target, unravel, matrix.shape[1])
    jax.eval_shape(flat.log_density, matrix[0])  # errors of the user's function speak here, not mid-run
    return flat, matrix


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


def _as_float(leaf) -> Array:
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array
    if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
        return array.astype(float)
    raise TypeError(f"particles must be real numbers; got dtype {array.dtype}.")


def _as_scalar(value, name) -> Scalar:
    if jnp.shape(value) != ():
        raise ValueError(
            f"The {name} of one particle must be a single number; got shape {jnp.shape(value)}. "
            "The function sees ONE particle, without the leading axis: sum over its coordinates."
        )
    return value
