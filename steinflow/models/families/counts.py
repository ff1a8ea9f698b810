"""Families of counts: Poisson, negative binomial, and both with more zeros than they say."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from steinflow.models.families.base import Family
from steinflow.models.families.functions import functions_of
from steinflow.models.families.links import Form

_LARGEST_RATE = 1e18  # of a count that NumPy can draw
_MOST_TRIES = 1000  # to draw a count above zero; where that many fail, nearly all such counts are one


class Poisson(Family):
    """Counts whose variance is their mean, mu."""

    name: ClassVar[str] = "poisson"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity")
    counted: ClassVar[bool] = True

    def check(self, y, name="y"):
        wrong = (y < 0) | (y != np.round(y))
        if np.any(wrong):
            raise ValueError(
                f"The family {self.name!r} needs counts 0, 1, 2, ...; {name!r} has {np.sum(wrong):,} other values, "
                f"such as {y[wrong][0]:g}."
            )
        return y

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        return rows["y"] * forms["mu"] - m.exp(forms["mu"]) - m.gammaln(rows["y"] + 1)

    def log_zero(self, forms):
        """Return the log probability of zero."""
        return -functions_of(forms).exp(forms["mu"])

    def mean(self, forms, rows):
        return functions_of(forms).exp(forms["mu"])

    def variance(self, forms, rows):
        return functions_of(forms).exp(forms["mu"])

    def cdf(self, forms, rows):
        m, y = functions_of(forms, rows), rows["y"]
        return m.where(y < 0, 0.0, m.gammaincc(m.maximum(y, 0.0) + 1, m.exp(forms["mu"])))

    def sample(self, rng, forms, rows):
        return self._counts(rng, forms)

    def center_of(self, y, rows):
        return float(np.mean(y)) + 0.5 / len(y)  # positive also where all counts are zero

    def _counts(self, rng, forms):
        """Draw the counts alone."""
        return _drawn(rng, np.exp(forms["mu"]))


class NegativeBinomial(Poisson):
    r"""Counts with the variance $\mu + \mu^2 / \alpha$."""

    name: ClassVar[str] = "negbinomial"
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}

    def log_density(self, forms, rows):
        m, y = functions_of(forms, rows), rows["y"]
        alpha, share = m.exp(forms["alpha"]), forms["mu"] - m.logaddexp(forms["alpha"], forms["mu"])
        return m.gammaln(y + alpha) - m.gammaln(alpha) - m.gammaln(y + 1) + self.log_zero(forms) + y * share

    def log_zero(self, forms):
        m = functions_of(forms)
        return -m.exp(forms["alpha"]) * m.logaddexp(forms["mu"] - forms["alpha"], 0.0)

    def variance(self, forms, rows):
        m = functions_of(forms)
        return m.exp(forms["mu"]) + m.exp(2 * forms["mu"] - forms["alpha"])

    def cdf(self, forms, rows):
        m, y = functions_of(forms, rows), rows["y"]
        below = m.betainc(m.exp(forms["alpha"]), m.maximum(y, 0.0) + 1, m.expit(forms["alpha"] - forms["mu"]))
        return m.where(y < 0, 0.0, below)

    def _counts(self, rng, forms):
        alpha = np.exp(forms["alpha"])
        return _drawn(rng, rng.standard_gamma(alpha, np.shape(forms["mu"])) / alpha * np.exp(forms["mu"]))


class _ZeroInflated(Poisson):
    """A count, or with probability zi a zero."""

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        is_count = m.log_expit(-forms["zi"])
        zero = m.logaddexp(m.log_expit(forms["zi"]), is_count + self.log_zero(forms))
        return m.where(rows["y"] == 0, zero, is_count + super().log_density(forms, rows))

    def mean(self, forms, rows):
        return functions_of(forms).expit(-forms["zi"]) * super().mean(forms, rows)

    def variance(self, forms, rows):
        m = functions_of(forms)
        zero, is_count = m.expit(forms["zi"]), m.expit(-forms["zi"])
        return is_count * (super().variance(forms, rows) + zero * super().mean(forms, rows) ** 2)

    def cdf(self, forms, rows):
        m = functions_of(forms, rows)
        found = m.expit(forms["zi"]) + m.expit(-forms["zi"]) * super().cdf(forms, rows)
        return m.where(rows["y"] < 0, 0.0, found)

    def sample(self, rng, forms, rows):
        return np.where(_happens(rng, forms["zi"], forms), 0.0, self._counts(rng, forms))


class ZeroInflatedPoisson(_ZeroInflated):
    """Poisson counts with extra zeros, of probability zi."""

    name: ClassVar[str] = "zero_inflated_poisson"
    auxiliary: ClassVar[Mapping[str, Form]] = {"zi": "logit"}


class ZeroInflatedNegativeBinomial(_ZeroInflated, NegativeBinomial):
    """Negative binomial counts with extra zeros, of probability zi."""

    name: ClassVar[str] = "zero_inflated_negbinomial"
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log", "zi": "logit"}


class _Hurdle(Poisson):
    """Zero with probability hu, otherwise a count that is not zero."""

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        counts = super().log_density(forms, rows) - m.log(self._above_zero(forms))
        return m.where(rows["y"] == 0, m.log_expit(forms["hu"]), m.log_expit(-forms["hu"]) + counts)

    def mean(self, forms, rows):
        return functions_of(forms).expit(-forms["hu"]) * super().mean(forms, rows) / self._above_zero(forms)

    def variance(self, forms, rows):
        squares = (super().variance(forms, rows) + super().mean(forms, rows) ** 2) / self._above_zero(forms)
        return functions_of(forms).expit(-forms["hu"]) * squares - self.mean(forms, rows) ** 2

    def cdf(self, forms, rows):
        m = functions_of(forms, rows)
        share = (super().cdf(forms, rows) - m.exp(self.log_zero(forms))) / self._above_zero(forms)
        found = m.expit(forms["hu"]) + m.expit(-forms["hu"]) * m.maximum(share, 0.0)
        return m.where(rows["y"] < 0, 0.0, found)

    def sample(self, rng, forms, rows):
        counts = np.zeros(np.shape(forms["mu"]))
        for _ in range(_MOST_TRIES):
            if np.all(counts > 0):
                break
            counts = np.where(counts > 0, counts, self._counts(rng, forms))
        return np.where(_happens(rng, forms["hu"], forms), 0.0, np.maximum(counts, 1.0))

    def _above_zero(self, forms):
        """Return the probability that a count which may be zero is not."""
        return -functions_of(forms).expm1(self.log_zero(forms))


class HurdlePoisson(_Hurdle):
    """Zeros of probability hu, and Poisson counts above zero."""

    name: ClassVar[str] = "hurdle_poisson"
    auxiliary: ClassVar[Mapping[str, Form]] = {"hu": "logit"}


class HurdleNegativeBinomial(_Hurdle, NegativeBinomial):
    """Zeros of probability hu, and negative binomial counts above zero."""

    name: ClassVar[str] = "hurdle_negbinomial"
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log", "hu": "logit"}


def _happens(rng, log_odds, forms):
    """Draw whether something of these log-odds happens, for every row."""
    return rng.random(np.shape(forms["mu"])) < functions_of().expit(log_odds)


def _drawn(rng, rate):
    """Draw Poisson counts."""
    return rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(float)
