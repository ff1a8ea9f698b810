r"""The heart of SVGD: Stein's operator and the Stein direction.

With the score $s = \nabla \log p$ and a kernel k (Liu & Wang 2016, equations 4 to 8):

$$\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x)\, s(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

moves particles towards p fastest among all directions of unit RKHS norm. Each kernel brings its own form of the sum:
`kernels/base.py` the definition by autodiff, the others closed forms.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from steinflow.stein.kernels import Kernel, positive_definite
from steinflow.typing import Array, Direction, Particles, Point, Scalar, Scores


def stein_operator(function: Callable[[Point], Array], score: Callable[[Point], Array]) -> Callable[[Point], Scalar]:
    r"""Return $x \mapsto s(x)^\top f(x) + \nabla \cdot f(x)$, whose mean under p is zero (Stein's identity).

    `function` maps a point to a vector of the same dimension; `score` maps a point to its score.
    """

    def operate(x):
        return score(x) @ function(x) + jnp.trace(jax.jacfwd(function)(x))

    return operate


def stein_direction(
    particles: Particles,
    scores: Scores,
    kernel: Kernel | Callable[[Point, Point], Scalar],
    at: Particles | None = None,
) -> Direction:
    r"""Return $\phi(x) = \frac1n \sum_j [k(x_j, x) s_j + \nabla_{x_j} k(x_j, x)]$ for every x in `at`.

    Args:
        particles: the x_j.
        scores: the gradient of log p at each of them.
        kernel: a kernel, or a function k(x, y); it follows the particles unless it is adapted already.
        at: where to evaluate; the particles themselves if not given.

    Raises:
        ValueError: if particles and scores are not matrices of one shape, or the kernel is not positive definite.
        TypeError: if it is no kernel.
    """
    if jnp.shape(particles) != jnp.shape(scores) or jnp.ndim(particles) != 2:
        raise ValueError(
            "stein_direction needs particles and scores as matrices of one shape (n, d); "
            f"got {jnp.shape(particles)} and {jnp.shape(scores)}."
        )
    return positive_definite(kernel).direction(particles, scores, at)
