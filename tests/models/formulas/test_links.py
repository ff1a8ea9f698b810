"""Links and forms: forth and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.models.formulas.links import forward, to_form


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_links_of_probabilities_go_forth_and_back(link):
    p = np.array([1e-4, 0.2, 0.5, 0.9])
    found = jax.nn.sigmoid(to_form(link, "logit", jnp.asarray(forward(link, p), float)))
    np.testing.assert_allclose(found, p, rtol=1e-3)
