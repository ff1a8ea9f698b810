r"""Doubly stochastic variational inference (Titsias & Lázaro-Gredilla, ICML 2014).

A Gaussian $q = N(\mu, C C^\top)$, C lower triangular, fitted with one draw and one minibatch per step:

$$z \sim N(0, I), \quad x = \mu + C z, \quad g = \nabla \log p(x), \qquad \mu \leftarrow \mu + \rho_t\, g, \quad
C \leftarrow C + 0.1 \rho_t \bigl( \mathrm{tril}(g z^\top) + \mathrm{diag}(1/C_{ii}) \bigr)$$

and the diagonal of C is held above $10^{-4}$. $\rho_t$ is constant within a stage and shrinks by 0.95 after each.
"""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from steinflow.devices.normals import normal
from steinflow.methods.base import Draws, Method
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Point, PRNGKeyArray, Scalar

_SMALLEST = 1e-4  # of the diagonal of C


class DSVIState(eqx.Module):
    """The Gaussian: its mean, and its Cholesky factor or the diagonal of it."""

    mean: Point
    factor: Array
    num_draws: int = eqx.field(static=True)

    def points(self, noise: Array) -> Array:
        """Return mu + C z for every row z."""
        return self.mean + (noise * self.factor if self.factor.ndim == 1 else noise @ self.factor.T)


class DSVI(Method):
    r"""A Gaussian fitted by stochastic gradients.

    The result holds as many draws of q as there were particles.

    Known bias: q is Gaussian and leans towards the mode, so means are off if the posterior is skewed. `"diagonal"`
    gives the conditional spread, not the marginal one ($1/\Lambda_{ii}$ on a Gaussian of precision $\Lambda$). C needs
    many thousands of steps to settle, because it moves ten times more slowly than the mean.

    Args:
        covariance: "full", "diagonal", or "ard": diagonal, with the prior $N(0, \ell_i^2)$ of each coordinate optimised
            away, $\ell_i^2 = C_{ii}^2 + \mu_i^2$; it replaces the target's own prior, so the target must be a
            `Posterior`, which keeps prior and likelihood apart.
        step_size: the first rho, divided by the number of rows where the target has data.
        stage: steps between two cuts of rho by 0.95.
        scale: C starts as this times the identity.

    Raises:
        ValueError: if the covariance is none of the three.
    """

    covariance: Literal["full", "diagonal", "ard"] = "full"
    step_size: float = 0.05
    stage: int = 5000
    scale: float = 0.1

    def __check_init__(self):
        if self.covariance not in ("full", "diagonal", "ard"):
            raise ValueError(f"covariance must be 'full', 'diagonal' or 'ard'; got {self.covariance!r}.")

    def init(self, target, particles, *, num_steps, key):
        mean = jnp.mean(particles, axis=0)
        scale = jnp.full_like(mean, self.scale)
        factor = jnp.diag(scale) if self.covariance == "full" else scale
        return DSVIState(mean, factor, len(particles))

    def step(self, target, state, batch, *, time, key):
        z = normal(key, state.mean.shape, state.mean.dtype)
        mean_gradient, factor_gradient = self.gradients(target, state, batch, z)
        rate = self.step_size / target.num_rows * 0.95 ** (time.step // self.stage).astype(float)
        rate = rate.astype(z.dtype)
        mean = state.mean + rate * mean_gradient
        factor = state.factor + 0.1 * rate * factor_gradient
        if factor.ndim == 1:
            factor = jnp.maximum(factor, _SMALLEST)
        else:
            factor = factor + jnp.diag(jnp.maximum(_SMALLEST - jnp.diag(factor), 0.0))
        finite = jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(factor))
        mean, factor = jnp.where(finite, mean, state.mean), jnp.where(finite, factor, state.factor)
        return DSVIState(mean, factor, state.num_draws)

    def gradients(self, target: FlatTarget, state: DSVIState, batch: Batch | None, z: Point) -> tuple[Point, Array]:
        """Return the directions of the mean and of C for one draw z: the gradient of `elbo`."""
        mean, factor = state.mean, state.factor
        x = state.points(z)
        score = (target.likelihood_scores if self.covariance == "ard" else target.scores)(x[None], batch)[0]
        if self.covariance == "full":
            return score, jnp.tril(jnp.outer(score, z)) + jnp.diag(1 / jnp.diag(factor))
        if self.covariance == "diagonal":
            return score, score * z + 1 / factor
        prior_variance = factor**2 + mean**2
        return score - mean / prior_variance, score * z + 1 / factor - factor / prior_variance

    def elbo(self, target: FlatTarget, state: DSVIState, batch: Batch | None, z: Point) -> Scalar:
        """Return the estimate of the evidence lower bound from one draw z."""
        mean, factor = state.mean, state.factor
        x = state.points(z)
        if self.covariance == "ard":
            shrinkage = jnp.sum(jnp.log(factor**2 / (factor**2 + mean**2)))
            return target.log_likelihood(x, batch) + 0.5 * shrinkage
        diagonal = factor if factor.ndim == 1 else jnp.diag(factor)
        return target.log_density(x, batch) + jnp.sum(jnp.log(diagonal)) + 0.5 * len(mean) * (1 + jnp.log(2 * jnp.pi))

    def draws(self, target, state, *, key: PRNGKeyArray):
        return Draws(state.points(normal(key, (state.num_draws, len(state.mean)), state.mean.dtype)))
