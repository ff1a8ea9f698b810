import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from known_results import result_at

from steinflow.results.summary import Summary, number, weighted_quantiles

RNG = np.random.default_rng(0)


def test_table():
    x = np.linspace(0, 1, 101)
    particles = {"w": np.stack([x, 2 * x], 1), "b": 3 * x}
    text = str(Summary.of(particles, np.full(101, 1 / 101), ["the end"]))
    lines = text.splitlines()
    assert lines[0].split() == ["mean", "sd", "5%", "50%", "95%"]
    rows = {line.split()[0]: [float(v) for v in line.split()[1:]] for line in lines[1:4]}
    expected = np.array([np.mean(x), np.std(x), *np.quantile(x, [0.05, 0.5, 0.95], method="hazen")])
    np.testing.assert_allclose(rows["w[1]"], 2 * expected, rtol=1e-3)
    np.testing.assert_allclose(rows["b"], 3 * expected, rtol=1e-3)
    assert lines[-1] == "the end"
    assert "and 30 more parameters" in str(Summary.of(np.zeros((4, 50)), np.full(4, 0.25), []))


def test_footer_of_a_result():
    particles = {"b": jnp.linspace(-1.0, 1.0, 30)}
    text = str(result_at(particles, lambda p: -0.5 * p["b"] ** 2).summary())
    for words in ["30 particles, 3 steps of SVGD", "KSD", "1 is right", "step limit: all 3 steps", "verdict: "]:
        assert words in text


def test_equal_weights_give_the_quantiles_of_numpy():
    values, levels = RNG.normal(size=(50, 2, 3)), (0.0, 0.05, 0.5, 0.95, 1.0)
    expected = np.quantile(values, levels, axis=0, method="hazen")
    np.testing.assert_allclose(weighted_quantiles(values, np.ones(50), levels), expected, rtol=1e-12)
    np.testing.assert_allclose(weighted_quantiles(values[:, 0, 0], np.ones(50), levels), expected[:, 0, 0])


def test_quantiles_follow_the_weights():
    """Each value is the quantile at the weight below it plus half of its own; between two values lines are straight."""
    values, weights = RNG.normal(size=20), RNG.uniform(1, 4, 20)
    levels = [
        (weights[values < value].sum() + weight / 2) / weights.sum()
        for value, weight in zip(values, weights, strict=True)
    ]
    np.testing.assert_allclose(weighted_quantiles(values, weights, levels), values, rtol=1e-9)
    first, second = np.argsort(values)[7:9]
    middle = weighted_quantiles(values, weights, [(levels[first] + levels[second]) / 2])
    np.testing.assert_allclose(middle, (values[first] + values[second]) / 2, rtol=1e-9)


def test_values_of_zero_weight_do_not_count():
    values, weights = np.array([-100.0, 0.0, 1.0, 100.0]), np.array([0.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(weighted_quantiles(values, weights, (0.05, 0.5, 0.95)), [0.0, 0.5, 1.0])


NUMBERS = {0.0: "0", 0.123456: "0.1235", -12.3456: "-12.35", 1234.5678: "1235", 123456.7: "123457", 100: "100"}
EXTREME_NUMBERS = {12345678.0: "1.235e+07", 0.0000123456: "1.235e-05", float("nan"): "nan", float("inf"): "inf"}


@pytest.mark.parametrize(("value", "text"), {**NUMBERS, **EXTREME_NUMBERS}.items())
def test_numbers(value, text):
    assert number(value) == text


def test_numbers_of_few_digits():
    values = {0.0123456: "0.0123", 12.3456: "12.3", 999.7: "1000", 12345.6: "12346", 1.2e7: "1.2e+07"}
    assert [number(value, 3) for value in values] == list(values.values())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dataframe(library):
    pytest.importorskip(library)
    particles = {"b": jnp.arange(6.0), "w": jnp.arange(12.0).reshape(6, 2), "weight": jnp.ones(6)}
    result = result_at(particles, lambda p: -0.5 * (p["b"] ** 2 + jnp.sum(p["w"] ** 2)))
    table = result.to_dataframe(library=library)
    assert type(table).__module__.startswith(library)
    assert list(table.columns) == ["b", "w[0]", "w[1]", "weight"]
    np.testing.assert_array_equal(table["w[1]"], particles["w"][:, 1])
    weights = jnp.array([0.5, 0, 0, 0, 0, 0.5])
    table = dataclasses.replace(result, weights=weights, num_chains=2).to_dataframe(library=library)
    np.testing.assert_array_equal(table["weight_"], weights)  # a parameter has the name already
    np.testing.assert_array_equal(table["chain"], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(table["draw"], [0, 1, 2, 0, 1, 2])
