"""Families of responses at one point: parameters, SciPy's distributions, and where to sum or to integrate."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from steinflow.models.families import FAMILIES

FORMS = {"mu": 0.3, "sigma": -0.4, "nu": 2.0, "alpha": 0.6, "kappa": 1.2, "zi": -1.0, "hu": -0.5}
TRIALS, LOGITS, THRESHOLDS = 5, np.array([0.0, 0.3, -1.0, 0.5]), np.array([-1.0, 0.2, 3.0])
_P, _ZI, _HU = (special.expit(FORMS[name]) for name in ("mu", "zi", "hu"))
_MEAN, _SIGMA, _NU, _ALPHA, _KAPPA = (np.exp(FORMS[name]) for name in ("mu", "sigma", "nu", "alpha", "kappa"))
_POISSON, _NEGBINOMIAL = stats.poisson(_MEAN), stats.nbinom(_ALPHA, _ALPHA / (_ALPHA + _MEAN))


def _inflated(base):
    return lambda y: np.where(y == 0, np.log(_ZI + (1 - _ZI) * base.pmf(0)), np.log1p(-_ZI) + base.logpmf(y))


def _hurdle(base):
    return lambda y: np.where(y == 0, np.log(_HU), np.log1p(-_HU) - np.log1p(-base.pmf(0)) + base.logpmf(y))


def _classes(probabilities):
    return lambda y: np.log(probabilities)[y]


# Log densities of families of numbers, and of classes, as SciPy has them.
NUMBERS = {
    "gaussian": stats.norm(FORMS["mu"], _SIGMA).logpdf,
    "t": stats.t(_NU, FORMS["mu"], _SIGMA).logpdf,
    "lognormal": stats.lognorm(_SIGMA, scale=_MEAN).logpdf,
    "gamma": stats.gamma(_ALPHA, scale=_MEAN / _ALPHA).logpdf,
    "weibull": stats.weibull_min(_ALPHA, scale=_MEAN / special.gamma(1 + 1 / _ALPHA)).logpdf,
    "exponential": stats.expon(scale=_MEAN).logpdf,
    "beta": stats.beta(_P * _KAPPA, (1 - _P) * _KAPPA).logpdf,
    "bernoulli": stats.bernoulli(_P).logpmf,
    "binomial": stats.binom(TRIALS, _P).logpmf,
    "poisson": _POISSON.logpmf,
    "negbinomial": _NEGBINOMIAL.logpmf,
    "zero_inflated_poisson": _inflated(_POISSON),
    "zero_inflated_negbinomial": _inflated(_NEGBINOMIAL),
    "hurdle_poisson": _hurdle(_POISSON),
    "hurdle_negbinomial": _hurdle(_NEGBINOMIAL),
}
CLASSES = {
    "categorical": _classes(special.softmax(LOGITS)),
    "cumulative": _classes(np.diff(special.expit(THRESHOLDS - FORMS["mu"]), prepend=0.0, append=1.0)),
}
CONTINUOUS = ("gaussian", "t", "lognormal", "gamma", "weibull", "exponential", "beta")


def values_of(name):
    """All values of a response, or so many that a sum over them is one over all."""
    line = np.linspace(-1, 1, 8001)
    return {
        "gaussian": np.sinh(5 * line),
        "t": np.sinh(14 * line),
        "beta": special.expit(30 * line),
        "bernoulli": np.arange(2.0),
        "binomial": np.arange(TRIALS + 1.0),
        **dict.fromkeys(CLASSES, np.arange(4)),
    }.get(name, np.exp(10 * line - 5) if name in CONTINUOUS else np.arange(200.0))


def total(name, values):
    """The sum over all values of a response, or the integral."""
    return np.trapezoid(values, values_of(name)) if name in CONTINUOUS else np.sum(values)


def family_of(name):
    return FAMILIES[name](4) if name in CLASSES else FAMILIES[name]()


def forms_of(name, num_rows):
    """Parameters of a family, the same in all rows."""
    forms = {form: np.full(num_rows, FORMS[form]) for form in ("mu", *family_of(name).auxiliary)}
    if name == "categorical":
        forms["mu"] = np.tile(LOGITS, (num_rows, 1))
    return forms | ({"threshold": THRESHOLDS} if name == "cumulative" else {})


def rows_of(name, y):
    return {"y": y} | ({"trials": np.full(len(y), float(TRIALS))} if name == "binomial" else {})


@functools.cache  # one compiled piece for every family, though several tests ask
def known(name):
    """What a family says at all values of a response: a dictionary by the names of its methods."""
    y, family = values_of(name), family_of(name)

    def computed(forms, rows):
        methods = ["log_density", "mean", "variance", "cdf", *(["log_survival"] if family.censored else [])]
        return {method: getattr(family, method)(forms, rows) for method in methods}

    given = forms_of(name, len(y)), rows_of(name, y)
    on_device = jax.tree.map(np.asarray, jax.jit(computed)(*jax.tree.map(jnp.asarray, given)))
    with np.errstate(all="ignore"):
        on_host = computed(*given)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-12), on_host, on_device)
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(on_host))
    return on_device


def drawn(name, number):
    """So many draws of a response."""
    forms = {form: values[None] for form, values in forms_of(name, number).items()}
    return family_of(name).sample(np.random.default_rng(0), forms, rows_of(name, np.zeros(number)))[0]
