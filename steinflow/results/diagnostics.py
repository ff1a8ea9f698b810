"""Is the answer right? The kernelized Stein discrepancy, its goodness-of-fit test, and the dispersion."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.methods.svgd.metrics import Cloud
from steinflow.stein.discrepancy import ksd_squared, stein_kernel_rows
from steinflow.stein.geometry import even_sample
from steinflow.stein.kernels import IMQ, Kernel, as_kernel
from steinflow.targets.base import Target, as_target
from steinflow.targets.flat import flatten
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, Scalar, Scores


def ksd(
    target: Target | Callable[[Params], Scalar],
    particles: Params,
    *,
    kernel: Kernel = IMQ(),
    statistic: Literal["V", "U"] = "V",
) -> Scalar:
    r"""Return the kernelized Stein discrepancy between particles and target, zero where they agree.

    With `statistic="V"` this is $\sqrt{\mathrm{KSD}^2}$, in units of the score. With `"U"` it is the unbiased
    estimate of $\mathrm{KSD}^2$ itself, which may be negative. Constrained parameters are compared in the
    unconstrained space. The IMQ kernel sees departures that a Gaussian one misses (Gorham & Mackey, 2017).

    Raises:
        ValueError: where the score of a particle is not finite.
    """
    points, scores = _points_and_scores(target, particles)
    squared = _ksd_squared(points, scores, as_kernel(kernel), statistic)
    return jnp.sqrt(squared) if statistic == "V" else squared


_ksd_squared = eqx.filter_jit(
    lambda points, scores, kernel, statistic: ksd_squared(points, scores, kernel.adapt(points), statistic)
)


class GoodnessOfFit(NamedTuple):
    """The U statistic of KSD^2 and the probability of one as large if the particles were draws from the target."""

    statistic: float
    p_value: float


def goodness_of_fit(
    target: Target | Callable[[Params], Scalar],
    particles: Params,
    *,
    kernel: Kernel = IMQ(),
    num_bootstrap: int = 1000,
    key: int | PRNGKeyArray = 0,
) -> GoodnessOfFit:
    """Test whether particles are independent draws from the target (Liu, Lee & Jordan, 2016).

    The null distribution of the degenerate U statistic comes from the multinomial bootstrap: weights that sum to zero
    on the same Stein kernel matrix. A small p-value says that they are not such draws. Particles of SVGD are not
    independent: they are more even than draws, and the test is conservative for them.

    Returns:
        The statistic and its p-value.

    Raises:
        ValueError: where there are fewer than two particles, or the score of one is not finite.
    """
    points, scores = _points_and_scores(target, particles)
    if len(points) < 2:
        raise ValueError("The goodness-of-fit test needs at least two particles.")
    if num_bootstrap < 1:
        raise ValueError(f"num_bootstrap must be at least 1; got {num_bootstrap}.")
    statistic, p_value = _bootstrap(points, scores, as_kernel(kernel), num_bootstrap, as_key(key))
    return GoodnessOfFit(float(statistic), float(p_value))


@eqx.filter_jit
def _bootstrap(points, scores, kernel, num_bootstrap, key):
    n = len(points)
    counts = jax.random.multinomial(key, n, jnp.full((num_bootstrap, n), 1 / n))
    weights = (counts / n - 1 / n).astype(points.dtype)
    rows = stein_kernel_rows(points, scores, kernel.adapt(points))

    def block(indices):
        u = jnp.where(indices[:, None] == jnp.arange(n), 0.0, rows(indices))
        return jnp.sum(u, axis=1), weights[:, indices] * (weights @ u.T)

    sums, contributions = jax.lax.map(lambda i: block(i[None]), jnp.arange(n), batch_size=512)
    statistic = jnp.sum(sums) / (n * (n - 1))
    null = jnp.sum(contributions, axis=(0, 2))
    # The observed statistic counts as one of the sample: a p-value is never zero.
    return statistic, (1 + jnp.sum(null >= statistic)) / (1 + num_bootstrap)


_KSD_PARTICLES = 2048


def ksd_of(particles: Particles, scores: Scores, weights: Array | None = None) -> float:
    """Return the KSD of points with known scores (IMQ kernel), at a cost that does not grow with their square.

    Beyond 2,048 particles it is an estimate: pairs of an even sample represent all pairs, and the terms i = j, which
    weigh less the more particles there are, are added with their own weight.
    """
    num_particles = len(particles)
    if num_particles <= _KSD_PARTICLES:
        return float(watched(particles, scores, weights)["ksd"])
    sample = even_sample(num_particles, _KSD_PARTICLES, weights)
    all_pairs, own = map(float, stein_kernel_means(particles[sample], scores[sample], IMQ()))
    across = (len(sample) * all_pairs - own) / (len(sample) - 1)
    share = 1 / num_particles if weights is None else float(np.sum(np.asarray(weights, float) ** 2))
    return max(across + share * (own - across), 0.0) ** 0.5


@eqx.filter_jit
def stein_kernel_means(particles: Particles, scores: Scores, kernel: Kernel) -> tuple[Scalar, Scalar]:
    """Return the mean of the Stein kernel over all pairs, which is KSD squared, and over each particle with itself."""
    matrix = stein_kernel_rows(particles, scores, kernel.adapt(particles))(jnp.arange(len(particles)))
    return jnp.mean(matrix), jnp.mean(jnp.diagonal(matrix))


def dispersion(target: Target | Callable[[Params], Scalar], particles: Params) -> Array:
    r"""Return the dispersion of every unconstrained coordinate: 1 if the spread is right.

    $$R_k = -\frac1n \sum_i (x_{ik} - \bar x_k)\, s_k(x_i)$$

    Stein's identity for linear functions makes R = 1 under the target. Particles that have collapsed have R << 1, which
    the length of the Stein direction does not show; particles that are too wide have R > 1. A negative R is no matter
    of spread: the scores push the particles apart, as between two modes or far out in a heavy tail.

    Raises:
        ValueError: where the score of a particle is not finite.
    """
    return dispersion_of(*_points_and_scores(target, particles))


def dispersion_of(
    particles: Particles | np.ndarray, scores: Scores | np.ndarray, weights: Array | np.ndarray | None = None
) -> Any:
    """Return the dispersion of points with known scores, as an array of their kind: JAX's inside compiled code."""
    if weights is None:
        return -((particles - particles.mean(axis=0)) * scores).mean(axis=0)
    return -(((particles - weights @ particles) * scores).T @ weights)


def mean_error(particles: Particles, scores: Scores, weights: Array | None = None) -> Scalar:
    r"""Return an estimate of how far the mean is from the target's, in posterior sds, root mean square.

    In the coordinates of the cloud, where the dispersion R is the curvature of -log p, one step of Newton leads to the
    mean of a Gaussian target: $|\bar s_k / R_k|$. Of a cloud that is far away and narrow it says so.
    """
    frame = Cloud().frame(particles)
    points, scores = frame.points(particles), frame.scores(scores)
    curvature = jnp.maximum(jnp.abs(dispersion_of(points, scores, weights)), 1e-3)
    mean_score = jnp.mean(scores, axis=0) if weights is None else weights @ scores
    return jnp.sqrt(jnp.mean((mean_score / curvature) ** 2))


WATCHED = ("ksd", "dispersion", "dispersion_error", "mean_error")


@jax.jit  # by itself, so that runs on all targets share it
def watched(particles: Particles, scores: Scores, weights: Array | None = None) -> dict[str, Scalar]:
    """Return what is watched on the way: KSD, the median of the dispersion and its worst error, that of the mean."""
    dispersion = dispersion_of(particles, scores, weights)
    return {
        "ksd": jnp.sqrt(ksd_squared(particles, scores, IMQ(), weights=weights)),
        "dispersion": jnp.median(dispersion),
        "dispersion_error": jnp.max(jnp.abs(dispersion - 1)),
        "mean_error": mean_error(particles, scores, weights),
    }


def as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """Accept a JAX key, old or new, or an int."""
    if isinstance(key, int | np.integer):
        return jax.random.key(int(key))
    if isinstance(key, np.ndarray | jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0:
            return jnp.asarray(key)
        if key.dtype == jnp.uint32 and key.ndim == 1:
            return jax.random.wrap_key_data(key)
    raise TypeError(f"key is an int or one JAX random key such as jax.random.key(0); got {key!r}.")


def _points_and_scores(target, particles):
    flat, points = flatten(as_target(target), particles)
    scores = _scores(flat, points)
    if lost := int(jnp.sum(~jnp.all(jnp.isfinite(scores), axis=1))):
        raise ValueError(
            f"The score is not finite at {lost} of {len(points)} particles, so they say nothing about the target. "
            "Leave them out, or write the log density with log-space functions (jax.nn.log_sigmoid, ...)."
        )
    return points, scores


_scores = eqx.filter_jit(lambda flat, points: flat.scores(points))
