"""What a posterior says about y: for every row a mixture of distributions, one per particle."""

import abc
import dataclasses

import numpy as np
from scipy import special

_ITERATIONS, _TOLERANCE = 60, 1e-8  # of the search for a quantile


@dataclasses.dataclass(frozen=True)
class Mixture(abc.ABC):
    """One mixture per row.

    Attributes:
        weights: of the particles, summing to one.
        means: of the components, particles x rows.
    """

    weights: np.ndarray
    means: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The mean of every mixture."""
        return self.weights @ self.means

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of every mixture."""
        return np.sqrt(self.weights @ ((self.means - self.mean) ** 2 + self._variances()))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Return the log density, or log probability, of one y per row."""
        return log_mean_exp(self._log_densities(y), self.weights)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return P(Y <= y) for one y per row."""
        return self.weights @ self._cdfs(y)

    @abc.abstractmethod
    def quantile(self, level: float) -> np.ndarray:
        """Return the smallest y with P(Y <= y) >= level for every row."""

    @abc.abstractmethod
    def position(self, y: np.ndarray) -> np.ndarray:
        """Return where y lies in its distribution, from 0 to 1."""

    @abc.abstractmethod
    def _variances(self) -> np.ndarray: ...

    @abc.abstractmethod
    def _log_densities(self, y) -> np.ndarray: ...

    @abc.abstractmethod
    def _cdfs(self, y) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Normals(Mixture):
    """Mixtures of normal distributions.

    Attributes:
        sds: the standard deviation of each particle's component, one column.
    """

    sds: np.ndarray

    def quantile(self, level):
        # Newton's method, inside a bracket: the quantile of a mixture lies between those of its components.
        z = special.ndtri(level)
        low, high = (end(self.means + z * self.sds, axis=0) for end in (np.min, np.max))
        y = np.clip(self.mean + z * self.sd, low, high)
        for _ in range(_ITERATIONS):
            excess = self.cdf(y) - level
            if np.all(np.abs(excess) < _TOLERANCE):
                break
            low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
            with np.errstate(all="ignore"):  # the density may vanish between modes
                newton = y - excess / np.exp(self.log_density(y))
            y = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
        return y

    def position(self, y):
        return self.cdf(y)

    def _variances(self):
        return self.sds**2

    def _log_densities(self, y):
        return -0.5 * ((y - self.means) / self.sds) ** 2 - np.log(np.sqrt(2 * np.pi) * self.sds)

    def _cdfs(self, y):
        return special.ndtr((y - self.means) / self.sds)


@dataclasses.dataclass(frozen=True)
class Poissons(Mixture):
    """Mixtures of Poisson distributions."""

    def quantile(self, level):
        quantiles = np.ceil(special.pdtrik(level, self.means))
        low, high = np.min(quantiles, axis=0) - 2, np.max(quantiles, axis=0) + 1  # with room for rounding errors
        while np.any(high - low > 1):
            middle = (low + high) // 2
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def position(self, y):
        return (self.cdf(y) + self.cdf(y - 1)) / 2  # halfway up the jump at a count

    def _variances(self):
        return self.means

    def _log_densities(self, y):
        return special.xlogy(y, self.means) - self.means - special.gammaln(y + 1)

    def _cdfs(self, y):
        return np.where(y < 0, 0.0, special.pdtr(np.maximum(y, 0), self.means))


def log_mean_exp(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logarithm of the weighted mean of exp(logs) over particles, the first axis."""
    highest = np.max(logs, axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)  # a y that no particle can explain
    with np.errstate(divide="ignore"):
        return highest + np.log(np.tensordot(weights, np.exp(logs - highest), axes=1))
