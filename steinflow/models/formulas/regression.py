"""The model that a formula describes, as functions of arrays: parameters to forms, forms to likelihoods."""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm

from steinflow.models.families import Family
from steinflow.models.families.links import in_form, to_form
from steinflow.models.formulas.predictors import Predictor
from steinflow.models.formulas.priors import Priors
from steinflow.typing import Array, Params, Scalar


class Regression(eqx.Module):
    """A family and the linear predictors of its parameters.

    Attributes:
        family: of the response.
        link: of mu.
        predictors: by parameter: mu, and auxiliary ones that have a formula.
        shift, unit: of a response that is standardised.
    """

    family: Family
    link: str = eqx.field(static=True)
    predictors: dict[str, Predictor]
    shift: Array
    unit: Array

    @property
    def constants(self) -> list[str]:
        """Auxiliary parameters that are the same in all rows."""
        return [name for name in self.family.auxiliary if name not in self.predictors]

    def forms(self, params: Params, rows) -> dict[str, Array]:
        """Return the parameters of the family for every row, in their forms."""
        forms = {"mu": to_form(self.link, self.family.form, self.predictors["mu"](params, rows["predictors"]["mu"]))}
        if self.family.num_outputs > 1:  # log-odds are those against the first class
            forms["mu"] = jnp.pad(forms["mu"].reshape(len(forms["mu"]), -1), ((0, 0), (1, 0)))
        for name, form in self.family.auxiliary.items():
            if name in self.predictors:
                forms[name] = self.predictors[name](params, rows["predictors"][name])
            else:
                forms[name] = jnp.broadcast_to(in_form(form, params[name]), forms["mu"].shape[:1])
            if name == "sigma":
                forms[name] = forms[name] - jnp.log(self.unit)
        if self.family.ordered:
            forms["threshold"] = params["threshold"]
        return forms

    def log_likelihood(self, params: Params, rows) -> Array:
        """Return the log likelihood of every row, on the scale of the table."""
        forms = self.forms(params, rows)
        values = self.family.log_density(forms, rows) - jnp.log(self.unit)
        if "is_bound" in rows:
            values = jnp.where(rows["is_bound"], self.family.log_survival(forms, rows), values)
        return rows["weight"] * values if "weight" in rows else values

    def prior_values(self, params: Params) -> dict[str, Array]:
        """Return what the priors are about, by name."""
        values = {name: params[name] for name in self.constants}
        if self.family.ordered:
            values["threshold"] = params["threshold"]
        for predictor in self.predictors.values():
            values |= predictor.prior_values(params)
        return values

    def from_prior(self, values: Params) -> dict[str, Array]:
        """Return the coordinates of what was drawn from the priors, which is what `prior_values` returns."""
        params = dict(values)
        for predictor in self.predictors.values():
            params |= predictor.from_prior(values)
        return params

    def group_names(self) -> list[str]:
        """Return the names of all group terms."""
        return [
            predictor.named(term.name)
            for predictor in self.predictors.values()
            for block in predictor.blocks
            for term in block.terms
        ]

    def to_user(self, params: Params) -> dict[str, Array]:
        """Return all parameters as users read them."""
        values = {name: params[name] for name in self.constants}
        for predictor in self.predictors.values():
            values |= predictor.to_user(params)
        return values

    def from_user(self, values: Params) -> dict[str, Array]:
        """Return the coordinates of parameters as users read them."""
        params = {name: jnp.asarray(values[name]) for name in self.constants}
        for predictor in self.predictors.values():
            params |= predictor.from_user(values)
        return params


class LogPrior(eqx.Module):
    """The log prior of a regression; effects of groups are standard normal in these coordinates.

    It is normalised, for the evidence, but for thresholds, which are in order.
    """

    regression: Regression
    priors: Priors

    def __call__(self, params: Params) -> Scalar:
        total = self.priors.log_density(self.regression.prior_values(params))
        total += sum(predictor.log_volume() for predictor in self.regression.predictors.values())
        for name in self.regression.group_names():
            total += jnp.sum(norm.logpdf(params[name]))
        return total


class LogLikelihood(eqx.Module):
    """The log likelihood of every row."""

    regression: Regression

    def __call__(self, params: Params, rows) -> Array:
        return self.regression.log_likelihood(params, rows)
