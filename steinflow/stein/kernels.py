"""Kernels k(x, y): how far one particle's score reaches. They add and scale: `IMQ() + 0.1 * Linear()`.

A kernel as the user writes it is a recipe: its bandwidth, centre or covariance follow the cloud.
`kernel.adapt(particles)` fixes them, and the adapted kernel is a plain function of two points, held constant when it is
differentiated.
"""

import abc
from collections.abc import Callable
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from steinflow.stein.bandwidths import Bandwidth, Fixed, Median
from steinflow.typing import Array, Particles, Point, Scalar


class Kernel(eqx.Module):
    """A positive definite function of two points.

    To add one: if it depends on |x - y| only, derive from `Radial` and write its profile. Otherwise pass the
    plain function `k(x, y)` wherever a kernel is expected; autodiff does the rest, more slowly.
    """

    @abc.abstractmethod
    def __call__(self, x: Point, y: Point) -> Scalar:
        """Return k(x, y); the kernel must be adapted if it depends on the cloud."""

    def adapt(self, particles: Particles) -> "Kernel":
        """Fix what depends on the cloud; what is fixed already stays."""
        return self

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum((*_terms(self), *_terms(as_kernel(other))))

    def __mul__(self, factor: float) -> "Scaled":
        return Scaled(factor, self)

    __rmul__ = __mul__


def _as_bandwidth(bandwidth) -> Bandwidth:
    return bandwidth if isinstance(bandwidth, Bandwidth) else Fixed(bandwidth)


class Radial(Kernel):
    """k(x, y) = f(|x - y|^2 / h), with the profile f of a subclass and the bandwidth h of the cloud.

    A complete new kernel:

        class RationalQuadratic(Radial):
            def profile(self, t):
                return 1 / (1 + t)
    """

    bandwidth: Bandwidth = eqx.field(default=Median(), converter=_as_bandwidth, kw_only=False)
    # f' / f where it is constant: the Stein direction then takes one matrix product less.
    decay: ClassVar[float | None] = None

    @abc.abstractmethod
    def profile(self, t: Array) -> Array:
        """Return f(t), elementwise, for t = |x - y|^2 / h >= 0."""

    def __call__(self, x, y):
        return self.profile(jnp.sum((x - y) ** 2) / self.bandwidth(x[None]))

    def adapt(self, particles):
        fixed = Fixed(jax.lax.stop_gradient(self.bandwidth(particles)))
        return eqx.tree_at(lambda kernel: kernel.bandwidth, self, fixed)


class RBF(Radial):
    """The paper's kernel, exp(-|x - y|^2 / h)."""

    decay: ClassVar[float | None] = -1.0

    def profile(self, t):
        return jnp.exp(-t)


class IMQ(Radial):
    """The inverse multiquadric (1 + |x - y|^2 / h)^(-1/2): its long reach keeps particles apart in high dimension."""

    def profile(self, t):
        return jax.lax.rsqrt(1 + t)


class Multiquadric(Radial):
    r"""$-(1 + |x - y|^2 / h)^{3/4}$, for use inside `Centered`: its reach grows with distance and never fades.

    It is positive definite on differences only: for weights that sum to zero (Micchelli, 1986), which is what centring
    leaves. Between the inverse multiquadric, which hardly tells far particles apart, and the power 1, which is the
    linear kernel and sees nothing but means and variances, it follows shape and tails at once.
    """

    def profile(self, t):
        root = jnp.sqrt(jnp.sqrt(1 + t))
        return -root * root * root


class Linear(Kernel):
    r"""$k(x, y) = 1 + (x - c)^\top C^{-1} (y - c)$, with c and C the mean and covariance of the cloud.

    At its fixed point the particles satisfy Stein's identity for linear functions, which on a Gaussian target
    makes their mean and covariance exact. `covariance="full"` needs more particles than dimensions to mean much;
    `"diagonal"` always works.
    """

    covariance: Literal["diagonal", "full"] = "diagonal"
    center: Array | None = None
    precision: Array | None = None

    def __check_init__(self):
        if self.covariance not in ("diagonal", "full"):
            raise ValueError(f"Linear(covariance=...) is 'diagonal' or 'full'; got {self.covariance!r}.")

    def __call__(self, x, y):
        return 1 + self.deviations(x) @ self.precise(self.deviations(y))

    def deviations(self, points: Array) -> Array:
        """Return x - c for a point, or for every row."""
        if self.center is None:
            raise ValueError("This Linear kernel has no centre yet: call kernel.adapt(particles) first.")
        return points - self.center

    def precise(self, vectors: Array) -> Array:
        """Return C^-1 v for a vector, or for every row."""
        if self.precision is None:
            raise ValueError("This Linear kernel has no covariance yet: call kernel.adapt(particles) first.")
        return vectors * self.precision if self.covariance == "diagonal" else vectors @ self.precision

    def adapt(self, particles):
        if self.center is not None and self.precision is not None:
            return self
        particles = jax.lax.stop_gradient(particles)
        center = jnp.mean(particles, axis=0)
        deviations = particles - center
        variances = jnp.mean(deviations**2, axis=0)
        # Directions without spread, up to the rounding of the mean, get no weight: only the constant 1 is left there.
        spread = jnp.sqrt(variances) > 16 * jnp.finfo(center.dtype).eps * jnp.abs(center)
        if self.covariance == "diagonal":
            precision = jnp.where(spread, 1 / jnp.where(spread, variances, 1.0), 0.0)
        else:
            deviations = jnp.where(spread, deviations, 0.0)
            precision = jnp.linalg.pinv(deviations.T @ deviations / len(particles), hermitian=True)
        return Linear(self.covariance, center, precision)


class Scaled(Kernel):
    """factor * k(x, y)."""

    factor: Array | float
    kernel: Kernel

    def __check_init__(self):
        if isinstance(self.factor, Kernel) or jnp.shape(self.factor) != ():
            raise TypeError(f"A kernel is scaled by a positive number, as in 0.1 * sf.Linear(); got {self.factor!r}.")
        if not isinstance(self.factor, Tracer) and not self.factor > 0:  # NaN is not
            raise ValueError(f"A kernel is scaled by a positive number; got {self.factor}.")

    def __call__(self, x, y):
        return self.factor * self.kernel(x, y)

    def adapt(self, particles):
        return Scaled(self.factor, self.kernel.adapt(particles))


class Sum(Kernel):
    """k_1(x, y) + k_2(x, y) + ..."""

    terms: tuple[Kernel, ...]

    def __call__(self, x, y):
        return sum((kernel(x, y) for kernel in self.terms), start=jnp.zeros((), x.dtype))

    def adapt(self, particles):
        return Sum(tuple(kernel.adapt(particles) for kernel in self.terms))


class Centered(Kernel):
    r"""$1 + \langle \psi(x) - \bar\psi,\, \psi(y) - \bar\psi \rangle$: features centred on the cloud, plus 1.

    It splits the Stein direction in two: the mean score moves the cloud as a whole, and what is left, which sums to
    zero, changes its shape. At its fixed point the mean score is exactly zero. The noise of a minibatch, nearly the
    same for all particles, moves the cloud and leaves its shape alone. Inside, a kernel need only be positive definite
    on differences, as `Multiquadric` is.
    """

    kernel: Kernel
    particles: Array | None = None

    def __call__(self, x, y):
        particles = self.particles
        if particles is None:
            raise ValueError("This Centered kernel has no cloud yet: call kernel.adapt(particles) first.")

        def mean(point):
            return jnp.mean(jax.vmap(self.kernel, in_axes=(0, None))(particles, point))

        level = jnp.mean(jax.lax.map(mean, particles))
        return 1 + self.kernel(x, y) - mean(x) - mean(y) + level

    def adapt(self, particles):
        if self.particles is not None:
            return self
        return Centered(self.kernel.adapt(particles), jax.lax.stop_gradient(particles))


class Function(Kernel):
    """Any differentiable k(x, y) given as a plain function; the Stein direction uses autodiff."""

    function: Callable[[Point, Point], Scalar]

    def __call__(self, x, y):
        return self.function(x, y)


def as_kernel(kernel: Kernel | Callable[[Point, Point], Scalar]) -> Kernel:
    """Accept a kernel, or a plain function of two points."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"{kernel.__name__} is a class of kernels: pass one of them, {kernel.__name__}().")
    if callable(kernel):
        return Function(kernel)
    raise TypeError(
        f"A kernel is sf.RBF(), sf.IMQ(), sf.Linear(), a sum of them, or a function k(x, y); got {kernel!r}."
    )


def check_definite(kernel: Kernel) -> None:
    """Refuse what is positive definite on differences only, and not centred."""
    match kernel:
        case Sum(terms):
            for term in terms:
                check_definite(term)
        case Scaled(_, term):
            check_definite(term)
        case Multiquadric():
            raise ValueError(
                "sf.Multiquadric() is positive definite on differences only: centre it, sf.Centered(sf.Multiquadric())."
            )


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)
