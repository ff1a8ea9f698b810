"""Families of real numbers: normal noise, and noise with heavy tails."""

import abc
import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from steinflow.models.families.base import Family, Forms, Rows, Values
from steinflow.models.families.functions import functions_of
from steinflow.models.families.links import Form


class Noisy(Family):
    """y, or its logarithm, is mu and noise of the scale sigma."""

    @abc.abstractmethod
    def deviation(self, forms: Forms, rows: Rows) -> Values:
        """Return how far y is from mu."""

    def residual(self, forms: Forms, rows: Rows) -> Values:
        """Return how far y is from mu, in units of sigma."""
        return self.deviation(forms, rows) * functions_of(forms, rows).exp(-forms["sigma"])

    def normal_log_density(self, forms: Forms, rows: Rows) -> Values:
        """Return the log density of the deviation where the noise is normal."""
        precision = functions_of(forms).exp(-2 * forms["sigma"])
        return -0.5 * (precision * self.deviation(forms, rows) ** 2 + math.log(2 * math.pi)) - forms["sigma"]


class _Real(Noisy):
    """y is mu and noise."""

    links: ClassVar[tuple[str, ...]] = ("identity", "log")
    real_valued: ClassVar[bool] = True

    def deviation(self, forms, rows):
        return rows["y"] - forms["mu"]

    def mean(self, forms, rows):
        return forms["mu"]

    def scale_of(self, y):
        return float(np.std(y)) or 1.0


class Gaussian(_Real):
    r"""$y \sim N(\mu, \sigma^2)$: real numbers with normal noise."""

    name: ClassVar[str] = "gaussian"
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log"}
    censored: ClassVar[bool] = True

    def log_density(self, forms, rows):
        return self.normal_log_density(forms, rows)

    def log_survival(self, forms, rows):
        residual = self.residual(forms, rows)
        return functions_of(residual).log_ndtr(-residual)

    def variance(self, forms, rows):
        return functions_of(forms).exp(2 * forms["sigma"])

    def cdf(self, forms, rows):
        residual = self.residual(forms, rows)
        return functions_of(residual).ndtr(residual)

    def sample(self, rng, forms, rows):
        return forms["mu"] + np.exp(forms["sigma"]) * rng.standard_normal(forms["mu"].shape)


class StudentT(_Real):
    r"""$y \sim t_\nu(\mu, \sigma)$: real numbers with heavy tails."""

    name: ClassVar[str] = "t"
    auxiliary: ClassVar[Mapping[str, Form]] = {"sigma": "log", "nu": "log"}

    def log_density(self, forms, rows):
        m, residual = functions_of(forms, rows), self.residual(forms, rows)
        nu = m.exp(forms["nu"])
        constant = m.gammaln((nu + 1) / 2) - m.gammaln(nu / 2) - 0.5 * m.log(math.pi * nu)
        return constant - (nu + 1) / 2 * m.log1p(residual**2 / nu) - forms["sigma"]

    def variance(self, forms, rows):
        m = functions_of(forms)
        nu = m.exp(forms["nu"])
        return m.where(nu > 2, nu / m.maximum(nu - 2, 1e-30), math.inf) * m.exp(2 * forms["sigma"])

    def cdf(self, forms, rows):
        m, residual = functions_of(forms, rows), self.residual(forms, rows)
        nu = m.exp(forms["nu"])
        tail = 0.5 * m.betainc(0.5 * nu, 0.5, nu / (nu + residual**2))
        return m.where(residual > 0, 1 - tail, tail)

    def sample(self, rng, forms, rows):
        return forms["mu"] + np.exp(forms["sigma"]) * rng.standard_t(np.exp(forms["nu"]), forms["mu"].shape)
