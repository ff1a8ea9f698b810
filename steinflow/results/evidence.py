r"""The evidence: how much mass a log density has, by importance sampling from a mixture built on the particles.

$$Z = \int p(x)\, dx = E_q\!\left[\frac{p(x)}{q(x)}\right]$$

The proposal q is a mixture of Student's t: half of it one component for the whole cloud, and half a component at every
particle, drawn towards the mean so that the mixture keeps the covariance of the cloud (West 1993). In few dimensions
these follow any shape, in many they are as wide as the cloud. q is built three times: from the particles, and then from
the draws of the time before by their weights (population Monte Carlo; Cappé et al. 2004). Only the last draws count.

Whether to believe it is for the tail of the weights to say: Pareto's k (Vehtari et al., arXiv:1507.02646). Above 0.7 no
number of draws that anybody has is enough.
"""

import dataclasses
import math
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.results.arviz import psis
from steinflow.stein.geometry import even_sample
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array

_FREEDOM = 5.0  # degrees of: tails heavier than those of posteriors, with a finite variance
_LARGEST_K = 0.7
_COMPONENTS = 100
_ROUNDS = 3  # the last one counts
_BLOCK = 2000  # draws whose distances to all components are in memory at once


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The log marginal likelihood, and how far to believe it.

    Attributes:
        log_evidence: of the log density as given, so prior and likelihood must be normalised, constants included. NaN
            if it is unknown.
        error: its standard error, in nats.
        pareto_k: measures the tail of the importance weights. Below 0.5 the estimate is good; above 0.7 it is useless.
        effective_draws: how many independent draws the weighted draws are worth.
        reason: why the evidence is unknown; None if it is known.
    """

    log_evidence: float
    error: float
    pareto_k: float
    effective_draws: float
    reason: str | None = None

    def __str__(self):
        if self.reason is not None:
            return f"log evidence unknown: {self.reason}"
        return f"log evidence {self.log_evidence:.2f} ± {self.error:.2g} (Pareto k {self.pareto_k:.2f})"


class Proposal:
    """The mixture: one component for all points and one for some of them, with the covariance of all.

    Args:
        points: of shape (n, d).
        shares: the weight of each; together 1.
    """

    def __init__(self, points: np.ndarray, shares: np.ndarray):
        dim, effective = points.shape[1], 1 / np.sum(shares**2)
        self._mean = shares @ points
        deviations = points - self._mean
        sds = np.maximum(np.sqrt(shares @ deviations**2), 1e-30)
        standardized = deviations / sds
        # As the metric of the particles does; where there are no more points than dimensions, their sds alone count.
        shrinkage = max((dim / (10 * effective)) ** 2, 1e-9) if effective > dim else 1.0
        correlations = (1 - shrinkage) * (shares * standardized.T) @ standardized + shrinkage * np.eye(dim)
        self._factor = sds[:, None] * np.linalg.cholesky(correlations)
        chosen = points[even_sample(len(points), min(len(points), _COMPONENTS), shares)]
        width = (4 / (len(chosen) * (dim + 2))) ** (1 / (dim + 4))  # Silverman's rule
        pull = math.sqrt(max(1 - width**2, 0.0))
        # In coordinates in which the whole is a unit; the first component represents all points.
        self._centers = np.vstack([np.zeros(dim), pull * np.linalg.solve(self._factor, (chosen - self._mean).T).T])
        self._widths = np.append(1.0, np.full(len(chosen), width))
        self._shares = np.append(0.5, np.full(len(chosen), 0.5 / len(chosen)))

    def draw(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws, evenly from all components."""
        chosen = even_sample(len(self._shares), number, self._shares)
        normals = rng.standard_normal((number, len(self._mean)))
        stretch = np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, (number, 1)))
        return self._mean + (self._centers[chosen] + self._widths[chosen, None] * stretch * normals) @ self._factor.T

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log q."""
        from scipy.special import gammaln, logsumexp

        dim = points.shape[1]
        constant = gammaln((_FREEDOM + dim) / 2) - gammaln(_FREEDOM / 2) - 0.5 * dim * math.log(_FREEDOM * math.pi)
        constant -= np.sum(np.log(np.diag(self._factor)))
        scales = np.log(self._shares) - dim * np.log(self._widths)
        found = []
        for start in range(0, len(points), _BLOCK):
            u = np.linalg.solve(self._factor, (points[start : start + _BLOCK] - self._mean).T).T
            squares = np.sum(u**2, axis=1)[:, None] + np.sum(self._centers**2, axis=1) - 2 * u @ self._centers.T
            tails = np.log1p(np.maximum(squares, 0.0) / self._widths**2 / _FREEDOM)
            found.append(logsumexp(scales - 0.5 * (_FREEDOM + dim) * tails, axis=1))
        return constant + np.concatenate(found)


def evidence_of(
    log_densities: Callable[[np.ndarray], Array | np.ndarray], points: np.ndarray, num_draws: int, seed: int
) -> Evidence:
    """Return the evidence of a density, given points that represent it.

    Args:
        log_densities: takes points (m, d) to their log densities.
        points: of equal weight, shape (n, d).
        num_draws: of the proposal, each time.
        seed: of the random numbers.
    """
    from scipy.special import logsumexp

    log_weights = np.zeros(0)
    rng, draws, shares = np.random.default_rng(seed), np.asarray(points, float), np.full(len(points), 1 / len(points))
    for _ in range(_ROUNDS):
        proposal = Proposal(draws, shares)
        draws = proposal.draw(num_draws, rng)
        values = np.asarray(log_densities(draws), float)
        log_weights = np.where(np.isfinite(values), values, -np.inf) - proposal.log_density(draws)
        if not np.any(np.isfinite(log_weights)):
            return Evidence(math.nan, math.nan, math.nan, 0.0, "the density is zero at all draws of the proposal")
        shares = np.exp(log_weights - logsumexp(log_weights))
    effective = float(1 / np.sum(shares**2))
    k = float(
        psis(np.maximum(log_weights, np.max(log_weights) - 700.0))[1]
    )  # where there is no density, next to nothing
    error = math.sqrt(max(1 / effective - 1 / num_draws, 0.0))
    if not k <= _LARGEST_K:
        reason = (
            f"Pareto k is {k:.2f}, above {_LARGEST_K}: a few draws dominate the sum, because no mixture of these "
            "particles covers the posterior. Look at the verdict. More particles may help, or other coordinates of the "
            "parameters, for example non-centred ones"
        )
        return Evidence(math.nan, math.nan, float(k), effective, reason)
    return Evidence(float(np.asarray(logsumexp(log_weights))) - math.log(num_draws), error, float(k), effective)


def log_densities_of(target: FlatTarget, dtype: np.dtype) -> Callable[[np.ndarray], Array]:
    """Return a function of many points to their log densities, on all of the data."""
    return lambda points: _evaluated(target, as_array(points, dtype))


@eqx.filter_jit
def _evaluated(target, points):
    return jax.lax.map(target.log_density, points, batch_size=_BLOCK)
