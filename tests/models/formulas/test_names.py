"""Names of families, also those that they have elsewhere."""

import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError


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
def test_families_have_other_names_elsewhere(table, other, name):
    with pytest.raises(FormulaError, match=f"no family '{other}'. Did you mean '{name}'"):
        sf.formula("y ~ x", table, family=other)
