"""What every kernel can do: the definitions by autodiff; and sums, multiples and plain functions as kernels."""

import abc
import functools
import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from steinflow.devices.sharding import split_particles
from steinflow.typing import Array, Direction, Particles, Point, PRNGKeyArray, PyTree, Scalar, Scores

# How the sum over all pairs of an adapted kernel is taken, given particles, scores and where: in full, or an estimate.
Pairs: TypeAlias = Callable[["Kernel", Particles, Scores, Particles | None], Direction]


def all_pairs(kernel: "Kernel", particles: Particles, scores: Scores, at: Particles | None) -> Direction:
    """Return the Stein direction as the full sum over pairs."""
    return kernel.pairwise_direction(particles, scores, at)


class Kernel(eqx.Module):
    """A positive definite function of two points, with its Stein direction and its Stein matrix.

    To add one, write `__call__`: autodiff does the rest, pair by pair. If it follows the cloud, write `adapt`. If it
    depends on |x - y| only, derive from `Radial` and write its profile instead. Closed forms replace
    `pairwise_direction` and `stein_matrix`, or `direction` where there is no sum over pairs to take.
    """

    @abc.abstractmethod
    def __call__(self, x: Point, y: Point) -> Scalar:
        """Return k(x, y); the kernel must be adapted if it depends on the cloud."""

    @property
    def definite(self) -> bool:
        """Whether this kernel is positive definite; if not, it is so on differences, which `Centered` leaves."""
        return True

    def adapt(self, particles: Particles) -> "Kernel":
        """Fix what depends on the cloud; what is fixed already stays."""
        return self

    def matrix(self, x: Particles, y: Particles) -> Array:
        """Return k(x_i, y_j) at all pairs of rows; the kernel must be adapted."""
        return jax.vmap(jax.vmap(self, in_axes=(None, 0)), in_axes=(0, None))(x, y)

    def direction(
        self, particles: Particles, scores: Scores, at: Particles | None = None, *, pairs: Pairs = all_pairs
    ) -> Direction:
        r"""Return $\phi(x) = \frac1n \sum_j [k(x_j, x) s_j + \nabla_{x_j} k(x_j, x)]$ for every x in `at`.

        Args:
            particles: the x_j; the kernel follows them unless it is adapted already.
            scores: the s_j.
            at: where to evaluate; the particles themselves if not given.
            pairs: how to take the sum.
        """
        return pairs(self.adapt(particles), particles, scores, at)

    def pairwise_direction(self, particles: Particles, scores: Scores, at: Particles | None) -> Direction:
        """Return the direction of an adapted kernel as the sum over all pairs."""

        def rows(shared, at):
            particles, scores, kernel = shared

            def row(y):
                values, gradients = jax.vmap(jax.value_and_grad(kernel), in_axes=(0, None))(particles, y)
                return values @ scores + jnp.sum(gradients, axis=0)

            return jax.lax.map(row, at)

        return split_particles(rows, (particles, scores, self), particles if at is None else at) / len(particles)

    def stein_rows(self, points: Particles, scores: Scores) -> PyTree:
        """Return what the Stein matrix takes of every point, as a pytree of rows; the kernel must be adapted."""
        return points, scores

    def stein_matrix(self, x: PyTree, y: PyTree) -> Array:
        r"""Return $u_p$ at all pairs of points, each given by its row of `stein_rows`.

        $$u_p(x, y) = s_x^\top k\, s_y + s_x^\top \nabla_y k + \nabla_x k^\top s_y + \mathrm{tr}\,\nabla_x \nabla_y k$$
        """

        def stein_kernel(x, y):
            (x, sx), (y, sy) = x, y
            dx, dy = jax.grad(self, argnums=(0, 1))(x, y)
            mixed = jax.jacfwd(jax.grad(self, argnums=0), argnums=1)(x, y)
            return self(x, y) * (sx @ sy) + sx @ dy + dx @ sy + jnp.trace(mixed)

        return jax.vmap(jax.vmap(stein_kernel, in_axes=(None, 0)), in_axes=(0, None))(x, y)

    def frequencies(self, particles: Particles, num: int, *, key: PRNGKeyArray) -> Array:
        r"""Return draws w, (num, d), of which the kernel is the mean of $\cos w^\top(x - y)$: its spectral density.

        Raises:
            TypeError: if the kernel has none, or does not bring it.
        """
        raise TypeError(
            f"RandomFeatures needs a kernel that brings its frequencies, as sf.kernels.RBF and sf.kernels.IMQ do; "
            f"{type(self).__name__} does not. Use sf.svgd.Subsample(m), which takes any kernel."
        )

    def __add__(self, other: "Kernel | Callable[[Point, Point], Scalar]") -> "Sum":
        return Sum((self, as_kernel(other)))

    def __mul__(self, factor: Array | float) -> "Scaled":
        return Scaled(factor, self)

    __rmul__ = __mul__


class Scaled(Kernel):
    """factor * k(x, y).

    Raises:
        TypeError: if the factor is no number.
        ValueError: if it is not positive.
    """

    factor: Array | float
    kernel: Kernel

    def __check_init__(self):
        if isinstance(self.factor, Kernel) or jnp.shape(self.factor) != ():
            raise TypeError(
                f"A kernel is scaled by a positive number, as in 0.1 * sf.kernels.Linear(); got {self.factor!r}."
            )
        if not isinstance(self.factor, Tracer) and not self.factor > 0:  # NaN is not
            raise ValueError(f"A kernel is scaled by a positive number; got {self.factor}.")

    def __call__(self, x, y):
        return self.factor * self.kernel(x, y)

    @property
    def definite(self):
        return self.kernel.definite

    def adapt(self, particles):
        return Scaled(self.factor, self.kernel.adapt(particles))

    def matrix(self, x, y):
        return self.factor * self.kernel.matrix(x, y)

    def direction(self, particles, scores, at=None, *, pairs=all_pairs):
        return self.factor * self.kernel.direction(particles, scores, at, pairs=pairs)

    def stein_rows(self, points, scores):
        return self.kernel.stein_rows(points, scores)

    def stein_matrix(self, x, y):
        return self.factor * self.kernel.stein_matrix(x, y)


class Sum(Kernel):
    """k_1(x, y) + k_2(x, y) + ...

    Raises:
        ValueError: if there are no terms.
    """

    terms: tuple[Kernel, ...]

    def __check_init__(self):
        if not self.terms:
            raise ValueError("A sum of kernels needs at least one term.")

    def __call__(self, x, y):
        return _total(kernel(x, y) for kernel in self.terms)

    def __add__(self, other):
        return Sum((*self.terms, as_kernel(other)))

    @property
    def definite(self):
        return all(kernel.definite for kernel in self.terms)

    def adapt(self, particles):
        return Sum(tuple(kernel.adapt(particles) for kernel in self.terms))

    def matrix(self, x, y):
        return _total(kernel.matrix(x, y) for kernel in self.terms)

    def direction(self, particles, scores, at=None, *, pairs=all_pairs):
        return _total(kernel.direction(particles, scores, at, pairs=pairs) for kernel in self.terms)

    def stein_rows(self, points, scores):
        return tuple(kernel.stein_rows(points, scores) for kernel in self.terms)

    def stein_matrix(self, x, y):
        return _total(map(lambda kernel, x, y: kernel.stein_matrix(x, y), self.terms, x, y))


def _total(parts: Iterable[Array]) -> Array:
    return functools.reduce(operator.add, parts)


class Function(Kernel):
    """Any differentiable k(x, y) given as a plain function."""

    function: Callable[[Point, Point], Scalar]

    def __call__(self, x, y):
        return self.function(x, y)


def as_kernel(kernel: Kernel | Callable[[Point, Point], Scalar]) -> Kernel:
    """Accept a kernel, or a plain function of two points.

    Raises:
        TypeError: if it is neither.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"{kernel.__name__} is a class: pass an instance of it, {kernel.__name__}().")
    if callable(kernel):
        return Function(kernel)
    raise TypeError(
        f"A kernel must be one of sf.kernels, such as sf.kernels.RBF(), a sum of them, or a function k(x, y); "
        f"got {kernel!r}."
    )


def positive_definite(kernel: Kernel | Callable[[Point, Point], Scalar]) -> Kernel:
    """Accept a kernel, or a plain function of two points, that is positive definite.

    Raises:
        TypeError: if it is no kernel.
        ValueError: if it is positive definite on differences only, and not centred.
    """
    kernel = as_kernel(kernel)
    if not kernel.definite:
        raise ValueError(
            "This kernel is positive definite only on differences: centre it, as in "
            f"sf.kernels.Centered(sf.kernels.Multiquadric()); got {kernel}."
        )
    return kernel
