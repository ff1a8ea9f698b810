"""Families of classes: two of them, successes of several trials, and more classes with or without an order."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from steinflow.models.families.base import Family, values_of
from steinflow.models.families.functions import functions_of
from steinflow.models.families.links import Form
from steinflow.targets.forecasts import calibration_of_classes


class Bernoulli(Family):
    r"""Two classes: $P(y = 1)$ is mu. Labels are 0 and 1, or -1 and 1, and become 0 and 1."""

    name: ClassVar[str] = "bernoulli"
    of_classes: ClassVar[bool] = True
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")

    def check(self, y, name="y"):
        labels = set(np.unique(y).tolist())
        if not (labels <= {0, 1} or labels <= {-1, 1}):
            raise ValueError(
                f"The family 'bernoulli' needs the labels 0 and 1, or -1 and 1; {name!r} has {values_of(y)}. For more "
                "classes take sf.models.Categorical(number of classes)."
            )
        return np.where(np.asarray(y) > 0, 1.0, 0.0)

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        return m.log_expit(m.where(rows["y"] > 0, forms["mu"], -forms["mu"]))

    def log_probabilities(self, forms):
        """Return the log probabilities of both classes, along the last axis."""
        m = functions_of(forms)
        return m.log_expit(m.stack([-forms["mu"], forms["mu"]], axis=-1))

    def mean(self, forms, rows):
        return functions_of(forms).expit(forms["mu"])

    def variance(self, forms, rows):
        m = functions_of(forms)
        return m.expit(forms["mu"]) * m.expit(-forms["mu"])

    def forecasts(self, forms, rows):
        m = functions_of(forms)
        return m.expit(m.stack([-forms["mu"], forms["mu"]], axis=1))

    def calibration(self, forecasts, y):
        return calibration_of_classes(forecasts, y > 0)

    def sample(self, rng, forms, rows):
        return (rng.random(forms["mu"].shape) < self.mean(forms, rows)).astype(float)

    def metrics(self, mean, y):
        return {"accuracy": jnp.mean(jnp.where(y > 0, mean > 0.5, mean < 0.5))}

    def center_of(self, y, rows):
        return (np.sum(y) + 0.5) / (len(y) + 1)


class Binomial(Family):
    """Successes of several trials, each of probability mu; rows have `trials` too."""

    name: ClassVar[str] = "binomial"
    of_classes: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    form: ClassVar[Form] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")

    def log_density(self, forms, rows):
        m, y, trials = functions_of(forms, rows), rows["y"], rows["trials"]
        ways = m.gammaln(trials + 1) - m.gammaln(y + 1) - m.gammaln(trials - y + 1)
        return y * forms["mu"] - trials * m.logaddexp(forms["mu"], 0.0) + ways

    def mean(self, forms, rows):
        return rows["trials"] * functions_of(forms).expit(forms["mu"])

    def variance(self, forms, rows):
        return self.mean(forms, rows) * functions_of(forms).expit(-forms["mu"])

    def cdf(self, forms, rows):
        m, y, trials = functions_of(forms, rows), rows["y"], rows["trials"]
        below = m.betainc(m.maximum(trials - y, 0.5), y + 1, m.expit(-forms["mu"]))
        return m.where(y < trials, below, 1.0)

    def sample(self, rng, forms, rows):
        p = functions_of(forms).expit(np.asarray(forms["mu"]))
        return rng.binomial(rows["trials"].astype(int), p).astype(float)

    def center_of(self, y, rows):
        return (np.sum(y) + 0.5) / (np.sum(rows["trials"]) + 1)


class _Classes(Family):
    """y is the number of a class, from 0."""

    of_classes: ClassVar[bool] = True
    num_classes: int = eqx.field(static=True)  # pyrefly: ignore[bad-override]: other families have none

    def __check_init__(self):
        if self.num_classes < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 classes; got {self.num_classes}.")

    def check(self, y, name="y"):
        if not set(np.unique(y).tolist()) <= set(range(self.num_classes)):
            raise ValueError(
                f"The family {self.name!r} with {self.num_classes} classes needs the labels 0 .. "
                f"{self.num_classes - 1}; {name!r} has {values_of(y)}."
            )
        return np.asarray(y).astype(int)

    def variance(self, forms, rows):
        probabilities = self.mean(forms, rows)
        return probabilities * (1 - probabilities)

    def forecasts(self, forms, rows):
        return self.mean(forms, rows)

    def calibration(self, forecasts, y):
        return calibration_of_classes(forecasts, y)

    def numbers(self, y):
        return (y[..., None] == jnp.arange(self.num_classes)).astype(float)

    def sample(self, rng, forms, rows):
        below = np.cumsum(self.mean(forms, rows), axis=-1)[..., :-1]
        return np.sum(rng.random(below.shape[:-1])[..., None] > below, axis=-1)

    def metrics(self, mean, y):
        return {"accuracy": jnp.mean(jnp.argmax(mean, axis=1) == y)}


class Categorical(_Classes):
    """K classes by a softmax: mu has K log-odds, of which only differences matter. Labels are 0 .. K-1.

    Raises:
        ValueError: if there are less than two classes.
    """

    name: ClassVar[str] = "categorical"

    @property
    def num_outputs(self):
        return self.num_classes

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        return m.take_along_axis(self.log_probabilities(forms), rows["y"][..., None], axis=-1)[..., 0]

    def log_probabilities(self, forms):
        """Return the log probabilities of all classes, along the last axis."""
        return functions_of(forms).log_softmax(forms["mu"], axis=-1)

    def mean(self, forms, rows):
        return functions_of(forms).softmax(forms["mu"], axis=-1)

    def usual_predictor(self, link, y, rows):
        shares = np.bincount(y, minlength=self.num_classes) + 0.5
        return np.log(shares / np.exp(np.mean(np.log(shares))))  # log-odds that add up to zero


class Cumulative(_Classes):
    r"""Classes with an order: $P(y \le k) = \sigma(c_k - \mu)$, with thresholds $c_1 < c_2 < \dots$."""

    name: ClassVar[str] = "cumulative"
    ordered: ClassVar[bool] = True

    def log_density(self, forms, rows):
        m = functions_of(forms, rows)
        ends = m.pad(forms["threshold"], 1, constant_values=(-1e30, 1e30))
        high, low = (ends[rows["y"] + shift] - forms["mu"] for shift in (1, 0))
        # sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(b - a)), of which no part cancels.
        return m.log_expit(high) + m.log_expit(-low) + m.log(-m.expm1(low - high))

    def mean(self, forms, rows):
        m = functions_of(forms)
        below = m.expit(forms["threshold"][..., None, :] - forms["mu"][..., None])
        return m.diff(below, axis=-1, prepend=0.0, append=1.0)
