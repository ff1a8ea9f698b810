"""Parameters of families besides mu, where they are the same for all rows: their usual values and priors.

| parameter | prior |
|---|---|
| alpha, kappa | HalfCauchy(1) |
| nu | Gamma(2, 0.1) |
| zi, hu | Beta(1, 1) |

They are held in their forms, and the Jacobian is in the density: half-Cauchy, Gamma and uniform become a hyperbolic
secant, a log-gamma and a logistic distribution. Sigma has a prior in every model of its own.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from steinflow.typing import Array, PRNGKeyArray, Scalar

USUAL = {"sigma": 1.0, "alpha": 1.0, "kappa": 1.0, "nu": 10.0, "zi": 0.5, "hu": 0.5}
_NU_RATE = 0.1


def log_prior(forms: Mapping[str, Array]) -> Scalar:
    """Return the log density of these parameters in their forms, up to a constant."""
    return sum((_log_density(name, x) for name, x in forms.items()), start=jnp.zeros(()))


def sample_prior(name: str, key: PRNGKeyArray) -> Scalar:
    """Draw a parameter from its prior, in its form."""
    match name:
        case "nu":  # a Gamma variable of shape 2 is the sum of two exponentials: loggamma takes seconds to compile
            return jnp.log(jnp.sum(jax.random.exponential(key, (2,)))) - jnp.log(_NU_RATE)
        case "zi" | "hu":
            return jax.random.logistic(key)
    return jnp.log(jnp.tan(0.5 * jnp.pi * jax.random.uniform(key, minval=1e-6)))


def _log_density(name, x):
    match name:
        case "nu":
            return 2 * x - _NU_RATE * jnp.exp(x)
        case "zi" | "hu":
            return jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)
    return x - jnp.logaddexp(2 * x, 0.0)
