r"""Generalised linear models: linear, logistic (two or more classes) and Poisson regression, or any other family.

$f(x) = w^\top x$, $w \sim N(0, I/\alpha)$, $\alpha \sim \mathrm{Gamma}(a, b)$ with rate b; the particle is
$(w, \log\alpha)$, and for a family with noise $(w, \log\alpha, \log\gamma)$. With two classes this is the paper's
Bayesian logistic regression (a = 1, b = 0.01).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from steinflow.devices.arrays import as_array
from steinflow.models.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from steinflow.models.heads import Head, log_prior_of_auxiliary
from steinflow.models.supervised import Supervised, log_gamma_prior, sample_log_gamma
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar


class _Linear(eqx.Module):
    """Outputs Xw, with a constant feature for the intercept."""

    intercept: bool

    def __call__(self, params, X):
        return (_with_constant(X) if self.intercept else X) @ params["w"]


def _with_constant(X):
    return jnp.concatenate([X, jnp.ones((len(X), 1), X.dtype)], axis=1)


class _Prior(eqx.Module):
    """The hierarchical prior of the weights, that of the noise precision, and maybe one for the intercepts alone."""

    shape: float
    rate: Array
    noise_shape: float
    noise_rate: Array
    intercepts: tuple[Array, Array] | None

    def __call__(self, params):
        w, log_alpha = params["w"], params["log_alpha"]
        value = jnp.zeros((), w.dtype)
        if self.intercepts is not None:
            center, scale = self.intercepts
            value -= 0.5 * jnp.sum(((w[-1] - center) / scale) ** 2)
            w = w[:-1]
        value += 0.5 * w.size * log_alpha - 0.5 * jnp.exp(log_alpha) * jnp.sum(w**2)
        value += log_gamma_prior(log_alpha, shape=self.shape, rate=self.rate)
        if "log_gamma" in params:
            value += log_gamma_prior(params["log_gamma"], shape=self.noise_shape, rate=self.noise_rate)
        if "auxiliary" in params:
            value += log_prior_of_auxiliary(params["auxiliary"])
        return value


class GeneralizedLinear(Supervised):
    """A generalised linear model of any family.

    The particle is a dict: `w` (features, and the intercept last; with K outputs a second axis), `log_alpha`, and for
    families with noise `log_gamma`. Other parameters of the family are in the entry `auxiliary`, as `log_nu` or
    `logit_zi`.

    Args:
        X: one row per example.
        y: one entry per row.
        family: any of `sf.models`, such as `Gaussian()`, `Categorical(K)` or `NegativeBinomial()`, or your own; or a
            `Head`, such as `VaryingGaussian()`, which says what else is an output.
        batch_size: rows per step; all of them if not given.

    Other arguments:
        intercept: add a constant feature.
        intercept_prior: mean and sd of the normal prior of the intercept, or of the intercepts of all outputs. If not
            given, the intercept has the same prior as the weights, as in the paper; if it is far from zero and the
            weights are not, one alpha does not suit both.
        standardize: shift and scale the features, and a real-valued y, to mean 0 and sd 1.
        shape, rate: of the Gamma prior of alpha, the precision of the weights.
        noise_shape, noise_rate: of the Gamma prior of gamma, the precision of the noise.

    Raises:
        ValueError: if X and y do not fit together or to the family, or an intercept has a prior and is left out.
    """

    hyper: _Prior = eqx.field(kw_only=True)
    intercept: bool = eqx.field(kw_only=True)

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        family: Family | Head,
        *,
        batch_size: int | None = None,
        intercept: bool = True,
        intercept_prior: tuple[ArrayLike, ArrayLike] | None = None,
        standardize: bool = False,
        shape: float = 1.0,
        rate: float = 0.01,
        noise_shape: float = 1.0,
        noise_rate: float = 0.1,
    ):
        if intercept_prior is not None and not intercept:
            raise ValueError(
                "intercept_prior is given, but there is no intercept; leave it out, or pass intercept=True."
            )
        self.intercept = intercept
        intercepts = None
        if intercept_prior is not None:
            center, scale = (as_array(value, float) for value in intercept_prior)
            intercepts = center, scale
        # Rates are leaves, and share compiled code; shapes decide how a Gamma is drawn.
        self.hyper = _Prior(shape, as_array(rate, float), noise_shape, as_array(noise_rate, float), intercepts)
        super().__init__(
            X,
            y,
            _Linear(intercept),
            self.hyper,
            family=family,
            batch_size=batch_size,
            standardize=standardize,
        )

    @eqx.filter_jit  # a dozen small operations, each of which would be compiled by itself
    def sample_prior(self, key: PRNGKeyArray) -> Params:
        weight_key, alpha_key, gamma_key = jax.random.split(key, 3)
        prior, outputs = self.hyper, self.head.num_outputs
        log_alpha = sample_log_gamma(alpha_key, shape=prior.shape, rate=prior.rate)
        num_weights = self.data.values["X"].shape[1] + self.intercept
        shape = (num_weights,) if outputs == 1 else (num_weights, outputs)
        weights = jax.random.normal(weight_key, shape)
        w = weights * jnp.exp(-0.5 * log_alpha)
        if prior.intercepts is not None:
            center, scale = prior.intercepts
            w = w.at[-1].set(center + scale * weights[-1])
        params = {"log_alpha": log_alpha, "w": w}
        if self.head.noisy:
            params["log_gamma"] = sample_log_gamma(gamma_key, shape=prior.noise_shape, rate=prior.noise_rate)
        return self.head.with_auxiliary(params, gamma_key)


class LogisticRegression(GeneralizedLinear):
    """Bayesian logistic regression: two classes, or `num_classes` of them by a softmax.

    Args:
        X: one row per example.
        y: labels: 0 and 1, or -1 and 1; with `num_classes`, 0 .. num_classes-1.
        num_classes: more than two classes; None means two, with one weight vector.
        batch_size, intercept, standardize: as for `GeneralizedLinear`, which also takes other priors.

    Example:
        ```python
        import numpy as np, steinflow as sf

        X = np.random.default_rng(0).normal(size=(200, 3))
        model = sf.models.LogisticRegression(X, X[:, 0] > 0)
        result = sf.fit(model, num_steps=300, key=0, progress=False)
        probabilities = model.predict(result.particles, X)
        ```
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        num_classes: int | None = None,
        batch_size: int | None = None,
        intercept: bool = True,
        standardize: bool = False,
    ):
        family = Bernoulli() if num_classes is None else Categorical(num_classes)
        super().__init__(X, y, family, batch_size=batch_size, intercept=intercept, standardize=standardize)

    def laplacian(self, params: Params) -> Scalar:
        r"""Return $-\sum_i p_i (1 - p_i) |x_i|^2 - d\alpha - \frac12 \alpha |w|^2 - b\alpha$; K classes add up.

        This is the trace of the Hessian of the log density, for `sf.NPV(laplacian=model.laplacian)`.
        """
        w, alpha = params["w"], jnp.exp(params["log_alpha"])
        features = self.data.values["X"]
        features = _with_constant(features) if self.intercept else features
        p = self.family.mean({"mu": features @ w}, {})
        curvature = p * (1 - p) if p.ndim == 1 else jnp.sum(p * (1 - p), axis=1)
        likelihood = curvature @ jnp.sum(features**2, axis=1)
        return -likelihood - w.size * alpha - 0.5 * alpha * jnp.sum(w**2) - self.hyper.rate * alpha


class LinearRegression(GeneralizedLinear):
    """Bayesian linear regression with inferred noise; X and y are standardised unless told otherwise.

    Args:
        X, y: one row and one number per example.
        batch_size, intercept, standardize: as for `GeneralizedLinear`, which also takes other priors.
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        batch_size: int | None = None,
        intercept: bool = True,
        standardize: bool = True,
    ):
        super().__init__(X, y, Gaussian(), batch_size=batch_size, intercept=intercept, standardize=standardize)


class PoissonRegression(GeneralizedLinear):
    """Bayesian regression of counts with mean exp(w'x).

    Args:
        X, y: one row and one count per example.
        batch_size, intercept, standardize: as for `GeneralizedLinear`, which also takes other priors.
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        batch_size: int | None = None,
        intercept: bool = True,
        standardize: bool = False,
    ):
        super().__init__(X, y, Poisson(), batch_size=batch_size, intercept=intercept, standardize=standardize)
