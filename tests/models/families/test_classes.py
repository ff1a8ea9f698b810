"""Families of classes: probabilities, draws, and responses that they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from responses import CLASSES, drawn, family_of, forms_of, known
from scipy import special

import steinflow as sf
from steinflow.models.families import Bernoulli, Binomial, Categorical


@pytest.mark.parametrize("name", CLASSES)
def test_means_are_the_probabilities_of_the_classes(name, x64):
    found = known(name)
    p = np.exp(found["log_density"])
    np.testing.assert_allclose(found["mean"], np.tile(p, (4, 1)), rtol=1e-12)
    np.testing.assert_allclose(found["variance"], np.tile(p * (1 - p), (4, 1)), rtol=1e-12)
    family, y = family_of(name), np.arange(4)
    np.testing.assert_array_equal(family.numbers(y), np.eye(4))
    assert family.calibration(np.eye(4), y)["kept"] == float(family.metrics(np.eye(4), y)["accuracy"]) == 1


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_drawn_by_their_probabilities(name, x64):
    probabilities = np.exp(known(name)["log_density"])
    shares = np.bincount(drawn(name, 20_000), minlength=4) / 20_000
    assert np.all(np.abs(shares - probabilities) < 4 * np.sqrt(probabilities * (1 - probabilities) / 20_000))


@pytest.mark.parametrize("name", CLASSES)
def test_slopes_are_finite_at_both_ends(name):
    forms, y = forms_of(name, 4), jnp.arange(4)

    def log_likelihood(mu):
        return jnp.sum(family_of(name).log_density(jax.tree.map(jnp.float32, forms | {"mu": mu}), {"y": y}))

    for far in (-30.0, 30.0):
        assert np.all(np.isfinite(jax.grad(log_likelihood)(jnp.float32(far + forms["mu"]))))


def test_centres_are_inside_whatever_the_response():
    ones, rows = np.ones(3), {"trials": np.full(3, 9.0)}
    assert Bernoulli().center_of(ones, {}) == 3.5 / 4
    assert Bernoulli().center_of(0 * ones, {}) == 0.5 / 4
    assert Binomial().center_of(9 * ones, rows) == 27.5 / 28
    assert Binomial().center_of(0 * ones, rows) == 0.5 / 28


def test_two_classes_are_a_softmax_of_two():
    log_odds, y = jnp.linspace(-3, 3, 7), np.array([0, 1, 1, 0, 1, 0, 0])
    one, both = {"mu": log_odds}, {"mu": jnp.stack([jnp.zeros(7), log_odds], axis=1)}
    two, softmax, rows = Bernoulli(), Categorical(2), {"y": y}
    np.testing.assert_allclose(two.log_density(one, rows), softmax.log_density(both, rows), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two.log_probabilities(one), softmax.log_probabilities(both), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two.forecasts(one, rows), softmax.forecasts(both, rows), rtol=1e-5)
    assert two.calibration(np.asarray(two.forecasts(one, rows)), y)["kept"] == pytest.approx(3 / 7)
    np.testing.assert_array_equal(two.check(2 * y - 1), y)


@pytest.mark.parametrize("log_odds", [-100.0, -1.0, 0.0, 2.0, 100.0])
def test_the_slope_of_two_classes_is_finite_everywhere(log_odds):
    slope = jax.grad(lambda f: Bernoulli().log_density({"mu": f}, {"y": jnp.ones(())}))(log_odds)
    np.testing.assert_allclose(slope, special.expit(-log_odds), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        (Bernoulli(), [0, 1, 2], "0 and 1, or -1 and 1; 'y' has 0, 1, 2"),
        (Bernoulli(), [-1, 0], "0 and 1, or -1 and 1"),
        (Categorical(3), [0, 3], r"needs the labels 0 \.\. 2; 'y' has 0, 3"),
        (Categorical(3), np.arange(20), r"6, 7, \.\.\. \(20 values\)"),
    ],
)
def test_labels_that_are_refused(family, y, message):
    with pytest.raises(ValueError, match=message):
        family.check(np.asarray(y))


def test_one_class_is_none():
    with pytest.raises(ValueError, match="at least 2 classes"):
        sf.models.Categorical(1)
