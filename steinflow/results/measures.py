r"""How good particles with known scores are, in NumPy: KSD, dispersion, error of the mean.

A few hundred particles take milliseconds here, where XLA takes seconds to compile the same. The definitions are those
of `stein/` and of the metric `Cloud`, in double precision. The kernel is always IMQ.
"""

import numpy as np

from steinflow.methods.svgd.metrics import Cloud, shrinkage_of
from steinflow.stein.bandwidths import EXACT_MEDIAN, sampled_pairs, wide_factor
from steinflow.stein.discrepancy import dispersion_of, imq_stein_matrix
from steinflow.stein.geometry import distinct_squares, even_sample
from steinflow.typing import Array, Particles, Scores

WATCHED = ("ksd", "dispersion", "dispersion_error", "mean_error")
_KSD_PARTICLES = 2048
_BLOCK_ROWS = 256  # so that the pairs of a block stay in the cache


def mean_error(points: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> float:
    r"""Return an estimate of how far the mean is from the target's, in posterior sds, root mean square.

    In the coordinates of the cloud, where the dispersion R is the curvature of -log p, one step of Newton leads to the
    mean of a Gaussian target: $|\bar s_k / R_k|$. Of a cloud that is far away and narrow it says so.

    Args:
        points: in the coordinates of the cloud.
        scores: there.
        weights: of the points; None where they are equal.
    """
    curvature = np.maximum(np.abs(dispersion_of(points, scores, weights)), 1e-3)
    mean_score = np.mean(scores, axis=0) if weights is None else weights @ scores
    return float(np.sqrt(np.mean((mean_score / curvature) ** 2)))


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is reported as it is
def watched(particles: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return what is watched on the way: KSD, the median of the dispersion and its worst error, that of the mean."""
    x, s, w = np.asarray(particles, float), np.asarray(scores, float), _double(weights)
    dispersion = dispersion_of(x, s, w)
    values = (
        ksd_squared(x, s, median_bandwidth(x), w) ** 0.5,
        np.median(dispersion),
        np.max(np.abs(dispersion - 1)),
        mean_error(*in_cloud(particles, scores), w),
    )
    return {name: np.asarray(value, particles.dtype) for name, value in zip(WATCHED, values, strict=True)}


@np.errstate(over="ignore", invalid="ignore")
def ksd_of(particles: Particles, scores: Scores, weights: Array | None = None) -> float:
    """Return the KSD of points with known scores, at a cost that does not grow with their square.

    Beyond 2,048 particles it is an estimate: pairs of an even sample represent all pairs, and the terms i = j, which
    weigh less the more particles there are, are added with their own weight.
    """
    num_particles, x, s, w = len(particles), np.asarray(particles, float), np.asarray(scores, float), _double(weights)
    if num_particles <= _KSD_PARTICLES:
        return ksd_squared(x, s, median_bandwidth(x), w) ** 0.5
    sample = even_sample(num_particles, _KSD_PARTICLES, w)
    x, s = x[sample], s[sample]
    all_pairs, own = stein_kernel_means(x, s, median_bandwidth(x))
    across = (len(sample) * all_pairs - own) / (len(sample) - 1)
    share = 1 / num_particles if w is None else float(np.sum(w**2))
    return max(across + share * (own - across), 0.0) ** 0.5


def ksd_squared(x: np.ndarray, s: np.ndarray, bandwidth: float, weights: np.ndarray | None = None) -> float:
    """Return the V statistic of the squared KSD."""
    return max(stein_kernel_means(x, s, bandwidth, weights)[0], 0.0)


def stein_kernel_means(
    x: np.ndarray, s: np.ndarray, bandwidth: float, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the mean of the Stein kernel over all pairs, which is KSD squared, and over each particle with itself."""
    n, dim = x.shape
    weights = np.full(n, 1 / n) if weights is None else weights
    x, total = x - np.mean(x, axis=0), 0.0  # the products lose fewer digits near the origin
    for start in range(0, n, _BLOCK_ROWS):  # the matrix is symmetric: a block is multiplied with itself and those after
        rows, columns = slice(start, start + _BLOCK_ROWS), slice(start, None)
        matrix = imq_stein_matrix(x[rows], s[rows], x[columns], s[columns], bandwidth)
        products, own = weights[rows] @ matrix, len(weights[rows])
        total += 2 * products @ weights[columns] - products[:own] @ weights[rows]
    return float(total), float(np.mean(np.sum(s**2, axis=1) + dim / bandwidth))


def median_bandwidth(x: np.ndarray) -> float:
    """Return the bandwidth of `sf.kernels.IMQ()`, as `bandwidths.Median` defines it."""
    n, x = len(x), x - np.mean(x, axis=0)
    if n == 1:
        return 1.0
    if n <= EXACT_MEDIAN:
        median = np.median(np.sqrt(distinct_squares(x, x)[np.triu_indices(n, 1)]))
    else:
        left, right = x[sampled_pairs(n)]
        squares = distinct_squares(left, right).ravel()
        rank = (squares.size + 1) // 2 - 1
        median = np.sqrt(np.partition(squares, rank)[rank])
    return float(median**2 / np.log(n)) or 1.0


def wide_bandwidth(x: np.ndarray) -> float:
    """Return the bandwidth of `sf.kernels.IMQ(Wide())`, as `bandwidths.Wide` defines it."""
    return wide_factor(x.shape[1]) * float(np.sum(np.var(x, axis=0))) or 1.0


def in_cloud(particles: Array | np.ndarray, scores: Array | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points and scores in the coordinates of the cloud, those of `Cloud().frame(particles)`."""
    x, s, eps = np.asarray(particles, float), np.asarray(scores, float), np.finfo(particles.dtype).eps
    n, dim = x.shape
    deviations, variances = x - np.mean(x, axis=0), np.var(x, axis=0)
    sds = np.sqrt(np.where(variances > 0, variances, 1.0))
    standardized = deviations / sds
    if n < dim or dim == 1 or dim > Cloud().max_dim:
        return standardized, s * sds
    shrinkage = shrinkage_of(n, dim, float(eps))
    correlations = (1 - shrinkage) * standardized.T @ standardized / n + shrinkage * np.eye(dim)
    if not np.all(np.isfinite(correlations)):
        return np.full_like(x, np.nan), np.full_like(s, np.nan)
    factor = np.linalg.cholesky(correlations)
    return np.linalg.solve(factor, standardized.T).T, (s * sds) @ factor


def _double(weights):
    return None if weights is None else np.asarray(weights, float)
