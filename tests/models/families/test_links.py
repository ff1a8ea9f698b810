"""Links and forms: forth and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from steinflow.models.families import FAMILIES
from steinflow.models.families.links import forward, in_form, to_form

FROM_FORM = {"identity": lambda x: x, "log": np.exp, "logit": special.expit}
PAIRS = sorted({(kind.form, link) for kind in FAMILIES.values() for link in kind.links})
MEANS = np.array([1e-4, 0.2, 0.5, 0.9])  # which every form allows


@pytest.mark.parametrize(("form", "link"), PAIRS)
def test_links_go_forth_and_back(form, link):
    found = to_form(link, form, jnp.asarray(forward(link, MEANS), float))
    np.testing.assert_allclose(FROM_FORM[form](np.asarray(found, float)), MEANS, rtol=1e-3)


@pytest.mark.parametrize("form", FROM_FORM)
def test_values_come_into_their_form_and_back(form):
    np.testing.assert_allclose(FROM_FORM[form](np.asarray(in_form(form, jnp.asarray(MEANS, float)))), MEANS, rtol=1e-5)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_far_predictors_have_finite_log_odds_and_slopes(link):
    for predictor in (-12.0, 4.0):
        value, slope = jax.value_and_grad(lambda x: to_form(link, "logit", x))(predictor)
        assert np.isfinite(value)
        assert 0 < slope < np.inf


def test_links_that_do_not_suit_the_form():
    with pytest.raises(ValueError, match="'log' cannot have the link 'probit'"):
        to_form("probit", "log", jnp.zeros(1))
