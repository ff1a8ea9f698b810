"""Is the answer right? The kernelized Stein discrepancy, its goodness-of-fit test, and the dispersion."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.keys import as_key
from steinflow.stein.discrepancy import dispersion_of, ksd_squared, stein_kernel_rows
from steinflow.stein.kernels import IMQ, Kernel, as_kernel
from steinflow.targets.base import Target, as_target
from steinflow.targets.flat import flatten
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar


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
        ValueError: where the score of a particle is not finite, the kernel is not positive definite, or the statistic
            is neither of the two, or U of a single particle.
        TypeError: if the kernel is none.
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
