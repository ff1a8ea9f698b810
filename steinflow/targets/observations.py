"""What a model says about the values that were observed: their likelihood, new data sets, and names for ArviZ."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax

from steinflow.typing import Array, Batch, Params, PRNGKeyArray


class Labels(NamedTuple):
    """Names for ArviZ: the axes of each variable (None where an axis has no name), and the positions on an axis."""

    dims: Mapping[str, Sequence[str | None]] = {}
    coords: Mapping[str, Sequence] = {}


class Predictions(NamedTuple):
    """What every particle expects of observed numbers; of classes, of the indicator of each.

    Attributes:
        means: particles x numbers.
        variances: of single observations, likewise.
        observed: the numbers.
    """

    means: Array
    variances: Array
    observed: Array


class Observations(eqx.Module):
    """The observed values of a target; particles are those of the user's space, with a leading axis."""

    @abc.abstractmethod
    def observed(self) -> Mapping[str, Array]:
        """Return what was observed, by name."""

    def log_likelihoods(self, particles: Params) -> Mapping[str, Array]:
        """Return the log likelihood of every observation under every particle, by name; {} where it is unknown."""
        return {}

    def predictions(self, particles: Params, max_rows: int) -> Predictions | None:
        """Return what every particle expects of some of the rows, evenly spread; None where it is unknown."""
        return None

    def predictive(self, particles: Params, *args, key: PRNGKeyArray, **kwargs) -> Mapping[str, Array]:
        """Return one new data set for every particle, by name, from the posterior predictive; {} if it is unknown.

        Args:
            particles: in the user's space, with a leading axis.
            args: the arguments of the model to predict for; if there are none, those that it was fitted with.
            key: a JAX key.
            kwargs: the same, by name.
        """
        return {}

    def labels(self) -> Labels:
        """Return the names of axes and of the positions on them."""
        return Labels()


class ObservedRows(Observations):
    """The rows of a posterior's data, in memory."""

    log_likelihood: Callable[[Params, Batch], Array]
    rows: Batch

    def observed(self):
        leaves = jax.tree_util.tree_leaves_with_path(self.rows)
        return {jax.tree_util.keystr(path, simple=True, separator=".") or "data": leaf for path, leaf in leaves}

    def log_likelihoods(self, particles):
        return {"likelihood": jax.vmap(self.log_likelihood, in_axes=(0, None))(particles, self.rows)}
