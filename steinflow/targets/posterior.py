"""Prior times likelihood of data: the target whose data come row by row."""

import abc
from collections.abc import Callable
from typing import SupportsIndex

import equinox as eqx
import jax.numpy as jnp

from steinflow.targets.base import ConstrainedTarget, as_scalar
from steinflow.targets.data import HostRows, Rows, as_data
from steinflow.targets.influence import Drawn
from steinflow.targets.observations import Observations, ObservedRows
from steinflow.targets.streams import HostData, num_rows_of
from steinflow.typing import Array, Batch, Params, PRNGKeyArray, PyTree, Scalar


class Approached(eqx.Module):
    """A log likelihood of rows with another one to climb on the way."""

    @property
    @abc.abstractmethod
    def approach(self) -> Callable[..., Array]:
        """What to climb, of the same arguments."""


def approach_of(log_likelihood: Callable[..., Array]) -> Callable[..., Array]:
    """Return what to climb on the way to a log likelihood: itself, for most."""
    return log_likelihood.approach if isinstance(log_likelihood, Approached) else log_likelihood


class WeightedRows(Approached):
    """A log likelihood of rows with weights: rows of weight 0 count for nothing, whatever their values."""

    log_likelihood: Callable[[Params, Batch], Array]

    @property
    def approach(self):
        return WeightedRows(approach_of(self.log_likelihood))

    def __call__(self, params, rows):
        values, weights = rows
        log_likelihoods = self.log_likelihood(params, values)
        return jnp.where(weights > 0, weights.astype(log_likelihoods.dtype) * log_likelihoods, 0.0)


class CountedPrior(eqx.Module):
    """A log prior that counts more often or less than once: a Gaussian that counts four times is half as wide."""

    log_prior: Callable[[Params], Scalar]
    count: Scalar

    def __call__(self, params: Params) -> Scalar:
        if isinstance(self.log_prior, CountablePrior):
            return self.log_prior.counted(params, self.count)
        return self.count * self.log_prior(params)


class CountablePrior(eqx.Module):
    """A log prior that says itself what counts more often: what it says about weights, and not the rest."""

    @abc.abstractmethod
    def counted(self, params: Params, count: Scalar | float) -> Scalar:
        """Return the log density of one particle where the prior of the weights counts so often."""

    def __call__(self, params: Params) -> Scalar:
        """Return the log density of one particle."""
        return self.counted(params, 1.0)


class Posterior(ConstrainedTarget):
    r"""Prior times likelihood of data, on all rows or on minibatches.

    $\log p(x) \approx \log p_0(x) + \frac{N}{|B|} \sum_{k \in B} \log p(D_k \mid x)$, one batch B per step, shared
    by all particles, no row twice in an epoch.

    Args:
        log_prior: a function of one particle that returns its log prior density.
        log_likelihood: a function of one particle and some rows of the data that returns one value per row.
        data: a pytree of arrays with the same leading axis. Arrays of `numpy.memmap`, HDF5 or Zarr stay on disk and
            are read in batches, and so are arrays in `sf.data.Mapped(...)`. `sf.data.Stream(...)` takes batches from
            any source.
        batch_size: rows per step; all of them if not given.
        prior: a function of a key that returns one starting particle.
        constraints: as for `Density`.

    Raises:
        ValueError: if arrays differ in length or are empty, or if the batch size is not a valid number of rows.
    """

    log_prior: Callable[[Params], Scalar]
    log_likelihood: Callable[[Params, Batch], Array]
    _data: Rows | HostRows

    def __init__(
        self,
        log_prior: Callable[[Params], Scalar],
        log_likelihood: Callable[[Params, Batch], Array],
        data: PyTree | HostData,
        batch_size: SupportsIndex | None = None,
        *,
        prior: Callable[[PRNGKeyArray], Params] | None = None,
        constraints: PyTree = None,
    ):
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self._data = as_data(data, batch_size)
        self.prior, self.constraints = prior, constraints

    @property
    def data(self) -> Rows | HostRows:
        """The rows, and how many of them a step sees."""
        return self._data

    @property
    def observations(self) -> Observations | None:
        return ObservedRows(self.log_likelihood, self._data.values) if isinstance(self._data, Rows) else None

    def given(self, data):
        return Posterior(self.log_prior, self.log_likelihood, data, prior=self.prior, constraints=self.constraints)

    def weighted(self, weights):
        if not isinstance(self._data, Rows):
            return super().weighted(weights)
        parts = WeightedRows(self.log_likelihood), Rows((self._data.values, weights))
        return eqx.tree_at(lambda target: (target.log_likelihood, target._data), self, parts)

    @property
    def approach(self):
        if not isinstance(self.log_likelihood, Approached):
            return self
        return eqx.tree_at(lambda target: target.log_likelihood, self, approach_of(self.log_likelihood))

    def user_log_density(self, params, batch):
        return as_scalar(self.log_prior(params), "log prior") + self.user_log_likelihood(params, batch)

    def user_log_likelihood(self, params: Params, batch: Batch | None) -> Scalar:
        """Return the log likelihood of all rows at `params` in the user's space, estimated from `batch` if given."""
        rows, weights = self._data.rows(batch), None
        if isinstance(rows, Drawn):
            rows, weights = rows.values, rows.weights
        values, num_rows = self.row_log_likelihoods(params, rows), num_rows_of(rows)
        if weights is not None:
            values = weights.astype(values.dtype) * values
        return self._data.num_rows / num_rows * jnp.sum(values)

    def row_log_likelihoods(self, params: Params, rows: Batch) -> Array:
        """Return the log likelihood of each of these rows at `params` in the user's space.

        Raises:
            ValueError: if the log likelihood is not one value per row.
        """
        values, num_rows = self.log_likelihood(params, rows), num_rows_of(rows)
        if jnp.shape(values) != (num_rows,):
            raise ValueError(
                f"log_likelihood must return one value per row, shape ({num_rows},); got shape {jnp.shape(values)}. "
                "Sum over all axes but the first."
            )
        return values
