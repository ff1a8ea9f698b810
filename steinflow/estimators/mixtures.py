"""Predictive distributions of y: for every row a mixture of a family's distributions, one per particle."""

import dataclasses
import functools

import numpy as np
from scipy import special

from steinflow.models.families import Family
from steinflow.models.families.base import Forms

_ITERATIONS, _TOLERANCE = 64, 1e-8  # of the search for a quantile


@dataclasses.dataclass(frozen=True)
class Mixture:
    """One mixture per row. It is computed on the host: predictions compile nothing.

    Attributes:
        weights: of the particles, summing to one.
        family: of the components, which are numbers.
        forms: parameters of the components, particles x rows; one column where all rows have the same.
    """

    weights: np.ndarray
    family: Family
    forms: Forms

    @functools.cached_property
    def means(self) -> np.ndarray:
        """The means of the components, particles x rows."""
        return np.asarray(self.family.mean(self.forms, {}))

    @property
    def mean(self) -> np.ndarray:
        """The mean of every mixture."""
        return self.weights @ self.means

    @property
    def epistemic_sd(self) -> np.ndarray:
        """The standard deviation of the means: how much the particles disagree."""
        return np.sqrt(self.weights @ (self.means - self.mean) ** 2)

    @property
    def aleatoric_sd(self) -> np.ndarray:
        """The standard deviation of the noise: the root of its mean variance over the particles."""
        return np.sqrt(self.weights @ np.broadcast_to(self.family.variance(self.forms, {}), self.means.shape))

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of every mixture."""
        return np.hypot(self.epistemic_sd, self.aleatoric_sd)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Return the log density, or log probability, of one y per row."""
        return log_mean_exp(np.asarray(self.family.log_density(self.forms, {"y": y})), self.weights)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return P(Y <= y) for one y per row."""
        return self.weights @ self.family.cdf(self.forms, {"y": y})

    def position(self, y: np.ndarray) -> np.ndarray:
        """Return where y lies in its distribution, from 0 to 1; of a count, halfway up the jump."""
        return self.weights @ self.family.position(self.forms, {"y": y})

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Draw from every component, particles x rows."""
        return self.family.sample(rng, self.forms, {})

    def quantile(self, level: float) -> np.ndarray:
        """Return the smallest y with P(Y <= y) >= level for every row."""
        # No quantile is further from the mean than that, by Cantelli's inequality.
        below, above = np.sqrt((1 - level) / level), np.sqrt(level / (1 - level))
        low, high = self.mean - below * self.sd, self.mean + above * self.sd
        return self._whole_quantile(level, low, high) if self.family.counted else self._real_quantile(level, low, high)

    def _whole_quantile(self, level, low, high):
        low, high = np.floor(low) - 1, np.ceil(high) + 1  # with room for rounding errors
        for _ in range(_ITERATIONS):
            middle = (low + high) // 2
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if np.all(high - low <= 1):
                break
        return high

    def _real_quantile(self, level, low, high):
        """Search by Newton's method, inside a bracket."""
        y = np.clip(self.mean + special.ndtri(level) * self.sd, low, high)
        for _ in range(_ITERATIONS):
            excess = self.cdf(y) - level
            if np.all(np.abs(excess) < _TOLERANCE):
                break
            low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
            with np.errstate(all="ignore"):  # the density may vanish between modes
                newton = y - excess / np.exp(self.log_density(y))
            y = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
        return y


def log_mean_exp(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logarithm of the weighted mean of exp(logs) over particles, the first axis."""
    highest = np.max(logs, axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)  # a y that no particle can explain
    with np.errstate(divide="ignore"):
        return highest + np.log(np.tensordot(weights, np.exp(logs - highest), axes=1))
