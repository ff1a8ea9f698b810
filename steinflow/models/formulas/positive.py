"""Families of positive numbers, times until an event among them, and of shares."""

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, sigmoid
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from scipy import special

from steinflow.models.formulas.families import ResponseFamily, values_of
from steinflow.models.formulas.links import Form
from steinflow.models.formulas.syntax import FormulaError

_LARGEST_LOG = 80.0  # of numbers that are drawn: single precision ends at 88


class Gamma(ResponseFamily):
    """Positive numbers with a constant coefficient of variation; alpha is the shape."""

    name: ClassVar[str] = "gamma"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity")
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}

    def check(self, y, name):
        return _positive(y, name, self.name)

    def log_density(self, forms, rows):
        shape, log_ratio = jnp.exp(forms["alpha"]), jnp.log(rows["y"]) - forms["mu"]
        return shape * (forms["alpha"] + log_ratio - jnp.exp(log_ratio)) - gammaln(shape) - jnp.log(rows["y"])

    def mean(self, forms, rows):
        return jnp.exp(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        shape = np.exp(forms["alpha"])
        return rng.standard_gamma(shape) / shape * mean


class LogNormal(ResponseFamily):
    """Positive numbers whose logarithm is normal, with mean mu and sd sigma."""

    name: ClassVar[str] = "lognormal"
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log"}
    censored: ClassVar[bool] = True

    def check(self, y, name):
        return _positive(y, name, self.name)

    def log_density(self, forms, rows):
        return norm.logpdf(self._residual(forms, rows)) - forms["sigma"] - jnp.log(rows["y"])

    def log_survival(self, forms, rows):
        return norm.logcdf(-self._residual(forms, rows))

    def mean(self, forms, rows):
        return jnp.exp(forms["mu"] + 0.5 * jnp.exp(2 * forms["sigma"]))

    def sample(self, rng, forms, mean, rows):
        log_values = forms["mu"] + np.exp(forms["sigma"]) * rng.standard_normal(mean.shape)
        return np.exp(np.minimum(log_values, _LARGEST_LOG))

    def scale_of(self, y):
        return float(np.std(np.log(y))) or 1.0

    def center_of(self, y, rows):
        return float(np.mean(np.log(y)))

    def _residual(self, forms, rows):
        return (jnp.log(rows["y"]) - forms["mu"]) * jnp.exp(-forms["sigma"])


class Weibull(ResponseFamily):
    """Times with a hazard that rises (alpha > 1) or falls; mu is the mean."""

    name: ClassVar[str] = "weibull"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log",)
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}
    censored: ClassVar[bool] = True

    def check(self, y, name):
        return _positive(y, name, self.name)

    def log_density(self, forms, rows):
        log_hazard = self._log_hazard(forms, rows)
        return forms["alpha"] + log_hazard - jnp.log(rows["y"]) - jnp.exp(log_hazard)

    def log_survival(self, forms, rows):
        return -jnp.exp(self._log_hazard(forms, rows))

    def mean(self, forms, rows):
        return jnp.exp(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        # By logarithms: where alpha is small, the scale is tiny and some of the times are huge.
        power = np.exp(-forms["alpha"])
        log_times = forms["mu"] - special.gammaln(1 + power) + power * np.log(rng.standard_exponential(mean.shape))
        return np.exp(np.minimum(log_times, _LARGEST_LOG))

    def _log_hazard(self, forms, rows):
        """The logarithm of the hazard up to the time of the row."""
        return jnp.exp(forms["alpha"]) * (jnp.log(rows["y"]) - self._log_scale(forms))

    def _log_scale(self, forms):
        return forms["mu"] - gammaln(1 + jnp.exp(-forms["alpha"]))


class Exponential(Weibull):
    """Times with a constant hazard; mu is the mean."""

    name: ClassVar[str] = "exponential"
    auxiliary: ClassVar[Mapping[str, Form]] = {}

    def _log_hazard(self, forms, rows):
        return jnp.log(rows["y"]) - forms["mu"]

    def log_density(self, forms, rows):
        return -forms["mu"] - jnp.exp(self._log_hazard(forms, rows))

    def sample(self, rng, forms, mean, rows):
        return rng.standard_exponential(mean.shape) * mean


class Beta(ResponseFamily):
    """Shares strictly between 0 and 1, with mean mu and precision kappa."""

    name: ClassVar[str] = "beta"
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    auxiliary: ClassVar[Mapping[str, Form]] = {"kappa": "log"}

    def check(self, y, name):
        if np.any(y <= 0) or np.any(y >= 1):
            raise FormulaError(f"The family 'beta' needs values strictly between 0 and 1; {name!r} has {values_of(y)}.")
        return y

    def log_density(self, forms, rows):
        y, (a, b) = rows["y"], self._shapes(forms)
        return (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y) + gammaln(a + b) - gammaln(a) - gammaln(b)

    def mean(self, forms, rows):
        return sigmoid(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        logs = (forms["kappa"] + special.log_expit(sign * forms["mu"]) for sign in (1, -1))
        return rng.beta(*(np.exp(np.maximum(each, -_LARGEST_LOG)) for each in logs))

    def _shapes(self, forms):
        return [jnp.exp(forms["kappa"] + log_sigmoid(sign * forms["mu"])) for sign in (1, -1)]


def _positive(y, name, family):
    """Refuse a response that is not positive."""
    if np.any(y <= 0):
        raise FormulaError(
            f"The family {family!r} needs positive values; {name!r} has {np.sum(y <= 0):,} that are not, such as "
            f"{y[y <= 0][0]:g}."
        )
    return y
