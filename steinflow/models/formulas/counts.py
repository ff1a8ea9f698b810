"""Families of counts: Poisson, negative binomial, and both with more zeros than they say."""

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, sigmoid
from jax.scipy.special import gammaln
from scipy import special

from steinflow.models.formulas.families import ResponseFamily
from steinflow.models.formulas.links import Form
from steinflow.models.formulas.syntax import FormulaError

_LARGEST_RATE = 1e9  # of a count that is drawn: counts are integers of 32 bits
_MOST_TRIES = 1000  # to draw a count above zero; where that many fail, nearly all such counts are one


class Poisson(ResponseFamily):
    """Counts whose variance is their mean."""

    name: ClassVar[str] = "poisson"
    form: ClassVar[Form] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity")

    def check(self, y, name):
        return _whole(y, name, self.name)

    def log_density(self, forms, rows):
        return rows["y"] * forms["mu"] - jnp.exp(forms["mu"]) - gammaln(rows["y"] + 1)

    def log_zero(self, forms):
        """Return the log probability of zero."""
        return -jnp.exp(forms["mu"])

    def mean(self, forms, rows):
        return jnp.exp(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        return self._counts(rng, forms)

    def _counts(self, rng, forms):
        """Draw the counts alone."""
        return _draw(rng, np.exp(forms["mu"]))

    def center_of(self, y, rows):
        return float(np.mean(y)) + 0.5 / len(y)  # positive also where all counts are zero


class NegativeBinomial(Poisson):
    r"""Counts with the variance $\mu + \mu^2 / \alpha$."""

    name: ClassVar[str] = "negbinomial"
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log"}

    def log_density(self, forms, rows):
        y, alpha = rows["y"], jnp.exp(forms["alpha"])
        share = forms["mu"] - jnp.logaddexp(forms["alpha"], forms["mu"])
        return gammaln(y + alpha) - gammaln(alpha) - gammaln(y + 1) + self.log_zero(forms) + y * share

    def log_zero(self, forms):
        return -jnp.exp(forms["alpha"]) * jax.nn.softplus(forms["mu"] - forms["alpha"])

    def _counts(self, rng, forms):
        alpha = np.exp(forms["alpha"])
        return _draw(rng, rng.standard_gamma(alpha) / alpha * np.exp(forms["mu"]))


class _ZeroInflated(Poisson):
    """A count, or with probability zi a zero."""

    def log_density(self, forms, rows):
        zero = jnp.logaddexp(log_sigmoid(forms["zi"]), log_sigmoid(-forms["zi"]) + self.log_zero(forms))
        return jnp.where(rows["y"] == 0, zero, log_sigmoid(-forms["zi"]) + super().log_density(forms, rows))

    def mean(self, forms, rows):
        return sigmoid(-forms["zi"]) * super().mean(forms, rows)

    def sample(self, rng, forms, mean, rows):
        return np.where(rng.random(mean.shape) < special.expit(forms["zi"]), 0.0, self._counts(rng, forms))


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
        counts = super().log_density(forms, rows) - jnp.log(-jnp.expm1(self.log_zero(forms)))
        return jnp.where(rows["y"] == 0, log_sigmoid(forms["hu"]), log_sigmoid(-forms["hu"]) + counts)

    def mean(self, forms, rows):
        return sigmoid(-forms["hu"]) * super().mean(forms, rows) / -jnp.expm1(self.log_zero(forms))

    def sample(self, rng, forms, mean, rows):
        counts = np.zeros(mean.shape)
        for _ in range(_MOST_TRIES):
            if np.all(counts > 0):
                break
            counts = np.where(counts > 0, counts, self._counts(rng, forms))
        return np.where(rng.random(mean.shape) < special.expit(forms["hu"]), 0.0, np.maximum(counts, 1.0))


class HurdlePoisson(_Hurdle):
    """Zeros of probability hu, and Poisson counts above zero."""

    name: ClassVar[str] = "hurdle_poisson"
    auxiliary: ClassVar[Mapping[str, Form]] = {"hu": "logit"}


class HurdleNegativeBinomial(_Hurdle, NegativeBinomial):
    """Zeros of probability hu, and negative binomial counts above zero."""

    name: ClassVar[str] = "hurdle_negbinomial"
    auxiliary: ClassVar[Mapping[str, Form]] = {"alpha": "log", "hu": "logit"}


def _whole(y, name, family):
    """Refuse a response that does not count."""
    wrong = (y < 0) | (y != np.round(y))
    if np.any(wrong):
        raise FormulaError(
            f"The family {family!r} needs counts 0, 1, 2, ...; {name!r} has {np.sum(wrong):,} other values, such as "
            f"{y[wrong][0]:g}."
        )
    return y


def _draw(rng, rate):
    """Draw Poisson counts."""
    return rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(float)
