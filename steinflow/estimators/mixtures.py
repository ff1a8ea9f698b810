"""Predictive distributions of y: for every row a mixture of distributions, one per particle."""

import abc
import dataclasses
import math

import numpy as np
from scipy import special

_ITERATIONS, _TOLERANCE = 60, 1e-8  # of the search for a quantile
_LARGEST_MEAN = 1e18  # of a count that NumPy can draw


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
    def epistemic_sd(self) -> np.ndarray:
        """The standard deviation of the means: how much the particles disagree."""
        return np.sqrt(self.weights @ (self.means - self.mean) ** 2)

    @property
    def aleatoric_sd(self) -> np.ndarray:
        """The standard deviation of the noise: the root of its mean variance over the particles."""
        return np.sqrt(self.weights @ np.broadcast_to(self._variances(), self.means.shape))

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of every mixture."""
        return np.hypot(self.epistemic_sd, self.aleatoric_sd)

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
    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Draw from every component, particles x rows."""

    @abc.abstractmethod
    def _variances(self) -> np.ndarray:
        """Return those of the components, particles x rows or one column."""

    @abc.abstractmethod
    def _log_densities(self, y) -> np.ndarray: ...

    @abc.abstractmethod
    def _cdfs(self, y) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class _LocationScale(Mixture):
    """Mixtures of shifted and scaled versions of one distribution on the line, symmetric around zero.

    Attributes:
        scales: of the components, particles x rows, or one column where all rows have the same.
    """

    scales: np.ndarray

    def quantile(self, level):
        # Newton's method, inside a bracket: the quantile of a mixture lies between those of its components.
        z = self._unit_quantile(level)
        low, high = (end(self.means + z * self.scales, axis=0) for end in (np.min, np.max))
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

    def sample(self, rng):
        return self.means + self.scales * self._unit_sample(rng, self.means.shape)

    def _variances(self):
        return self._unit_variance * self.scales**2

    def _log_densities(self, y):
        return self._unit_log_density((y - self.means) / self.scales) - np.log(self.scales)

    def _cdfs(self, y):
        return self._unit_cdf((y - self.means) / self.scales)

    @property
    @abc.abstractmethod
    def _unit_variance(self) -> float: ...

    @abc.abstractmethod
    def _unit_sample(self, rng, shape) -> np.ndarray: ...

    @abc.abstractmethod
    def _unit_quantile(self, level) -> float: ...

    @abc.abstractmethod
    def _unit_log_density(self, z) -> np.ndarray: ...

    @abc.abstractmethod
    def _unit_cdf(self, z) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Normals(_LocationScale):
    """Mixtures of normal distributions."""

    @property
    def _unit_variance(self):
        return 1.0

    def _unit_sample(self, rng, shape):
        return rng.standard_normal(shape)

    def _unit_quantile(self, level):
        return special.ndtri(level)

    def _unit_log_density(self, z):
        return -0.5 * (z**2 + math.log(2 * math.pi))

    def _unit_cdf(self, z):
        return special.ndtr(z)


@dataclasses.dataclass(frozen=True)
class StudentTs(_LocationScale):
    """Mixtures of Student's t distributions.

    Attributes:
        df: their degrees of freedom, more than 2.
    """

    df: float

    @property
    def _unit_variance(self):
        return self.df / (self.df - 2)

    def _unit_sample(self, rng, shape):
        return rng.standard_t(self.df, shape)

    def _unit_quantile(self, level):
        return special.stdtrit(self.df, level)

    def _unit_log_density(self, z):
        constant = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2) - 0.5 * math.log(self.df * math.pi)
        return constant - 0.5 * (self.df + 1) * np.log1p(z**2 / self.df)

    def _unit_cdf(self, z):
        return special.stdtr(self.df, z)


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

    def sample(self, rng):
        return rng.poisson(np.minimum(self.means, _LARGEST_MEAN)).astype(float)

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
