"""Do the particles fall into separate groups, as those of a posterior with several modes do?"""

import dataclasses

import numpy as np

from steinflow.methods.svgd.metrics import Cloud
from steinflow.typing import Array, Particles, Scores


@dataclasses.dataclass(frozen=True)
class Groups:
    """Two groups of particles.

    Attributes:
        separation: how far apart they are, in their own sds along the line between them.
        share: of the particles in the smaller one.
        mass: of the target in the smaller one, as if both were Gaussian; None where it cannot be said.
    """

    separation: float
    share: float
    mass: float | None


def two_groups(particles: Particles, scores: Scores, log_densities: Array | None) -> Groups:
    """Cut the cloud in two along the direction in which it falls apart most clearly.

    Candidates are the directions in which scores vary most, in units of the cloud: there the cloud is wider than its
    parts.
    """
    frame = Cloud().frame(particles)
    u, t = (np.asarray(values, float) for values in (frame.points(particles), frame.scores(scores)))
    directions = np.linalg.svd(t - t.mean(axis=0), full_matrices=False)[2][:3]
    separation, smaller = max((_best_cut(u @ direction) for direction in directions), key=lambda cut: cut[0])
    share = float(np.mean(smaller))
    mass = None
    if log_densities is not None and min(np.sum(smaller), np.sum(~smaller)) > u.shape[1] + 1:
        values = np.asarray(log_densities, float)
        difference = _log_mass(u[smaller], values[smaller]) - _log_mass(u[~smaller], values[~smaller])
        mass = float(1 / (1 + np.exp(-np.clip(difference, -50, 50))))
    return Groups(float(separation), share, mass)


def _best_cut(places):
    """Return the largest separation of two groups on a line, and who is in the smaller one."""
    order = np.argsort(places)
    sorted_places, n = places[order], len(places)
    counts = np.arange(1, n)
    sums = np.cumsum(sorted_places)[:-1]
    total, total_squares = np.sum(sorted_places), np.sum(sorted_places**2)
    means = sums / counts, (total - sums) / (n - counts)
    within = (total_squares - counts * means[0] ** 2 - (n - counts) * means[1] ** 2) / n
    # Groups of a few particles are outliers, which are looked for elsewhere.
    allowed = (counts >= max(3, 0.03 * n)) & (n - counts >= max(3, 0.03 * n))
    separations = np.where(allowed, (means[1] - means[0]) / np.sqrt(np.maximum(within, 1e-12)), 0.0)
    cut = int(np.argmax(separations))
    lower = np.zeros(n, bool)
    lower[order[: cut + 1]] = True
    return separations[cut], lower if np.mean(lower) <= 0.5 else ~lower


def _log_mass(points, log_densities):
    """The log mass of a group as if it were Gaussian: mean log density plus entropy, up to a common constant."""
    covariance = np.cov(points, rowvar=False, bias=True).reshape(points.shape[1], -1)
    return np.mean(log_densities) + 0.5 * np.linalg.slogdet(covariance)[1]
