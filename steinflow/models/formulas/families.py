"""What a response may be, and real numbers: a family has parameters, their links, a density, a mean and draws.

Parameters come in their forms (`links`): a positive one as its logarithm, a probability as its log-odds.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

from steinflow.models.formulas.links import Form
from steinflow.typing import Array

Forms = Mapping[str, Array]
Rows = Mapping[str, Array]
NumPyForms = Mapping[str, np.ndarray]


class ResponseFamily(eqx.Module):
    """The distribution of a response, given its parameters: `mu`, for which the formula is, and auxiliary ones.

    To add one: say the form and the links of mu, the forms of the auxiliary parameters, and the four functions; then
    add it to `FAMILIES`.
    """

    name: ClassVar[str]
    form: ClassVar[Form] = "identity"
    links: ClassVar[tuple[str, ...]] = ("identity",)
    auxiliary: ClassVar[Mapping[str, Form]] = {}
    standardized: ClassVar[bool] = False  # a real response, which may be shifted and scaled
    ordered: ClassVar[bool] = False  # thresholds take the place of the intercept
    of_classes: ClassVar[bool] = False  # or of how often one of two classes occurs
    censored: ClassVar[bool] = False  # knows the probability to exceed a value
    num_levels: int | None = eqx.field(default=None, static=True, kw_only=True)

    @property
    def num_outputs(self) -> int:
        """How many linear predictors mu has."""
        return 1

    def check(self, y: np.ndarray, name: str) -> np.ndarray:
        """Return the response as numbers, or say what is wrong with it."""
        return y

    @abc.abstractmethod
    def log_density(self, forms: Forms, rows: Rows) -> Array:
        """Return the log density of every row."""

    @abc.abstractmethod
    def mean(self, forms: Forms, rows: Rows) -> Array:
        """Return the mean of every row, or the probabilities of its levels."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, forms: NumPyForms, mean: np.ndarray, rows: NumPyForms) -> np.ndarray:
        """Draw every row for every particle; forms and means have a leading axis of particles.

        By NumPy: JAX takes many seconds to compile a gamma or a Poisson draw.
        """

    def log_survival(self, forms: Forms, rows: Rows) -> Array:
        """Return the log probability of a value beyond that of the row."""
        raise NotImplementedError

    def scale_of(self, y: np.ndarray) -> float:
        """Return the sd of the response where mu is on its scale, otherwise 1; priors are in this unit."""
        return 1.0

    def center_of(self, y: np.ndarray, rows: Mapping[str, Any]) -> float:
        """Return the mean of the response, inside of what the link allows."""
        return float(np.mean(y))


class Gaussian(ResponseFamily):
    """Real numbers with normal noise."""

    name: ClassVar[str] = "gaussian"
    links: ClassVar[tuple[str, ...]] = ("identity", "log")
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log"}
    standardized: ClassVar[bool] = True
    censored: ClassVar[bool] = True

    def log_density(self, forms, rows):
        return norm.logpdf(self._residual(forms, rows)) - forms["sigma"]

    def log_survival(self, forms, rows):
        return norm.logcdf(-self._residual(forms, rows))

    def mean(self, forms, rows):
        return forms["mu"]

    def sample(self, rng, forms, mean, rows):
        return mean + np.exp(forms["sigma"]) * rng.standard_normal(mean.shape)

    def scale_of(self, y):
        return float(np.std(y)) or 1.0

    def _residual(self, forms, rows):
        return (rows["y"] - forms["mu"]) * jnp.exp(-forms["sigma"])


class StudentT(Gaussian):
    """Real numbers with heavy tails."""

    name: ClassVar[str] = "t"
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log", "nu": "log"}
    censored: ClassVar[bool] = False

    def log_density(self, forms, rows):
        nu, residual = jnp.exp(forms["nu"]), self._residual(forms, rows)
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(jnp.pi * nu)
        return constant - (nu + 1) / 2 * jnp.log1p(residual**2 / nu) - forms["sigma"]

    def sample(self, rng, forms, mean, rows):
        return mean + np.exp(forms["sigma"]) * rng.standard_t(np.exp(forms["nu"]))


def values_of(y: np.ndarray) -> str:
    """Return the different values of a response for an error message."""
    found = np.unique(y)
    if len(found) <= 8:
        return ", ".join(f"{value:g}" if isinstance(value, float | int | np.number) else str(value) for value in found)
    return f"{len(found):,} different values"
