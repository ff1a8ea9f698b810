"""Families of positive numbers, times until an event among them, and of shares."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from steinflow.models.families.base import Family, values_of
from steinflow.models.families.functions import functions_of
from steinflow.models.families.links import Form
from steinflow.models.families.real import Noisy

_LARGEST_LOG = 80.0  # of numbers that are drawn: single precision ends at 88


class Gamma(Family):
    """Positive numbers with a constant coefficient of variation; mu is the mean, alpha the shape."""

    name: ClassVar[str] = "gamma"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity")
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}

    def check(self, y, name="y"):
        return _positive(y, name, self.name)

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        log_y = m.log(rows["y"])
        shape, log_ratio = m.exp(forms["alpha"]), log_y - forms["mu"]
        return shape * (forms["alpha"] + log_ratio - m.exp(log_ratio)) - m.gammaln(shape) - log_y

    def mean(self, forms, rows):
        return functions_of(forms).exp(forms["mu"])

    def variance(self, forms, rows):
        return functions_of(forms).exp(2 * forms["mu"] - forms["alpha"])

    def cdf(self, forms, rows):
        m = functions_of(forms, rows)
        shape = m.exp(forms["alpha"])
        return m.gammainc(shape, shape * m.maximum(rows["y"], 0.0) * m.exp(-forms["mu"]))

    def sample(self, rng, forms, rows):
        shape = np.exp(forms["alpha"])
        return rng.standard_gamma(shape, np.shape(forms["mu"])) / shape * np.exp(forms["mu"])


class LogNormal(Noisy):
    """Positive numbers whose logarithm is normal, with mean mu and sd sigma."""

    name: ClassVar[str] = "lognormal"
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log"}
    censored: ClassVar[bool] = True

    def check(self, y, name="y"):
        return _positive(y, name, self.name)

    def deviation(self, forms, rows):
        return functions_of(forms, rows).log(rows["y"]) - forms["mu"]

    def log_density(self, forms, rows):
        return self.normal_log_density(forms, rows) - functions_of(rows).log(rows["y"])

    def log_survival(self, forms, rows):
        residual = self.residual(forms, rows)
        return functions_of(residual).log_ndtr(-residual)

    def mean(self, forms, rows):
        m = functions_of(forms)
        return m.exp(forms["mu"] + 0.5 * m.exp(2 * forms["sigma"]))

    def variance(self, forms, rows):
        m = functions_of(forms)
        return self.mean(forms, rows) ** 2 * m.expm1(m.exp(2 * forms["sigma"]))

    def cdf(self, forms, rows):
        residual = self.residual(forms, rows)
        return functions_of(residual).ndtr(residual)

    def sample(self, rng, forms, rows):
        log_values = forms["mu"] + np.exp(forms["sigma"]) * rng.standard_normal(np.shape(forms["mu"]))
        return np.exp(np.minimum(log_values, _LARGEST_LOG))

    def scale_of(self, y):
        return float(np.std(np.log(y))) or 1.0

    def center_of(self, y, rows):
        return float(np.mean(np.log(y)))


class Weibull(Family):
    """Times with a hazard that rises (alpha > 1) or falls; mu is the mean."""

    name: ClassVar[str] = "weibull"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log",)
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}
    censored: ClassVar[bool] = True

    def check(self, y, name="y"):
        return _positive(y, name, self.name)

    def log_density(self, forms, rows):
        m, log_hazard = functions_of(forms, rows), self._log_hazard(forms, rows)
        return forms["alpha"] + log_hazard - m.log(rows["y"]) - m.exp(log_hazard)

    def log_survival(self, forms, rows):
        return -functions_of(forms, rows).exp(self._log_hazard(forms, rows))

    def mean(self, forms, rows):
        return functions_of(forms).exp(forms["mu"])

    def variance(self, forms, rows):
        m = functions_of(forms)
        power = m.exp(-forms["alpha"])
        return m.exp(2 * forms["mu"]) * m.expm1(m.gammaln(1 + 2 * power) - 2 * m.gammaln(1 + power))

    def cdf(self, forms, rows):
        return -functions_of(forms, rows).expm1(self.log_survival(forms, rows))

    def sample(self, rng, forms, rows):
        # By logarithms: where alpha is small, the scale is tiny and some of the times are huge.
        log_times = np.log(rng.standard_exponential(np.shape(forms["mu"])))
        log_times = self._log_scale(forms) + np.exp(-forms["alpha"]) * log_times
        return np.exp(np.minimum(log_times, _LARGEST_LOG))

    def _log_hazard(self, forms, rows):
        """The logarithm of the hazard up to the time of the row."""
        m = functions_of(forms, rows)
        return m.exp(forms["alpha"]) * (m.log(rows["y"]) - self._log_scale(forms))

    def _log_scale(self, forms):
        m = functions_of(forms)
        return forms["mu"] - m.gammaln(1 + m.exp(-forms["alpha"]))


class Exponential(Weibull):
    """Times with a constant hazard; mu is the mean."""

    name: ClassVar[str] = "exponential"
    auxiliary: ClassVar[Mapping[str, Form]] = {}

    def _log_hazard(self, forms, rows):
        return functions_of(forms, rows).log(rows["y"]) - forms["mu"]

    def log_density(self, forms, rows):
        return -forms["mu"] - functions_of(forms, rows).exp(self._log_hazard(forms, rows))

    def variance(self, forms, rows):
        return functions_of(forms).exp(2 * forms["mu"])

    def sample(self, rng, forms, rows):
        return rng.standard_exponential(np.shape(forms["mu"])) * np.exp(forms["mu"])


class Beta(Family):
    """Shares strictly between 0 and 1, with mean mu and precision kappa."""

    name: ClassVar[str] = "beta"
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    auxiliary: ClassVar[Mapping[str, Form]] = {"kappa": "log"}

    def check(self, y, name="y"):
        if np.any(y <= 0) or np.any(y >= 1):
            raise ValueError(f"The family 'beta' needs values strictly between 0 and 1; {name!r} has {values_of(y)}.")
        return y

    def log_density(self, forms, rows):
        m, y = functions_of(forms, rows), rows["y"]
        a, b = self._shapes(forms)
        return (a - 1) * m.log(y) + (b - 1) * m.log1p(-y) + m.gammaln(a + b) - m.gammaln(a) - m.gammaln(b)

    def mean(self, forms, rows):
        return functions_of(forms).expit(forms["mu"])

    def variance(self, forms, rows):
        m = functions_of(forms)
        return m.expit(forms["mu"]) * m.expit(-forms["mu"]) / (1 + m.exp(forms["kappa"]))

    def cdf(self, forms, rows):
        m = functions_of(forms, rows)
        return m.betainc(*self._shapes(forms), m.clip(rows["y"], 0.0, 1.0))

    def sample(self, rng, forms, rows):
        return rng.beta(*(np.maximum(shape, np.exp(-_LARGEST_LOG)) for shape in self._shapes(forms)))

    def _shapes(self, forms):
        m = functions_of(forms)
        return [m.exp(forms["kappa"] + m.log_expit(sign * forms["mu"])) for sign in (1, -1)]


def _positive(y, name, family):
    """Refuse a response that is not positive."""
    if np.any(y <= 0):
        raise ValueError(
            f"The family {family!r} needs positive values; {name!r} has {np.sum(y <= 0):,} that are not, such as "
            f"{y[y <= 0][0]:g}."
        )
    return y
