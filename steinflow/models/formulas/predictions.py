"""What a regression says about rows of a table: arrays of another table, means, draws and likelihoods."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.formulas.design import Arrays
from steinflow.models.formulas.predictors import Predictor
from steinflow.models.formulas.regression import Regression
from steinflow.models.formulas.response import Response
from steinflow.models.supervised import PARTICLES_AT_ONCE, generator
from steinflow.typing import Array, Batch, Params, PRNGKeyArray


def predictor_rows(predictor: Predictor, arrays: Arrays) -> dict[str, Any]:
    """Return the arrays of a table as a linear predictor wants them: columns centred and scaled."""
    means, sds = np.asarray(predictor.means, float), np.asarray(predictor.sds, float)
    return {
        "X": _floats((arrays.X - means) / sds),
        "offset": _floats(arrays.offset / np.asarray(predictor.unit, float)),
        "groups": [{"index": jnp.asarray(index), "Z": _floats(Z)} for index, Z in arrays.groups],
    }


def response_rows(regression: Regression, response: Response) -> dict[str, Any]:
    """Return the response of a table as the family wants it."""
    family = regression.family
    if family.num_classes is not None:
        return {"y": jnp.asarray(response.y.astype(int))}
    rows = {"y": _floats((response.y - np.asarray(regression.shift, float)) / np.asarray(regression.unit, float))}
    if response.trials is not None:
        rows["trials"] = _floats(response.trials)
    if response.is_bound is not None:
        rows["is_bound"] = jnp.asarray(response.is_bound)
    return rows


@eqx.filter_jit
def coordinates(regression: Regression, particles: Params) -> Params:
    """Return the user's particles in the coordinates of the regression."""
    return jax.vmap(regression.from_user)(particles)


def means(regression: Regression, params: Params, rows: Batch, key: PRNGKeyArray) -> Array:
    """Return the mean of every row under every particle; the key is for levels that the fit has not seen."""
    return _on_user_scale(regression, _forms_and_means(regression, params, rows, key)[1])


def draws(regression: Regression, params: Params, rows: Batch, key: PRNGKeyArray) -> Array:
    """Draw every row under every particle."""
    level_key, draw_key = jax.random.split(key)
    forms, _ = _forms_and_means(regression, params, rows, level_key)
    trials = {"trials": rows["trials"]} if "trials" in rows else {}
    forms, trials = jax.tree.map(lambda leaf: np.asarray(leaf, float), (forms, trials))
    return _on_user_scale(regression, regression.family.sample(generator(draw_key), forms, trials))


@eqx.filter_jit
def _forms_and_means(regression, params, rows, key):
    def one(given):
        params, key = given
        forms = regression.forms(_with_new_levels(regression, params, rows, key), rows)
        return forms, regression.family.mean(forms, rows)

    keys = jax.random.split(key, len(jax.tree.leaves(params)[0]))
    return jax.lax.map(one, (params, keys), batch_size=PARTICLES_AT_ONCE)


@eqx.filter_jit
def log_likelihoods(regression: Regression, params: Params, rows: Batch) -> Array:
    """Return the log likelihood of every row under every particle."""
    return jax.lax.map(lambda p: regression.log_likelihood(p, rows), params, batch_size=PARTICLES_AT_ONCE)


def _on_user_scale(regression, values):
    """Return a response, or its mean, in the units of the table."""
    if not regression.family.real_valued:
        return jnp.asarray(values)
    return jnp.asarray(values, regression.unit.dtype) * regression.unit + regression.shift


def _with_new_levels(regression, params, rows, key):
    """Return one particle with effects drawn for levels that the fit has not seen: one for each row at most."""
    params = dict(params)
    for name, predictor in regression.predictors.items():
        for block, data in zip(predictor.blocks, rows["predictors"][name]["groups"], strict=True):
            for term in block.terms:
                key, own = jax.random.split(key)
                known = params[predictor.named(term.name)]
                drawn = jax.random.normal(own, (len(data["index"]), *known.shape[1:]), known.dtype)
                params[predictor.named(term.name)] = jnp.concatenate([known, drawn])
    return params


def _floats(values):
    return jnp.asarray(np.asarray(values), float)
