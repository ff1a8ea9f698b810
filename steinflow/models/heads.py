r"""Heads: how the outputs of a model become the parameters of a family.

The first output is mu in its form: a mean, the logarithm of one, log-odds. Each auxiliary parameter of the family is
one of three. It is the same for all rows, and inferred: sigma as a precision, `log_gamma`, with the Gamma prior of the
model; others with those of `families.auxiliary`, in the entry `auxiliary` of a particle, as `log_alpha`, `logit_zi`,
and so on. Or it *varies* with the row, and has an output of its own. Or it is known.

Where sigma varies, an optimiser that climbs the density finds it easier to call a row noisy than to fit it, and once it
is called noisy its error counts for little: large parts of the data are never fitted. On the way rows are therefore
weighted by sigma, relative to its mean over all rows and held constant (Seitzer et al., arXiv:2203.09168, with their
beta of one half).
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.families import Family, Gaussian, StudentT, auxiliary, links
from steinflow.models.families.base import Forms
from steinflow.typing import Array, Params, PRNGKeyArray, Scalar

_NARROWEST, _WIDEST = -8.0, 5.0  # log scales of a standardised y: single precision overflows in squares of far smaller
_BEYOND = 0.1  # as much as before; at a limit without a slope, networks that have gone too far would never come back
_FAR = 80.0
_CALM = 0.25  # of the width of mu's output, a priori: a noise of sd 1 varies by less than y does


class Head(eqx.Module):
    """A family, and where its parameters come from in a model with outputs.

    Args:
        family: the distribution of y.
        varying: auxiliary parameters that have an output of their own, after that of mu.
        known: values of auxiliary parameters that are not inferred, by name.

    Raises:
        ValueError: if the family has no such parameters, or needs more than the outputs of a model, or a parameter is
            varying and known.

    Example:
        ```python
        import numpy as np, steinflow as sf

        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 1))
        head = sf.models.Head(sf.models.NegativeBinomial(), varying=("alpha",))
        model = sf.models.GeneralizedLinear(X, rng.poisson(np.exp(X[:, 0])), head)
        result = sf.fit(model, num_steps=300, key=0, progress=False)
        ```
    """

    family: Family
    varying: tuple[str, ...] = eqx.field(static=True)
    known: tuple[tuple[str, float], ...] = eqx.field(static=True)

    def __init__(self, family: Family, *, varying: tuple[str, ...] = (), known: Mapping[str, float] | None = None):
        if family.name in ("binomial", "cumulative"):
            needed = {"binomial": "trials", "cumulative": "thresholds"}[family.name]
            raise ValueError(
                f"The family {family.name!r} needs {needed} besides outputs; it is for formulas: "
                f"sf.formula(..., family={family.name!r})."
            )
        if twice := sorted({*varying} & {*(known or {})}):
            raise ValueError(f"The parameter {twice[0]!r} cannot be varying and known; leave it out of one of both.")
        unknown = [name for name in (*varying, *(known or {})) if name not in family.auxiliary]
        if unknown:
            raise ValueError(
                f"The family {family.name!r} has no parameter {unknown[0]!r}; besides mu it has "
                f"{', '.join(family.auxiliary) or 'none'}."
            )
        self.family, self.varying, self.known = family, tuple(varying), tuple(sorted((known or {}).items()))

    @classmethod
    def of(cls, family: "Family | Head") -> "Head":
        """Return the head of a family whose auxiliary parameters are the same for all rows, or this head."""
        return family if isinstance(family, Head) else cls(family)

    @property
    def num_outputs(self) -> int:
        """How many outputs a row has; with one, outputs have no axis for them."""
        return self.family.num_outputs + len(self.varying)

    @property
    def output_widths(self) -> np.ndarray:
        """How wide priors of the outputs of networks are, relative to that of mu."""
        return np.repeat([1.0, _CALM], [self.family.num_outputs, len(self.varying)])

    @property
    def noisy(self) -> bool:
        """Whether sigma is the same for all rows: a particle has the logarithm of its precision, `log_gamma`."""
        return "sigma" in self._constants

    def mu(self, outputs: Any) -> Any:
        """Return the first parameter of every row."""
        return outputs[..., 0] if self.varying else outputs

    def forms(self, outputs: Any, params: Params) -> Forms:
        """Return the parameters of the family; outputs and params are of JAX or of NumPy, both of them.

        Those of a particle may have leading axes, as outputs have.
        """
        forms = {"mu": self.mu(outputs)}
        for position, name in enumerate(self.varying, start=1):
            values = outputs[..., position]
            forms[name] = _within(values) if name == "sigma" else values
        for name, value in self.known:
            forms[name] = _in_form(self.family, name, value)
        for name in self._constants:
            value = -0.5 * params["log_gamma"] if name == "sigma" else params["auxiliary"][self._key(name)]
            forms[name] = value[..., None]  # an axis for rows
        return forms

    def climbed(self, forms: Forms, log_densities: Array) -> Array:
        """Return what optimisers climb for every row on their way: the log density, where that leads to good fits."""
        if "sigma" not in self.varying:
            return log_densities
        weights = jnp.exp(jax.lax.stop_gradient(forms["sigma"]))
        return weights / jnp.mean(weights) * log_densities

    def usual_outputs(self, y: np.ndarray) -> np.ndarray:
        """Return the outputs at which the mean is that of y: where intercepts are to be expected."""
        mu = self.family.usual_predictor(self.family.links[0], y, {})
        units = {"sigma": self.family.scale_of(y)}
        others = [_in_form(self.family, name, auxiliary.USUAL[name] * units.get(name, 1.0)) for name in self.varying]
        return np.concatenate([np.atleast_1d(mu), others])

    def with_auxiliary(self, params: Params, key: PRNGKeyArray) -> Params:
        """Return a starting particle with auxiliary parameters, but for sigma, drawn from their priors."""
        names = [name for name in self._constants if name != "sigma"]
        if not names:
            return params
        keys = jax.random.split(jax.random.fold_in(key, 1), len(names))
        drawn = {self._key(name): auxiliary.sample_prior(name, key) for name, key in zip(names, keys, strict=True)}
        return {**params, "auxiliary": drawn}

    @property
    def _constants(self) -> list[str]:
        """Auxiliary parameters that are inferred, and the same for all rows."""
        return [name for name in self.family.auxiliary if name not in {*self.varying, *dict(self.known)}]

    def _key(self, name):
        return f"{self.family.auxiliary[name]}_{name}"


class VaryingGaussian(Head):
    r"""$y \sim N(f_1, e^{2 f_2})$: a mean and a noise for every row."""

    def __init__(self):
        super().__init__(Gaussian(), varying=("sigma",))


class VaryingStudentT(Head):
    r"""$y \sim t_\nu(f_1, e^{f_2})$: a location and a scale for every row, with tails that forgive outliers.

    Args:
        df: $\nu$, the degrees of freedom; more than 2, so that the variance is finite.

    Raises:
        ValueError: if `df` is at most 2.
    """

    def __init__(self, df: float = 4.0):
        if not df > 2:
            raise ValueError(f"df, the degrees of freedom, must be more than 2; got {df}.")
        super().__init__(StudentT(), varying=("sigma",), known={"nu": df})


def log_prior_of_auxiliary(values: Params) -> Scalar:
    """Return the log density of the entry `auxiliary` of a particle."""
    return auxiliary.log_prior({key.split("_", 1)[1]: value for key, value in values.items()})


def _within(log_scales):
    """Return log scales that grow more slowly beyond the limits, and no more far beyond them."""
    limited = log_scales.clip(_NARROWEST, _WIDEST)
    return limited + _BEYOND * (log_scales - limited).clip(-_FAR, _FAR)


def _in_form(family, name, value) -> float:
    """Return a number in the form of a parameter, as a float of Python: such a one has no dtype of its own."""
    return float(links.forward(family.auxiliary[name], value))
