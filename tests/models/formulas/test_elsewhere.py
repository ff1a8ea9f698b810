"""What lme4, brms and R write otherwise: a sentence that says how it is written here."""

import re

import numpy as np
import pytest

import steinflow as sf
from steinflow.models.formulas import FormulaError


@pytest.mark.parametrize(
    ("formula", "here"),
    [
        ("y ~ .", "--target y"),
        ("y ~ x + factor(g)", "C(g)"),
        ("y ~ as.factor(g)", "C(g)"),
        ("cbind(a, b) ~ x", "p(a, a + b)"),
        ("count | trials(9) ~ x", "p(count, 9)"),
        ("t | cens(status) ~ x", "censored(t, status)"),
        ("y | weights(weight) ~ x", "--weights weight"),
        ("y ~ s(x, k = 4)", "bs(x, df=5)"),
        ("y ~ poly(x, 2, raw=TRUE)", "True"),
        ("y ~ relevel(z, ref = 'b')", "C(z, Treatment('b'))"),
        ("y ~ (1 + x | p | g)", "(1 + x | g)"),
        ("bf(y ~ x, sigma ~ z)", "['y ~ x', 'sigma ~ z']"),
    ],
)
def test_what_is_written_otherwise_elsewhere(table, formula, here):
    with pytest.raises(FormulaError, match=re.escape(here)):
        sf.formula(formula, table)


def test_names_from_elsewhere_may_be_functions_of_ones_own(table):
    assert sf.formula("y ~ s(x) + {x * .5} + bs(t, df=5)", table, functions={"s": np.sin}).parameters
