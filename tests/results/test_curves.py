"""Effects of predictors as numbers."""

from types import SimpleNamespace

import example_tables
import jax
import numpy as np
import pytest

import steinflow as sf
from steinflow.results.curves import effect_of, formula_of, shortened

WEIGHTS = np.full(4, 0.25)


def result_of(formula, **options):
    """Four draws from the prior: what is drawn is the same function of them as of a posterior."""
    target = sf.formula(formula, example_tables.mixed(), **options)
    particles = jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 4))
    return SimpleNamespace(target=target, particles=particles, probabilities=WEIGHTS)


def test_the_effect_of_a_number_on_the_mean():
    result = result_of("y ~ x + t")
    effect = effect_of(result, ["x"])
    assert (effect.names, effect.levels, effect.response, effect.of_classes) == (("x",), None, "y", False)
    [curve] = effect.curves
    p = {name: np.asarray(value, float) for name, value in result.particles.items()}
    table = example_tables.mixed()
    np.testing.assert_allclose(curve.x[[0, -1]], [table["x"].min(), table["x"].max()])
    means = p["Intercept"] + curve.x[:, None] * p["x"] + table["t"].mean() * p["t"]
    np.testing.assert_allclose(curve.low, means.min(axis=1), rtol=1e-4)  # the 5% of four draws is the lowest
    np.testing.assert_allclose(curve.high, means.max(axis=1), rtol=1e-4)
    assert np.all((curve.low <= curve.middle) & (curve.middle <= curve.high))


def test_two_that_interact_and_levels():
    effect = effect_of(result_of("y ~ x * z"), ["z", "x"])
    assert effect.names == ("x", "z")  # numbers along the axis
    assert [curve.label for curve in effect.curves] == ["a", "b", "c"]
    alone = effect_of(result_of("y ~ z"), ["z"])
    assert alone.levels == ("a", "b", "c")
    np.testing.assert_array_equal(alone.curves[0].x, [0, 1, 2])


def test_a_curve_for_every_class():
    effect = effect_of(result_of("grade ~ t", family="cumulative"), ["t"])
    assert effect.of_classes
    assert effect.response == "P(grade)"
    assert [curve.label for curve in effect.curves] == ["1", "2", "3", "4"]


def test_only_formulas_have_effects():
    with pytest.raises(ValueError, match=r"plot needs .* a model by formula"):
        formula_of(SimpleNamespace(target=sf.Density(lambda x: -(x**2))), "plot")


def test_values_for_a_legend():
    assert [shortened(value) for value in (1.23456, 2, "a")] == ["1.23", "2", "a"]
