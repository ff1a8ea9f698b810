"""The usual priors: those of the table in the module's docstring."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special

import steinflow as sf
from steinflow.models.formulas.priors import described


def test_priors_are_scaled_to_the_data_printed_and_replaceable(table):
    target = sf.formula("y ~ x", table, priors={"x": "Normal(1, 5)", "sigma": dist.HalfNormal(2.0)})
    sd = table["y"].std(ddof=0)
    np.testing.assert_allclose(target.priors["Intercept"].scale, 2.5 * sd, rtol=1e-5)
    assert float(target.priors["x"].loc) == 1
    text = str(target.priors)
    assert "Normal(1, 5)  (given)" in text
    assert "HalfNormal(2)  (given)" in text
    plain = sf.formula("y ~ x", table)
    np.testing.assert_allclose(plain.priors["x"].scale, 2.5 * sd / table["x"].std(ddof=0), rtol=1e-5)


def test_the_table_of_the_docstring(table):
    """With s the sd of the response, as it is rounded when it is printed."""
    priors = sf.formula("y ~ x + z + (1 + x | g)", table).priors
    s, sd = np.std(table["y"]), np.std(table["x"])
    shares = [np.std(table["z"] == level) for level in ("b", "c")]
    np.testing.assert_allclose(priors["Intercept"].loc, np.mean(table["y"]), rtol=1e-5)
    np.testing.assert_allclose(priors["Intercept"].scale, 2.5 * s, rtol=1e-5)
    np.testing.assert_allclose(priors["x"].scale, 2.5 * s / sd, rtol=1e-5)
    np.testing.assert_allclose(priors["z"].scale, 2.5 * s / np.array(shares), rtol=1e-5)
    assert described(priors["1|g_sigma"]) == f"HalfNormal({2.5 * s:.4g})"
    assert described(priors["x|g_sigma"]) == f"HalfNormal({2.5 * s / sd:.4g})"
    assert described(priors["1+x|g_cor"]) == "LKJ(1)"
    assert described(priors["sigma"]) == f"Exponential({1 / s:.4g})"


@pytest.mark.parametrize(
    ("formula", "family", "name", "expected"),
    [
        ("positive ~ x", "gamma", "alpha", "HalfCauchy(1)"),
        ("share ~ x", "beta", "kappa", "HalfCauchy(1)"),
        ("y ~ x", "t", "nu", "Gamma(2, 0.1)"),
        ("count ~ x", "zero_inflated_poisson", "zi", "Beta(1, 1)"),
        ("count ~ x", "hurdle_poisson", "hu", "Beta(1, 1)"),
        (["y ~ x", "sigma ~ 1"], "gaussian", "sigma_Intercept", None),
    ],
)
def test_auxiliary_parameters(table, formula, family, name, expected):
    """With a formula: normal around the usual value, on its link."""
    expected = expected or f"Normal({np.log(np.std(table['y'])):.4g}, 1)"
    assert described(sf.formula(formula, table, family=family).priors[name]) == expected


def test_intercepts_and_thresholds_are_where_the_response_is(table):
    offset = sf.formula("count ~ x + offset(log(trials))", table, family="poisson").priors["Intercept"]
    np.testing.assert_allclose(offset.loc, np.log(np.mean(table["count"]) + 0.5 / 60) - np.log(9), rtol=1e-4)
    np.testing.assert_allclose(offset.scale, 2.5)
    thresholds = sf.formula("grade ~ x", table, family="cumulative").priors["threshold"]
    below = [(np.sum(table["grade"] <= level) + 0.5 * level) / 62 for level in (1, 2, 3)]
    np.testing.assert_allclose(thresholds.loc, special.logit(below), rtol=1e-4)
