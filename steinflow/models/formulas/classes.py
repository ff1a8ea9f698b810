"""Families of classes: two of them, successes of several trials, and more classes with or without an order."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid, sigmoid, softplus
from jax.scipy.special import gammaln

from steinflow.models.formulas.families import ResponseFamily, values_of
from steinflow.models.formulas.links import Form
from steinflow.models.formulas.syntax import FormulaError


class Bernoulli(ResponseFamily):
    """Yes or no: 0 and 1, or two values of text, of which the second in order is the success."""

    name: ClassVar[str] = "bernoulli"
    of_classes: ClassVar[bool] = True
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")

    def check(self, y, name):
        if not set(np.unique(y)) <= {0, 1}:
            raise FormulaError(
                f"The family 'bernoulli' needs a response of two values; {name!r} has {values_of(y)}. For more classes "
                "take family='categorical', for successes of several trials family='binomial' and p(successes, trials)."
            )
        return y

    def log_density(self, forms, rows):
        return log_sigmoid(jnp.where(rows["y"] > 0, forms["mu"], -forms["mu"]))

    def mean(self, forms, rows):
        return sigmoid(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        return (rng.random(mean.shape) < mean).astype(float)

    def center_of(self, y, rows):
        return (np.sum(y) + 0.5) / (len(y) + 1)


class Binomial(ResponseFamily):
    """Successes of several trials, written `p(successes, trials)`."""

    name: ClassVar[str] = "binomial"
    of_classes: ClassVar[bool] = True
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")

    def log_density(self, forms, rows):
        y, trials = rows["y"], rows["trials"]
        ways = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        return y * forms["mu"] - trials * softplus(forms["mu"]) + ways

    def mean(self, forms, rows):
        return rows["trials"] * sigmoid(forms["mu"])

    def sample(self, rng, forms, mean, rows):
        trials = rows["trials"].astype(int)
        return rng.binomial(trials, np.clip(mean / rows["trials"], 0.0, 1.0)).astype(float)

    def center_of(self, y, rows):
        return (np.sum(y) + 0.5) / (np.sum(rows["trials"]) + 1)


class Categorical(ResponseFamily):
    """Classes without an order; the log-odds are those against the first class."""

    name: ClassVar[str] = "categorical"
    of_classes: ClassVar[bool] = True

    @property
    def num_outputs(self):
        assert self.num_levels is not None
        return self.num_levels - 1

    def log_density(self, forms, rows):
        return jnp.take_along_axis(jax.nn.log_softmax(self._logits(forms)), rows["y"][:, None], axis=1)[:, 0]

    def mean(self, forms, rows):
        return jax.nn.softmax(self._logits(forms))

    def sample(self, rng, forms, mean, rows):
        return _draw_class(rng, mean)

    def center_of(self, y, rows):
        return 0.0

    def _logits(self, forms):
        mu = forms["mu"].reshape(len(forms["mu"]), -1)
        return jnp.pad(mu, ((0, 0), (1, 0)))


class Cumulative(ResponseFamily):
    r"""Classes with an order: $P(y \le k) = \sigma(c_k - \mu)$, with thresholds $c_1 < c_2 < \dots$."""

    name: ClassVar[str] = "cumulative"
    of_classes: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def log_density(self, forms, rows):
        high, low = (self._above(forms, rows["y"] + shift) for shift in (1, 0))
        # sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(b - a)), of which no part cancels.
        return log_sigmoid(high) + log_sigmoid(-low) + jnp.log(-jnp.expm1(low - high))

    def mean(self, forms, rows):
        below = sigmoid(forms["threshold"] - forms["mu"][:, None])
        return jnp.diff(below, axis=1, prepend=0.0, append=1.0)

    def sample(self, rng, forms, mean, rows):
        return _draw_class(rng, mean)

    def _above(self, forms, level):
        ends = jnp.pad(forms["threshold"], 1, constant_values=(-1e30, 1e30))
        return ends[level] - forms["mu"]


def _draw_class(rng, probabilities):
    """Draw numbers of classes, whose probabilities are along the last axis."""
    below = np.cumsum(probabilities, axis=-1)[..., :-1]
    return np.sum(rng.random(below.shape[:-1])[..., None] > below, axis=-1)
