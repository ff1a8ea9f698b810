r"""Radial kernels $f(|x - y|^2 / h)$.

Their Stein direction needs no n x n x d array: with A = f and B = f' at all pairs,
$\phi(X) = (A S + \frac2h (B X - \mathrm{rowsum}(B)\, X)) / n$. In the coordinates $X / \sqrt h$ the bandwidth costs
nothing.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.normals import normal
from steinflow.stein.bandwidths import Bandwidth, Fixed, Median
from steinflow.stein.blocks import pairs_by_blocks
from steinflow.stein.geometry import mean_and_shape, squared_distances
from steinflow.stein.kernels.base import Kernel
from steinflow.typing import Array


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

    def matrix(self, x, y):
        scale = jax.lax.rsqrt(self.bandwidth(y))
        return self.profile(squared_distances(scale * x, scale * y))

    def pairwise_direction(self, particles, scores, at):
        n, scale = len(particles), jax.lax.rsqrt(self.bandwidth(particles))
        center, deviations = mean_and_shape(particles)  # the products lose fewer digits near the origin
        x = scale * deviations
        ones = jnp.ones((n, 1), x.dtype)
        if self.decay is not None:  # B = decay * A: one product gives everything
            slope = 2 * self.decay * scale
            right = jnp.concatenate([scores + slope * x, ones], axis=1)

            def rows(shared, y):
                kernel, x, _, right, slope = shared
                product = kernel.profile(squared_distances(y, x)) @ right
                return product[:, :-1] - slope * product[:, -1:] * y
        else:
            slope = 2 * scale
            right = jnp.concatenate([x, ones], axis=1)

            def rows(shared, y):
                kernel, x, scores, right, slope = shared
                a, b = _with_derivative(kernel.profile, squared_distances(y, x))
                product = b @ right
                return a @ scores + slope * (product[:, :-1] - product[:, -1:] * y)

        y = x if at is None else scale * (at - center)
        return pairs_by_blocks(rows, (self, x, scores, right, slope), y, n) / n

    def stein_matrix(self, x, y):
        (x, sx), (y, sy) = x, y
        scale = jax.lax.rsqrt(self.bandwidth(y))
        center, deviations = mean_and_shape(y)
        x, y = scale * (x - center), scale * deviations
        t = squared_distances(x, y)
        f, df, ddf = _with_two_derivatives(self.profile, t)
        # (x_i - y_j)'(s_i - s_j), in units of the bandwidth as x and y are
        across = jnp.sum(x * sx, axis=1)[:, None] + jnp.sum(y * sy, axis=1) - sx @ y.T - x @ sy.T
        trace = scale**2 * (x.shape[1] * df + 2 * t * ddf)
        return f * (sx @ sy.T) - 2 * (scale * df * across + trace)


class RBF(Radial):
    """The paper's kernel, exp(-|x - y|^2 / h)."""

    decay: ClassVar[float | None] = -1.0

    def profile(self, t):
        return jnp.exp(-t)

    def frequencies(self, particles, num, *, key):
        normals = normal(key, (num, particles.shape[1]), particles.dtype)
        return normals * jnp.sqrt(2 / self.bandwidth(particles))


class IMQ(Radial):
    """The inverse multiquadric (1 + |x - y|^2 / h)^(-1/2): its long reach keeps particles apart in high dimension."""

    def profile(self, t):
        return jax.lax.rsqrt(1 + t)

    def frequencies(self, particles, num, *, key):
        # (1 + t)^(-1/2) is the mean of exp(-g t) over g ~ Gamma(1/2): an RBF of random bandwidth; g is half a squared
        # normal.
        key, scale_key = jax.random.split(key)
        roots = jnp.sqrt(0.5) * normal(scale_key, (num, 1), particles.dtype)
        return roots * RBF(self.bandwidth).frequencies(particles, num, key=key)


class Multiquadric(Radial):
    r"""$-(1 + |x - y|^2 / h)^{3/4}$, for use inside `Centered`: its reach grows with distance and never fades.

    It is positive definite on differences only: for weights that sum to zero (Micchelli, 1986), which is what centring
    leaves. Between the inverse multiquadric, which hardly tells far particles apart, and the power 1, which is the
    linear kernel and sees nothing but means and variances, it follows shape and tails at once.
    """

    @property
    def definite(self):
        return False

    def profile(self, t):
        return -_three_quarters(1 + t)


@jax.custom_jvp
def _three_quarters(u):
    """Return u^(3/4), of which the derivative needs the same two roots; autodiff would divide by them once more."""
    return u * _minus_a_quarter(u)


@_three_quarters.defjvp
def _three_quarters_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return _three_quarters(u), 0.75 * _minus_a_quarter(u) * du


def _minus_a_quarter(u):
    return jnp.sqrt(jax.lax.rsqrt(u))


def _with_derivative(profile, t):
    return jax.jvp(profile, (t,), (jnp.ones_like(t),))


def _with_two_derivatives(profile, t):
    (f, df), (_, ddf) = jax.jvp(lambda t: _with_derivative(profile, t), (t,), (jnp.ones_like(t),))
    return f, df, ddf
