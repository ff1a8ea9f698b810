"""The linear regressions: one model, written three times, for many designs. Nothing is centred or scaled for us."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy import stats
from numpyro.distributions import constraints

import steinflow as sf
from steinflow.targets.numpyro import from_numpyro


def in_numpyro(X, y, half_cauchy=None) -> sf.Target:
    """Flat coefficients; sigma flat or half-Cauchy."""
    return from_numpyro(_numpyro_regression, X, y, half_cauchy)


def _numpyro_regression(X, y, half_cauchy):
    beta = numpyro.sample("beta", dist.ImproperUniform(constraints.real_vector, (), (X.shape[1],)))
    flat = dist.ImproperUniform(constraints.positive, (), ())
    sigma = numpyro.sample("sigma", flat if half_cauchy is None else dist.HalfCauchy(half_cauchy))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def in_pymc(X, y, half_cauchy=None) -> sf.Target:
    """Flat coefficients; sigma flat or half-Cauchy."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Flat("beta", shape=X.shape[1])
        sigma = pm.HalfFlat("sigma") if half_cauchy is None else pm.HalfCauchy("sigma", half_cauchy)
        pm.Normal("y", X @ beta, sigma, observed=y)
    return sf.from_pymc(model)


def in_jax(X, y) -> sf.Target:
    """Flat coefficients, flat sigma."""

    def log_likelihood(particle, rows):
        X, y = rows
        return stats.norm.logpdf(y, X @ particle["beta"], particle["sigma"])

    constrained = {"beta": None, "sigma": constraints.positive}
    return sf.Posterior(lambda particle: jnp.zeros(()), log_likelihood, (X, y), constraints=constrained)


def blr(data) -> sf.Target:
    """Coefficients N(0, 10), sigma half-N(10), and no intercept."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=data["X"].shape[1])
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", data["X"] @ beta, sigma, observed=data["y"])
    return sf.from_pymc(model)


def kilpisjarvi(data) -> sf.Target:
    """Summer temperatures on years such as 3952, which nobody centred: intercept and slope are nearly collinear."""
    import pymc as pm

    with pm.Model() as model:
        alpha = pm.Normal("alpha", data["pmualpha"], data["psalpha"])
        beta = pm.Normal("beta", data["pmubeta"], data["psbeta"])
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", alpha + beta * data["x"], sigma, observed=data["y"])
    return sf.from_pymc(model)


def earn_height(data):
    return columns(data["height"]), data["earn"]


def log10earn_height(data):
    return columns(data["height"]), np.log10(data["earn"])


def logearn_height(data):
    return columns(data["height"]), np.log(data["earn"])


def logearn_interaction(data):
    return interaction(data["height"], data["male"]), np.log(data["earn"])


def logearn_interaction_z(data):
    height = data["height"]
    return interaction((height - height.mean()) / height.std(ddof=1), data["male"]), np.log(data["earn"])


def logearn_logheight_male(data):
    return columns(np.log(data["height"]), data["male"]), np.log(data["earn"])


def kidscore_momhs(data):
    return columns(data["mom_hs"]), data["kid_score"]


def kidscore_momiq(data):
    return columns(data["mom_iq"]), data["kid_score"]


def kidscore_interaction(data):
    return interaction(data["mom_hs"], data["mom_iq"]), data["kid_score"]


def kidscore_interaction_c(data):
    centred = (x - x.mean() for x in (data["mom_hs"], data["mom_iq"]))
    return interaction(*centred), data["kid_score"]


def kidscore_interaction_z(data):
    standardised = ((x - x.mean()) / (2 * x.std(ddof=1)) for x in (data["mom_hs"], data["mom_iq"]))
    return interaction(*standardised), data["kid_score"]


def kidscore_mom_work(data):
    return columns(*(data["mom_work"] == level for level in (2, 3, 4))), data["kid_score"]


SIZES = ("diam1", "diam2", "canopy_height", "total_height", "density")


def mesquite(data):
    return columns(*(data[name] for name in SIZES), data["group"]), data["weight"]


def logmesquite(data):
    return columns(*(np.log(data[name]) for name in SIZES), data["group"]), np.log(data["weight"])


def logmesquite_logvas(data):
    area, shape = np.log(data["diam1"] * data["diam2"]), np.log(data["diam1"] / data["diam2"])
    heights = np.log(data["total_height"]), np.log(data["density"])
    return columns(log_volume(data), area, shape, *heights, data["group"]), np.log(data["weight"])


def logmesquite_logvolume(data):
    return columns(log_volume(data)), np.log(data["weight"])


def log_volume(data):
    return np.log(data["diam1"] * data["diam2"] * data["canopy_height"])


def nes(data):
    ages = (data["age_discrete"] == group for group in (2, 3, 4))
    others = (data[name] for name in ("educ1", "gender", "income"))
    return columns(data["real_ideo"], data["race_adj"], *ages, *others), data["partyid7"]


def columns(*covariates):
    """Return a design with an intercept."""
    return np.stack([np.ones(len(covariates[0])), *covariates], axis=1)


def interaction(a, b):
    return columns(a, b, a * b)
