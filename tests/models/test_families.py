"""Families of likelihoods: densities, moments, draws and positions, all against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import steinflow as sf

LOGITS, LOG_GAMMA = np.array([0.5, -1.0, 0.0]), 0.7
SD = np.exp(-0.5 * LOG_GAMMA)
# The outputs of a row, all that its y may be (many of the numbers), and y's distribution.
FAMILIES = {
    "gaussian": (sf.models.Gaussian(), 0.3, np.linspace(-2, 2, 6), stats.norm(0.3, SD)),
    "bernoulli": (sf.models.Bernoulli(), 0.3, np.array([0, 1]), stats.bernoulli(special.expit(0.3))),
    "poisson": (sf.models.Poisson(), 0.3, np.arange(6), stats.poisson(np.exp(0.3))),
}
CLASSES = sf.models.Categorical(3)


def rows(name):
    """A family, the same outputs in all rows, and y: the user's, and encoded."""
    family, output, y, _ = FAMILIES[name]
    return family, jnp.full(len(y), output), y, family.encode(y)


@pytest.mark.parametrize("name", FAMILIES)
def test_densities_and_moments_are_those_of_scipy(name):
    family, outputs, y, encoded = rows(name)
    known = FAMILIES[name][3]
    found = family.log_density(outputs, encoded, jnp.asarray(LOG_GAMMA))
    np.testing.assert_allclose(found, known.logpdf(y) if name == "gaussian" else known.logpmf(y), rtol=1e-5)
    np.testing.assert_allclose(family.mean(outputs), known.mean(), rtol=1e-5)
    np.testing.assert_allclose(family.variance(outputs, jnp.asarray(LOG_GAMMA)), known.var(), rtol=1e-5)
    np.testing.assert_allclose(family.numbers(encoded), y, rtol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_these_moments(name):
    family, output, _, known = FAMILIES[name]
    draw = jax.jit(lambda key: family.numbers(family.sample(key, jnp.full(10_000, output), jnp.asarray(LOG_GAMMA))))
    drawn = np.asarray(draw(jax.random.key(0)), float)
    assert abs(drawn.mean() - known.mean()) < 4 * known.std() / 100
    np.testing.assert_allclose(drawn.var(), known.var(), rtol=0.06)


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_positions_are_those_in_the_distribution(name):
    """Of counts, halfway up the jump."""
    family, outputs, y, encoded = rows(name)
    known = FAMILIES[name][3]
    halfway = 0.5 * known.pmf(y) if name == "poisson" else 0.0
    found = family.forecasts(outputs, encoded, jnp.asarray(LOG_GAMMA))
    np.testing.assert_allclose(found[:, 0], known.cdf(y) - halfway, rtol=1e-5)


def test_classes_by_a_softmax():
    outputs, y = jnp.tile(jnp.asarray(LOGITS, float), (3, 1)), CLASSES.encode(np.arange(3))
    p = special.softmax(LOGITS)
    np.testing.assert_allclose(CLASSES.log_density(outputs, y, None), np.log(p), rtol=1e-5)
    for found in (CLASSES.mean(outputs), CLASSES.forecasts(outputs, y, None)):
        np.testing.assert_allclose(found, np.tile(p, (3, 1)), rtol=1e-5)
    np.testing.assert_allclose(CLASSES.variance(outputs, None)[0], p * (1 - p), rtol=1e-5)
    np.testing.assert_array_equal(CLASSES.numbers(y), np.eye(3))
    drawn = CLASSES.sample(jax.random.key(0), jnp.tile(outputs[:1], (10_000, 1)), None)
    assert np.all(np.abs(np.bincount(drawn) / 10_000 - p) < 4 * np.sqrt(p * (1 - p) / 10_000))
    assert float(CLASSES.metrics(jnp.eye(3), y)["accuracy"]) == 1


def test_two_classes_are_a_softmax_of_two():
    outputs, y = jnp.linspace(-3, 3, 7), np.array([0, 1, 1, 0, 1, 0, 0])
    two, both = sf.models.Bernoulli(), jnp.stack([jnp.zeros(7), outputs], axis=1)
    expected = sf.models.Categorical(2).log_density(both, jnp.asarray(y), None)
    np.testing.assert_allclose(two.log_density(outputs, two.encode(y), None), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two.forecasts(outputs, two.encode(y), None), jax.nn.softmax(both), rtol=1e-5)
    np.testing.assert_array_equal(two.encode(2 * y - 1), two.encode(y))


@pytest.mark.parametrize("output", [-100.0, -1.0, 0.0, 2.0, 100.0])
def test_the_slope_of_two_classes_is_finite_everywhere(output):
    two = sf.models.Bernoulli()
    slope = jax.grad(lambda f: two.log_density(f, jnp.ones(()), None))(output)
    np.testing.assert_allclose(slope, special.expit(-output), rtol=1e-5, atol=1e-30)


def test_other_units():
    shift, scale, outputs = jnp.asarray(10.0), jnp.asarray(3.0), jnp.array([1.0, 2.0])
    np.testing.assert_allclose(sf.models.Gaussian().in_units(outputs, shift, scale), [13, 16])
    np.testing.assert_array_equal(sf.models.Poisson().in_units(outputs, shift, scale), outputs)


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        (sf.models.Gaussian(), [1.0, np.nan], "missing or infinite"),
        (sf.models.Bernoulli(), [0, 1, 2], "0 and 1, or -1 and 1; got 0, 1, 2"),
        (sf.models.Bernoulli(), [-1, 0], "0 and 1, or -1 and 1"),
        (CLASSES, [0, 3], r"labels must be 0 \.\. 2; got 0, 3"),
        (CLASSES, np.arange(20), r"6, 7, \.\.\. \(20 values\)"),
        (sf.models.Poisson(), [0.5], "needs counts"),
        (sf.models.Poisson(), [-1], "needs counts"),
    ],
)
def test_what_y_may_be(family, y, message):
    with pytest.raises(ValueError, match=message):
        family.encode(np.asarray(y))


def test_one_class_is_none():
    with pytest.raises(ValueError, match="at least 2 classes"):
        sf.models.Categorical(1)


def test_usual_outputs_give_the_mean():
    y = np.array([1.0, -1, -1, -1, -1, -1, -1, -1])
    [output] = sf.models.Bernoulli().usual_outputs(y)
    assert 1 / (1 + np.exp(-output)) == pytest.approx(1.5 / 9)
    assert np.exp(sf.models.Poisson().usual_outputs(np.array([1.0, 2, 6]))) == pytest.approx(3)
    outputs = sf.models.Categorical(3).usual_outputs(np.array([0, 0, 1]))
    np.testing.assert_allclose(np.exp(outputs) / np.exp(outputs).sum(), np.array([2.5, 1.5, 0.5]) / 4.5)
    assert outputs.sum() == pytest.approx(0)
    np.testing.assert_array_equal(sf.models.VaryingGaussian().usual_outputs(y), [0, 0])
