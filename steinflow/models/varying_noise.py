r"""Families whose noise depends on the row: a model gives the location of y and the logarithm of its scale.

$y \sim N(f_1(x), e^{2 f_2(x)})$, or Student's t in place of the normal. The noise needs no parameter of its own: where
it is the same for all rows, $f_2$ is constant.

An optimiser that climbs this density finds it easier to call a row noisy than to fit it, and once it is called noisy
its error counts for little: large parts of the data are never fitted. On the way rows are therefore weighted by
$e^{f_2}$, relative to the mean over all rows and held constant (Seitzer et al., arXiv:2203.09168, with their beta of
one half).
"""

import abc
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy import special

from steinflow.models.families import Family, Gaussian
from steinflow.typing import Array, PRNGKeyArray

_NARROWEST, _WIDEST = -8.0, 5.0  # log scales of a standardised y: beyond, single precision overflows in squares


def location_and_log_scale(outputs: Any) -> tuple[Any, Any]:
    """Return both parts of the outputs, the last axis, of JAX or of NumPy; log scales are bounded."""
    return outputs[..., 0], outputs[..., 1].clip(_NARROWEST, _WIDEST)


class _VaryingNoise(Family):
    """What both families share: y in units of its own scale has one distribution for all rows."""

    real_valued: ClassVar[bool] = True

    @property
    def num_outputs(self):
        return 2

    def encode(self, y):
        return Gaussian().encode(y)

    def log_density(self, outputs, y, log_gamma):
        location, log_scale = location_and_log_scale(outputs)
        return self._unit_log_density((y - location) * jnp.exp(-log_scale)) - log_scale

    def climbed_log_density(self, outputs, y, log_gamma):
        weights = jnp.exp(jax.lax.stop_gradient(location_and_log_scale(outputs)[1]))
        return weights / jnp.mean(weights) * self.log_density(outputs, y, log_gamma)

    def mean(self, outputs):
        return outputs[..., 0]

    def variance(self, outputs, log_gamma):
        return self._unit_variance * jnp.exp(2 * location_and_log_scale(outputs)[1])

    def forecasts(self, outputs, y, log_gamma):
        location, log_scale = location_and_log_scale(outputs)
        return self._unit_position((y - location) * jnp.exp(-log_scale))[:, None]

    def sample(self, key, outputs, log_gamma):
        location, log_scale = location_and_log_scale(outputs)
        return location + jnp.exp(log_scale) * self._unit_sample(key, location.shape)

    def in_units(self, outputs, shift, scale):
        location, log_scale = location_and_log_scale(outputs)
        return jnp.stack([location * scale + shift, log_scale + jnp.log(scale)], axis=-1)

    @property
    @abc.abstractmethod
    def _unit_variance(self) -> float: ...

    @abc.abstractmethod
    def _unit_log_density(self, z: Array) -> Array: ...

    @abc.abstractmethod
    def _unit_position(self, z: Array) -> Array: ...

    @abc.abstractmethod
    def _unit_sample(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array: ...


class VaryingGaussian(_VaryingNoise):
    r"""$y \sim N(f_1, e^{2 f_2})$: a mean and a noise for every row."""

    @property
    def _unit_variance(self):
        return 1.0

    def _unit_log_density(self, z):
        return -0.5 * (z**2 + math.log(2 * math.pi))

    def _unit_position(self, z):
        return special.ndtr(z)

    def _unit_sample(self, key, shape):
        return jax.random.normal(key, shape)


class VaryingStudentT(_VaryingNoise):
    r"""$y \sim t_\nu(f_1, e^{f_2})$: a location and a scale for every row, with tails that forgive outliers.

    Args:
        df: $\nu$, the degrees of freedom; more than 2, so that the variance is finite.

    Raises:
        ValueError: if `df` is at most 2.
    """

    df: float = 4.0

    def __check_init__(self):
        if not self.df > 2:
            raise ValueError(f"df, the degrees of freedom, must be more than 2; got {self.df}.")

    @property
    def _unit_variance(self):
        return self.df / (self.df - 2)

    def _unit_log_density(self, z):
        constant = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2) - 0.5 * math.log(self.df * math.pi)
        return constant - 0.5 * (self.df + 1) * jnp.log1p(z**2 / self.df)

    def _unit_position(self, z):
        tail = 0.5 * special.betainc(0.5 * self.df, 0.5, self.df / (self.df + z**2))
        return jnp.where(z > 0, 1 - tail, tail)

    def _unit_sample(self, key, shape):
        return jax.random.t(key, self.df, shape)
