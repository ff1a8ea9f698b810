"""Named parameters of a posterior, in numbers."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Draws of named parameters.

    Attributes:
        names: one per column of values.
        values: one row per particle.
        weights: of the particles, summing to one.
        num_coefficients: how many of them, the first ones, are about features and not about the model as a whole.
    """

    names: list[str]
    values: np.ndarray
    weights: np.ndarray
    num_coefficients: int

    @property
    def mean(self) -> np.ndarray:
        """The posterior mean of each."""
        return self.weights @ self.values

    @property
    def sd(self) -> np.ndarray:
        """The posterior standard deviation of each."""
        centred = self.values - self.mean
        unit = np.maximum(np.max(np.abs(centred), axis=0), 1e-300)  # squares of huge numbers overflow
        return np.sqrt(self.weights @ (centred / unit) ** 2) * unit

    def quantiles(self, levels: tuple[float, ...]) -> np.ndarray:
        """Return one row per level: where the weights below, to the middle of each particle, reach it."""
        order = np.argsort(self.values, axis=0)
        values, weights = np.take_along_axis(self.values, order, axis=0), self.weights[order]
        places = np.cumsum(weights, axis=0) - weights / 2
        columns = range(self.values.shape[1])
        return np.array([[np.interp(level, places[:, k], values[:, k]) for k in columns] for level in levels])

    def clearest_first(self) -> "Parameters":
        """Return coefficients by how far they are from zero, in standard deviations, and then the others."""
        sd = self.sd[: self.num_coefficients]
        distance = np.abs(self.mean[: self.num_coefficients]) / np.where(sd > 0, sd, 1.0)
        others = np.arange(self.num_coefficients, len(self.names))
        order = np.concatenate([np.argsort(-distance, kind="stable"), others])
        return Parameters([self.names[k] for k in order], self.values[:, order], self.weights, self.num_coefficients)

    def coefficients(self, most: int) -> "Parameters":
        """Return the first coefficients alone."""
        count = min(most, self.num_coefficients)
        return Parameters(self.names[:count], self.values[:, :count], self.weights, count)

    def others(self) -> "Parameters":
        """Return the parameters that are about the model as a whole."""
        return Parameters(self.names[self.num_coefficients :], self.values[:, self.num_coefficients :], self.weights, 0)
