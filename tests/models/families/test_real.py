"""Families of real numbers: other units, and tails."""

import jax.numpy as jnp
import numpy as np
import pytest
from responses import FORMS
from scipy import stats

from steinflow.models.families import FAMILIES, LogNormal

Y = jnp.linspace(-2.0, 2.0, 9)


@pytest.mark.parametrize("name", ["gaussian", "t"])
def test_other_units_shift_and_scale_the_distribution(name, x64):
    family, y = FAMILIES[name](), np.linspace(-2, 2, 9)
    forms = {form: jnp.full(9, FORMS[form]) for form in ("mu", *family.auxiliary)}
    in_units = forms | {"mu": 3 + 2 * forms["mu"], "sigma": forms["sigma"] + np.log(2)}
    found = family.log_density(in_units, {"y": 3 + 2 * y})
    np.testing.assert_allclose(found, family.log_density(forms, {"y": y}) - np.log(2), rtol=1e-10)


def test_deviations_are_in_units_of_sigma():
    forms = {"mu": jnp.asarray(1.0), "sigma": jnp.log(2.0)}
    np.testing.assert_allclose(FAMILIES["gaussian"]().residual(forms, {"y": Y}), (Y - 1) / 2, rtol=1e-6)
    np.testing.assert_allclose(LogNormal().residual(forms, {"y": jnp.exp(Y)}), (Y - 1) / 2, rtol=1e-5, atol=1e-6)


def test_tails_without_a_variance():
    forms = {"mu": jnp.zeros(2), "sigma": jnp.zeros(2), "nu": jnp.log(jnp.array([1.5, 5.0]))}
    np.testing.assert_allclose(FAMILIES["t"]().variance(forms, {}), [np.inf, stats.t(5).var()], rtol=1e-6)
