r"""Where the uncertainty of a prediction comes from: noise, which more data would not remove, and the rest.

Numbers: $\mathrm{Var}[y] = E_\theta \mathrm{Var}[y \mid \theta] + \mathrm{Var}_\theta E[y \mid \theta]$, the aleatoric
and the epistemic part. Classes: $H(E_\theta p_\theta) = E_\theta H(p_\theta) + I(y; \theta)$, in nats, likewise
(Depeweg et al., 2018).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from steinflow.models.families import Bernoulli
from steinflow.models.supervised import PARTICLES_AT_ONCE, Supervised, as_features, mean_and_variance
from steinflow.typing import Array, Params, Weights


class Uncertainty(NamedTuple):
    """A prediction for every row.

    Attributes:
        mean: of y, or the probabilities of the classes.
        epistemic: from disagreement between the particles: a standard deviation, or a mutual information in nats.
        aleatoric: from noise, on which the particles agree: a standard deviation, or an entropy in nats.
        total: both together: the standard deviation of y, or the entropy of the mean probabilities.
    """

    mean: Array
    epistemic: Array
    aleatoric: Array
    total: Array


def uncertainty(model: Supervised, particles: Params, X: ArrayLike, *, weights: Weights | None = None) -> Uncertainty:
    """Predict every row of X and split the uncertainty into its parts.

    Args:
        model: any of `sf.models`, or what `sf.from_network` returns.
        particles: as in `result.particles`.
        X: rows as given by the user, not standardised.
        weights: as in `result.weights`.

    Example:
        ```python
        import numpy as np, steinflow as sf

        X = np.linspace(-2, 2, 100)[:, None]
        model = sf.models.NeuralNetwork(X, np.sin(X[:, 0]), hidden=(20,))
        result = sf.fit(model, num_particles=20, num_steps=200, progress=False)
        far = sf.models.uncertainty(model, result.particles, [[10.0]]).epistemic
        ```
    """
    n = len(jax.tree.leaves(particles)[0])
    weights = jnp.full(n, 1 / n) if weights is None else jnp.asarray(weights)
    return _uncertainty(model, particles, as_features(X), weights)


@eqx.filter_jit
def _uncertainty(model, particles, X, weights) -> Uncertainty:
    family = model.family

    def one(params):
        mean, variance = mean_and_variance(family, model.forms(params, model.inputs(X)))
        if family.of_classes:
            return mean, _entropy(mean, family)
        return model.raw(mean), variance * model.responses.scale**2

    means, noises = jax.lax.map(one, particles, batch_size=PARTICLES_AT_ONCE)
    mean = jnp.tensordot(weights, means, axes=1)
    noise = weights @ noises
    if family.of_classes:
        total = _entropy(mean, family)
        return Uncertainty(mean, jnp.maximum(total - noise, 0.0), noise, total)
    spread = weights @ (means - mean) ** 2
    return Uncertainty(mean, jnp.sqrt(spread), jnp.sqrt(noise), jnp.sqrt(spread + noise))


def _entropy(probabilities, family):
    if isinstance(family, Bernoulli):
        probabilities = jnp.stack([probabilities, 1 - probabilities], axis=-1)
    return -jnp.sum(jax.scipy.special.xlogy(probabilities, probabilities), axis=-1)
