r"""Modes: remembered states that no chain, or hardly any, passes between are weighed by the mass of where they are.

How many particles are in a mode when exploration begins is a matter of the start, and stays so where chains do not pass
from one mode to the other. But the states of a mode say how much mass it has (reciprocal importance sampling; Gelfand &
Dey 1994): for any density q on a set where p is positive,

$$\frac1Z = E_p\left[\frac{q(x)}{\tilde p(x)}\right], \qquad \tilde p = Z p.$$

Here q is the Gaussian with the mean and covariance of every other state, cut off where it holds half its mass, so that
no ratio is large; the expectation is over the states between. It takes log densities that the steps have evaluated.
"""

import dataclasses
import itertools

import numpy as np

from steinflow.stein.geometry import even_sample

_SEPARATED = 2.5  # distance of two halves by the sum of their sds
_LLOYD = 10  # iterations
_FEWEST = 50  # states that say something about a mode
_NOT_A_TAIL = 0.05  # of the states
_NOTABLE = 0.01  # mass
_EQUAL = 3.0  # a ratio of masses that may be chance
_NEAR, _APART = 1.0, 4.0  # sds: the same value, another one


@dataclasses.dataclass(frozen=True)
class Modes:
    """States, in coordinates of unit scale, with the chain, the mode and the weight of each."""

    points: np.ndarray
    chains: np.ndarray
    labels: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, log_densities: np.ndarray, chains: np.ndarray) -> "Modes | None":
        """Find the modes; None where there is one."""
        labels = split(points, chains)
        return cls(points, chains, labels, weights_of(points, log_densities, labels)) if np.any(labels) else None

    @property
    def masses(self) -> np.ndarray:
        """The mass of every mode; together 1."""
        return np.bincount(self.labels, self.weights)

    @property
    def count(self) -> int:
        """How many have a notable mass."""
        return int(np.sum(self.masses > _NOTABLE))

    def switch_labels(self, states: np.ndarray) -> bool:
        """Say whether two modes have the same mass, and two coordinates that change places from the one to the other.

        Args:
            states: the same as `points`, in the coordinates of the parameters.
        """
        masses = self.masses
        notable = np.flatnonzero(masses > _NOTABLE)
        parts = {k: states[self.labels == k] for k in notable}
        return any(
            1 / _EQUAL < masses[a] / masses[b] < _EQUAL and _change_places(parts[a], parts[b])
            for a, b in itertools.combinations(notable, 2)
        )

    def evenly(self) -> np.ndarray:
        """Return as many states, repeated in proportion to their weights."""
        return self.points[even_sample(len(self.points), len(self.points), self.weights)]

    def mixing(self) -> float:
        """Return the worst R-hat within a mode of notable mass."""
        notable = np.flatnonzero(self.masses > _NOTABLE)
        return max(_mixing(self.points[self.labels == k], self.chains[self.labels == k]) for k in notable)


def split(points: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """Return the mode of every state: 0 where all are one, else numbers from 0.

    States are cut in two along the direction in which chains differ most. If these are
    separated, each is cut again.

    Args:
        points: the states, in coordinates of unit scale, shape (m, d).
        chains: the number of the chain of each.
    """
    modes = np.zeros(len(points), int)
    right = _right_half(points, chains)
    if right is None:
        return modes
    modes[~right] = split(points[~right], chains[~right])
    modes[right] = split(points[right], chains[right]) + modes.max() + 1
    return modes


def weights_of(points: np.ndarray, log_densities: np.ndarray, modes: np.ndarray) -> np.ndarray:
    """Return the weight of every state: equal within a mode, the modes in proportion to their mass."""
    counts = np.bincount(modes)
    logs = np.array([log_mass(points[modes == k], log_densities[modes == k]) for k in range(len(counts))])
    masses = np.exp(logs - np.max(logs))
    return (masses / masses.sum() / counts)[modes]


def log_mass(points: np.ndarray, log_densities: np.ndarray) -> float:
    """Return the log of the mass of an unnormalised density, from draws of it and the log densities there."""
    from scipy.special import logsumexp
    from scipy.stats import chi2

    known, rest, values = points[::2], points[1::2], log_densities[1::2]
    (num, dim), mean, sds = known.shape, np.mean(known, axis=0), np.maximum(np.std(known, axis=0), 1e-30)
    scaled = (known - mean) / sds
    shrinkage = min(dim / num, 1.0)  # few states know their sds, not their correlations
    root = np.linalg.cholesky((1 - shrinkage) * scaled.T @ scaled / num + (shrinkage + 1e-9) * np.eye(dim))
    squares = np.sum(np.linalg.solve(root, ((rest - mean) / sds).T) ** 2, axis=0)
    inside = (squares <= chi2.ppf(0.5, dim)) & np.isfinite(values)
    if not np.any(inside):
        return -np.inf
    log_determinant = np.sum(np.log(sds)) + np.sum(np.log(np.diag(root)))
    log_q = np.log(2) - 0.5 * squares - log_determinant - 0.5 * dim * np.log(2 * np.pi)
    return float(np.log(len(rest)) - logsumexp((log_q - values)[inside]))


def _right_half(points, chains):
    """Return which states are in the right one of two separated halves; None where they are not separated."""
    if len(points) < 2 * _FEWEST:
        return None
    direction = _between(_averages(points, chains)[0])
    line = np.sort(points @ direction)
    # Between modes alike, perhaps more than two: halves, halves of halves, and what is next to each cut.
    middle = _cut(line, _tightness)
    lower, upper = _neighbours(line, middle)
    cuts = middle - len(lower), middle, middle + len(upper)
    few = _NOT_A_TAIL * len(line)
    found = [(_separation(*_neighbours(line, cut)), cut) for cut in cuts if few < cut < len(line) - few]
    # Or between a narrow mode and a wide one.
    cut = _cut(line, _surprise)
    separation, cut = max([*found, (_separation(line[:cut], line[cut:]), cut)])
    return points @ direction > 0.5 * (line[cut - 1] + line[cut]) if separation >= _SEPARATED else None


def _between(averages):
    """Return the direction from one half of the chains to the other: 2-means, from halves along the main axis."""
    centered = averages - np.mean(averages, axis=0)
    direction, middle = np.linalg.svd(centered, full_matrices=False)[2][0], 0.0
    for _ in range(_LLOYD):
        right = centered @ direction > middle
        if np.all(right) or not np.any(right):
            break
        here, there = np.mean(centered[~right], axis=0), np.mean(centered[right], axis=0)
        direction, middle = there - here, 0.5 * (there @ there - here @ here)
    return direction / max(np.linalg.norm(direction), 1e-30)


def _tightness(sizes, sds):
    """Return the sum of squares within the halves."""
    return np.sum(sizes * sds**2, axis=0)


def _surprise(sizes, sds):
    """Return minus the log likelihood of two Gaussians."""
    return np.sum(sizes * np.log(sds / sizes), axis=0)


def _cut(line, cost):
    """Return how many of these sorted numbers are in the lower half, where a cut costs least; by running sums."""
    lower, squares, sizes = np.cumsum(line)[:-1], np.cumsum(line**2)[:-1], np.arange(1.0, len(line))
    sizes = np.stack([sizes, len(line) - sizes])
    means = np.stack([lower, np.sum(line) - lower]) / sizes
    variances = np.stack([squares, np.sum(line**2) - squares]) / sizes - means**2
    sds = np.sqrt(np.maximum(variances, 1e-12 * np.var(line)))
    return 1 + int(np.argmin(np.where(np.min(sizes, axis=0) >= _FEWEST, cost(sizes, sds), np.inf)))


def _neighbours(line, cut):
    """Return of either half that half which is next to the other: the rest may be further modes."""
    lower, upper = line[:cut], line[cut:]
    lower = lower[_cut(lower, _tightness) :] if len(lower) >= 2 * _FEWEST else lower
    return lower, upper[: _cut(upper, _tightness)] if len(upper) >= 2 * _FEWEST else upper


def _separation(lower, upper):
    """Return how far two parts are apart, by the sum of their sds: 1.7 where a smooth density is cut."""
    return (np.mean(upper) - np.mean(lower)) / max(np.std(lower) + np.std(upper), 1e-30)


def _change_places(here, there):
    """Say whether two coordinates have, in the other mode, each the value of the other."""
    sds = np.sqrt(0.5 * (np.var(here, axis=0) + np.var(there, axis=0)))
    unit, mean, other = np.maximum(sds[:, None], sds), np.mean(here, axis=0), np.mean(there, axis=0)
    near, apart = np.abs(mean[:, None] - other) < _NEAR * unit, np.abs(mean[:, None] - mean) > _APART * unit
    return bool(np.any(near & near.T & apart))


def _averages(points, chains):
    """Return the average of every chain that has states here, and the number of these."""
    counts = np.bincount(chains)
    sums = np.stack([np.bincount(chains, column) for column in points.T], axis=1)
    return sums[counts > 0] / counts[counts > 0][:, None], counts[counts > 0]


def _mixing(points, chains):
    averages, counts = _averages(points, chains)
    between = np.average((averages - np.mean(points, axis=0)) ** 2, axis=0, weights=counts)
    within = np.var(points, axis=0) - between
    return float(np.sqrt(1 + np.max(between / np.maximum(within, 1e-30))))
