"""Priors: what a text says, what takes the place of the usual one, what is printed."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.priors import Priors, described, lkj, parse_prior, replaced
from steinflow.targets.observations import Labels

USUAL = {"x": dist.Normal(np.zeros(3), np.ones(3)), "sigma": dist.Exponential(1.0), "cor": lkj(3, np.ones(()))}


def test_a_prior_with_bounds_bounds_the_slope(table):
    target = sf.formula("y ~ x", table, priors={"x": "HalfNormal(3)", "Intercept": "Uniform(0, 500)"})
    draws = jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 20))
    assert np.all(np.asarray(draws["x"]) > 0)
    back = jax.jit(jax.vmap(lambda p: target.constrain(target.unconstrain(p))))(draws)
    np.testing.assert_allclose(back["x"], draws["x"], rtol=1e-4)
    np.testing.assert_allclose(back["Intercept"], draws["Intercept"], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("text", ["Normal(0, 5)", "StudentT(3, 0, 2.5)", "HalfCauchy(1)", "Uniform(0, 500)", "LKJ(2)"])
def test_what_a_text_describes_is_printed_as_that_text(text):
    assert described(parse_prior(text)) == text


def test_named_arguments_and_lists():
    prior = parse_prior("Normal(loc=[0, 1], scale=2)")
    np.testing.assert_array_equal(prior.loc, [0, 1])
    assert described(prior) == "Normal([0, 1], 2)"
    assert described(prior, 1) == "Normal(1, 2)"


@pytest.mark.parametrize(
    "text", ["Normal", "Normal(0, 1", "1 + 2", "Normal(0, y)", "np.Normal(0, 1)", "Normal(0)(1)", "Normal(1, 2, 3, 4)"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(FormulaError, match=r"NumPyro distribution with numbers|does not work"):
        parse_prior(text)


def test_given_priors_take_the_place_and_the_shape_of_the_usual():
    priors = replaced(USUAL, {"x": "Normal(1, 2)", "cor": "LKJ(4)"}, Labels())
    assert list(priors) == list(USUAL)
    assert priors["x"].batch_shape == (3,)
    assert priors["cor"].dimension == 3
    assert str(priors).splitlines() == [
        "x      Normal(1, 2)  (given)",
        "sigma  Exponential(1)",
        "cor    LKJ(4)  (given)",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": "Normal(0, 1)"}, "no parameter 'y'"),
        ({"x": 3}, "must be a NumPyro distribution, or a text"),
        ({"x": "Normal([0, 1], 1)"}, r"'x' has 3 numbers of shape \(3,\)"),
        ({"sigma": "Normal(1, 1)"}, "'sigma' is positive"),
        ({"cor": "Normal(0, 1)"}, "must be an LKJ distribution"),
    ],
)
def test_priors_that_do_not_fit(given, message):
    with pytest.raises(FormulaError, match=message):
        replaced(USUAL, given, Labels())


def test_densities_add_up():
    priors = Priors({"a": dist.Normal(1.0, 2.0), "b": dist.Exponential(jnp.array([1.0, 3.0]))})
    values = {"a": jnp.asarray(0.5), "b": jnp.array([0.2, 0.4])}
    expected = stats.norm(1, 2).logpdf(0.5) + stats.expon.logpdf(0.2) + stats.expon(scale=1 / 3).logpdf(0.4)
    np.testing.assert_allclose(priors.log_density(values), expected, rtol=1e-6)
    assert {name: drawn.shape for name, drawn in priors.sample(jax.random.key(0)).items()} == {"a": (), "b": (2,)}
