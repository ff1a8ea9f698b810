"""Marginal means and contrasts against the coefficients, and against a loop over rows."""

import dataclasses

import numpy as np
import pandas
import pytest

import steinflow as sf

ROWS = 24


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "y": rng.normal(size=ROWS),
            "event": rng.integers(0, 2, ROWS),
            "kind": rng.choice(["low", "middle", "high"], ROWS),
            "x": rng.normal(5, 2, ROWS),
            "z": rng.choice(["a", "b"], ROWS),
        }
    )


def started(target):
    """A step from the prior: nothing here asks whether it is the posterior."""
    return sf.fit(target, sf.SVGD.paper(), num_particles=20, num_steps=1, key=0, progress=False)


@pytest.fixture(scope="module")
def linear(table):
    return started(sf.formula("y ~ x * z", table))


@pytest.fixture(scope="module")
def logistic(table):
    return started(sf.formula("event ~ x + z", table, family="bernoulli"))


def parameters(result):
    return {name: np.asarray(value, float).reshape(len(value)) for name, value in result.particles.items()}


def test_contrasts_of_a_linear_model_are_its_coefficients(linear, table):
    p = parameters(linear)
    slopes = p["x"] + p["x:z"] * np.mean(table["z"] == "b")
    found = sf.contrasts(linear, "x").iloc[0]
    np.testing.assert_allclose([found["mean"], found["sd"]], [slopes.mean(), slopes.std()], rtol=1e-3)
    by = sf.contrasts(linear, "x", by="z")
    assert [name.split(",")[0] for name in by.index] == ["z=a", "z=b"]
    np.testing.assert_allclose(by["mean"], [p["x"].mean(), (p["x"] + p["x:z"]).mean()], rtol=1e-3, atol=1e-4)
    steps = p["z"] + p["x:z"] * table["x"].mean()
    found = sf.contrasts(linear, "z")
    assert list(found.index) == ["b - a"]
    np.testing.assert_allclose(found["50%"].iloc[0], np.median(steps), rtol=1e-3, atol=1e-4)


def test_marginal_means_behind_a_link_are_averages_over_rows(logistic, table):
    p = parameters(logistic)
    draws = {
        level: np.mean(
            [1 / (1 + np.exp(-(p["Intercept"] + p["x"] * x + p["z"] * (level == "b")))) for x in table["x"]], axis=0
        )
        for level in "ab"
    }
    found = sf.marginal_means(logistic, "z")
    assert list(found.index) == ["a", "b"]
    for level, values in draws.items():
        np.testing.assert_allclose(found.loc[level, ["mean", "sd"]], [values.mean(), values.std()], rtol=1e-3)
    difference = sf.contrasts(logistic, "z").loc["b - a"]
    np.testing.assert_allclose(difference["mean"], np.mean(draws["b"] - draws["a"]), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_classes_have_a_row_each(table):
    result = started(sf.formula("kind ~ x + z", table, family="categorical"))
    found = sf.marginal_means(result, "z")
    assert list(found.index) == [f"{z}, {kind}" for z in "ab" for kind in ("high", "low", "middle")]
    np.testing.assert_allclose(found["mean"].iloc[:3].sum(), 1, rtol=1e-5)


def test_values_and_pairs_of_ones_own(linear):
    found = sf.contrasts(linear, "x", at=[1.0, 2.0, 4.0], pairs=True)
    assert list(found.index) == ["2 - 1", "4 - 1", "4 - 2"]
    np.testing.assert_allclose(found["mean"].iloc[2], 2 * found["mean"].iloc[0], rtol=1e-3)
    assert len(sf.marginal_means(linear, "x")) == 3


def test_bad_input(linear, line):
    with pytest.raises(ValueError, match=r"no column 'w'.*x"):
        sf.marginal_means(linear, "w")
    with pytest.raises(ValueError, match="nothing to compare"):
        sf.contrasts(linear, "z", at=["a"])
    with pytest.raises(ValueError, match="by formula"):
        sf.contrasts(line, "x")


def test_without_groups_all_effects_of_groups_are_zero(table):
    result = started(sf.formula("event ~ x + (1 | z)", table, family="bernoulli"))
    p = result.particles
    at = [np.asarray(p["Intercept"] + p["x"] * value, float) for value in (4.0, 6.0)]
    low, high = (1 / (1 + np.exp(-each)) for each in at)
    means = sf.marginal_means(result, "x", at=[4.0, 6.0], groups=False)["mean"]
    np.testing.assert_allclose(means, [low.mean(), high.mean()], rtol=1e-3)
    difference = sf.contrasts(result, "x", at=[4.0, 6.0], groups=False)["mean"]
    np.testing.assert_allclose(difference, [(high - low).mean()], rtol=1e-3, atol=1e-5)


def test_few_whole_numbers_and_codes_are_taken_one_by_one(table):
    rng = np.random.default_rng(1)
    coded = table.assign(code=rng.choice([1.5, 2.5], ROWS), dummy=rng.integers(0, 2, ROWS).astype(float))
    result = started(sf.formula("y ~ C(code) + dummy + x", coded))
    assert list(sf.contrasts(result, "code").index) == ["2.5 - 1.5"]
    assert list(sf.contrasts(result, "dummy").index) == ["1 - 0"]
    assert list(sf.marginal_means(result, "dummy").index) == ["0", "1"]


def test_rows_count_as_often_as_their_weights_say(table):
    times = 1 + np.arange(ROWS) % 3
    weighted = started(sf.formula("event ~ x + z", table.assign(times=times), family="bernoulli", weights="times"))
    repeated = dataclasses.replace(
        weighted, target=sf.formula("event ~ x + z", table.loc[np.repeat(table.index, times)], family="bernoulli")
    )
    for find in (sf.marginal_means, sf.contrasts):
        np.testing.assert_allclose(find(weighted, "z"), find(repeated, "z"), rtol=1e-3, atol=1e-5)
