"""Links, and the forms in which families take their parameters.

A family computes with numbers that neither overflow nor round: a positive parameter as its logarithm, a probability as
its log-odds. That is its form. A link says what the linear predictor is; where it is the form itself, as the log link
of a count, nothing is computed at all.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.typing import Array

Form = Literal["identity", "log", "logit"]
LinkName = Literal["identity", "log", "logit", "probit", "cloglog"]


def to_form(link: str, form: Form, predictor: Array) -> Array:
    """Return a parameter in the form of its family, given its linear predictor."""
    match form, link:
        case ("identity", "identity") | ("log", "log") | ("logit", "logit"):
            return predictor
        case "identity", "log":
            return jnp.exp(predictor)
        case "log", "identity":
            return jnp.log(predictor)
        case "logit", "probit":
            return jax.scipy.stats.norm.logcdf(predictor) - jax.scipy.stats.norm.logcdf(-predictor)
        case "logit", "cloglog":
            rate = jnp.exp(predictor)
            return rate + jnp.log(-jnp.expm1(-rate))
    raise ValueError(f"A parameter in the form {form!r} cannot have the link {link!r}.")


def in_form(form: Form, values: Array) -> Array:
    """Return the form of a parameter."""
    return {"identity": lambda x: x, "log": jnp.log, "logit": lambda p: jnp.log(p) - jnp.log1p(-p)}[form](values)


def forward(link: str, mean: np.ndarray | float) -> np.ndarray | float:
    """Return the linear predictor at which the mean has this value."""
    from scipy import special  # takes a while to import

    return {
        "identity": lambda m: m,
        "log": np.log,
        "logit": special.logit,
        "probit": special.ndtri,
        "cloglog": lambda m: np.log(-np.log1p(-m)),
    }[link](mean)
