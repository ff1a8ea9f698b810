"""What we infer: a log density over the user's parameters, with its prior, its constraints and its data.

The user's space is where people think: named parameters, positive scales, probabilities that sum to one. Methods work
elsewhere: on points x of R^d, without constraints. `Target` is the first, `FlatTarget` the second; the log-determinant
of the way between them is part of the density.
"""

import abc
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.targets import transforms
from steinflow.targets.data import Data, Rows
from steinflow.targets.observations import Observations
from steinflow.typing import Array, Batch, Params, PRNGKeyArray, PyTree, Scalar


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
        """Draw one particle, in the user's space.

        Raises:
            ValueError: if there is no prior.
        """
        raise ValueError(
            "This target has no prior to draw starting particles from. Pass fit(..., particles=x0) with a leading axis "
            "of particles, or give the target a prior: Density(..., prior=lambda key: one_draw)."
        )

    def simulate(self, params: Params, key: PRNGKeyArray) -> PyTree:
        """Draw the data that one particle, in the user's space, would produce, as `given` takes them.

        Raises:
            ValueError: if the target does not know how.
        """
        raise ValueError(
            "This target does not know how to simulate its data. Pass simulate=, a function of one particle and a key."
        )

    def given(self, data: PyTree) -> "Target":
        """Return the same model with other data.

        Raises:
            ValueError: if the target cannot take other data.
        """
        raise ValueError("This target cannot take other data. Instead, pass a function that takes data to a target.")

    def weighted(self, weights: Array) -> "Target":
        """Return the same model with rows that count as often as their weights say: those of weight 0 not at all.

        Raises:
            ValueError: if its rows cannot be weighted.
        """
        raise ValueError("The rows of this target cannot be left out. Use sf.Posterior or one of sf.models.")

    def selected(self, rows: np.ndarray) -> "Target":
        """Return the same model, with the same prior, given some of its rows alone.

        Raises:
            ValueError: if it has no rows in memory.
        """
        if not isinstance(self.data, Rows):
            raise ValueError("This target has no rows in memory to choose from. Use sf.Posterior or one of sf.models.")
        chosen = jax.tree.map(lambda leaf: as_array(np.asarray(leaf)[rows]), self.data.values)
        return eqx.tree_at(lambda target: target.data, self, Rows(chosen))

    def by_row(self, values: Sequence | np.ndarray, name: str) -> np.ndarray:
        """Return what was given for every row of the data, as an array; `name` is that of the argument.

        Raises:
            ValueError: if there is not one entry for every row.
        """
        num_rows, found = 0 if self.data is None else self.data.num_rows, np.asarray(values)
        if found.shape[:1] != (num_rows,):
            raise ValueError(f"{name} needs one entry for each of the {num_rows} rows; got shape {found.shape}.")
        return found

    @property
    def data(self) -> Data | None:
        """How steps see the data; None where a target has none."""
        return None

    @property
    def observations(self) -> Observations | None:
        """What the model says about the observed values; None where there are none, or where they are not at hand."""
        return None

    @property
    def knows_log_density(self) -> bool:
        """Whether `log_density` has a value; where a target knows its scores alone, it is NaN."""
        return True

    @property
    def identified(self) -> bool:
        """Whether the parameters have a meaning of their own; the weights of a neural network do not."""
        return True

    @property
    def approach(self) -> "Target":
        """The target to climb on the way to this one: itself, unless climbing it leads to poor fits."""
        return self


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
        function: a function of one particle, in the user's space, that returns its log density up to a constant.
        prior: a function of a key that returns one starting particle.
        constraints: the range of the parameters, from `sf.constraints` (positive, unit_interval, simplex, ...): one for
            all, or a pytree that matches the particle or is a prefix of it. None means the real line.

    Raises:
        TypeError: if `function` cannot be called.

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
                f"Density needs a function of one particle that returns its log density; got {self.function!r}."
            )

    def user_log_density(self, params, batch):
        return as_scalar(self.function(params), "log density")


def as_target(target: Target | Callable[[Params], Scalar]) -> Target:
    """Return a target, also of a plain log density of one particle."""
    if isinstance(target, Target):
        return target
    if callable(target):
        return Density(target)
    raise TypeError(
        "A target must be a function of one particle that returns its log density, or sf.Density, sf.Posterior, ...; "
        f"got {target!r}."
    )


def as_scalar(value: object, name: str) -> Scalar:
    """Return what a user's function gave as a scalar; say what is wrong where it is none."""
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
