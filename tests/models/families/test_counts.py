"""Families of counts: zeros, large rates, and responses that they refuse."""

import jax.numpy as jnp
import numpy as np
import pytest
from responses import forms_of, rows_of
from scipy import stats

from steinflow.models.families import FAMILIES

COUNTS = [name for name in FAMILIES if "poisson" in name or "negbinomial" in name]


def draws_at(name, **changes):
    forms = {form: np.full((1, 1000), values[0]) for form, values in (forms_of(name, 1) | changes).items()}
    return FAMILIES[name]().sample(np.random.default_rng(0), forms, {})


@pytest.mark.parametrize("name", COUNTS)
def test_draws_are_whole_numbers_whatever_the_rate(name):
    for mu in (-50.0, 0.0, 60.0):
        counts = draws_at(name, mu=[mu])
        np.testing.assert_array_equal(FAMILIES[name]().check(counts, "y"), counts)


@pytest.mark.parametrize(("name", "zeros"), [("hurdle_poisson", "hu"), ("zero_inflated_poisson", "zi")])
def test_extra_zeros_have_their_probability(name, zeros):
    """Where counts are large, there are no other zeros."""
    counts = draws_at(name, mu=[5.0], **{zeros: [np.log(3.0)]})
    assert abs(np.mean(counts == 0) - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 1000)


def test_counts_above_a_hurdle_are_not_zero():
    counts = draws_at("hurdle_poisson", mu=[-9.0], hu=[-50.0])
    assert np.mean(counts == 1) > 0.99
    assert np.all(counts >= 1)


@pytest.mark.parametrize("name", ["negbinomial", "zero_inflated_negbinomial"])
def test_overdispersion_fades_where_alpha_is_large(name):
    forms, y = forms_of(name, 9) | {"alpha": np.full(9, 9.0), "zi": np.full(9, -50.0)}, np.arange(9.0)
    found = FAMILIES[name]().log_density({key: jnp.asarray(v, float) for key, v in forms.items()}, rows_of(name, y))
    np.testing.assert_allclose(found, stats.poisson(np.exp(0.3)).logpmf(y), atol=0.02)


def test_a_response_counts():
    with pytest.raises(ValueError, match=r"needs counts 0, 1, 2, ...; 'y' has 2 other values, such as -1\."):
        FAMILIES["poisson"]().check(np.array([0.0, -1.0, 2.5]), "y")


def test_the_centre_of_counts_is_positive():
    assert FAMILIES["poisson"]().center_of(np.zeros(10), {}) == 0.05
