"""Names of families, also those that they have elsewhere, and links."""

import pytest

from steinflow.models.families import FAMILIES
from steinflow.models.families.names import family_named, link_of


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("student", "t"),
        ("nbinom", "negbinomial"),
        ("negative_binomial", "negbinomial"),
        ("normal", "gaussian"),
        ("logistic", "bernoulli"),
        ("binary", "bernoulli"),
        ("ordinal", "cumulative"),
        ("multinomial", "categorical"),
    ],
)
def test_families_have_other_names_elsewhere(other, name):
    assert family_named(name) is FAMILIES[name]
    with pytest.raises(ValueError, match=f"no family '{other}'. Did you mean '{name}'"):
        family_named(other)


def test_links():
    assert link_of(None, FAMILIES["beta"]()) == "logit"
    assert link_of("probit", FAMILIES["beta"]()) == "probit"
    with pytest.raises(ValueError, match="'poisson' takes the links log, identity; got 'logit'"):
        link_of("logit", FAMILIES["poisson"]())
