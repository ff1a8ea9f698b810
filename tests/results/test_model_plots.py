"""Plots of what a formula says: the numbers that are drawn."""

import example_tables
import matplotlib
import numpy as np
import pandas
import pytest

import steinflow as sf
from steinflow.results.curves import effect_of

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def table():
    return example_tables.mixed()


@pytest.fixture(scope="module")
def result(table):
    """A step from the prior: the plots do not ask whether it is the posterior."""
    target = sf.formula("y ~ x * z + t + (1 | g)", table)
    return sf.fit(target, sf.SVGD.paper(), num_particles=20, num_steps=1, key=0, progress=False)


def test_conditional_effects_are_means_without_groups(result):
    figure = sf.plots.conditional_effects(result)
    alone, together = figure.axes
    assert [text.get_text() for text in together.get_legend().get_texts()] == ["a", "b", "c"]
    line = alone.lines[0]
    p = {name: np.asarray(value, float) for name, value in result.particles.items()}
    usual = result.target.effect_grid(["t"]).iloc[0]
    level = "abc".index(usual["z"])
    at_level = (p["z"][:, level - 1] + usual["x"] * p["x:z"][:, level - 1]) if level else 0.0
    means = p["Intercept"] + p["x"] * usual["x"] + p["t"] * usual["t"] + at_level
    np.testing.assert_allclose(line.get_ydata()[0], np.median(means), rtol=1e-3)


def test_group_effects_are_sorted(result):
    axis = sf.plots.group_effects(result, "1|g").axes[0]
    means = axis.lines[-1].get_xdata()
    assert np.all(np.diff(means) >= 0)
    np.testing.assert_allclose(np.sort(np.mean(result.particles["1|g"], axis=0)), means, rtol=1e-5)
    with pytest.raises(ValueError, match=r"no group term '1\|h'"):
        sf.plots.group_effects(result, "1|h")


def test_predictive_checks_of_numbers_counts_and_two_values(result, table):
    assert "observed" in sf.plots.predictive_check(result).axes[0].get_legend_handles_labels()[1]
    counts = sf.formula("count ~ t", table, family="poisson")
    several = sf.fit(counts, sf.SVGD.paper(), num_particles=20, num_steps=1, key=0, progress=False)
    bars = sf.plots.predictive_check(several).axes[0].patches
    np.testing.assert_allclose([bar.get_height() ** 2 for bar in bars], np.bincount(table["count"]), rtol=1e-6)
    rows = {"sick": np.arange(60) % 3 == 0, "t": np.linspace(-1, 1, 60)}
    sick = sf.formula("sick ~ t", rows, family="bernoulli")
    two = sf.fit(sick, sf.SVGD.paper(), num_particles=20, num_steps=1, key=0, progress=False)
    predicted, happened = sf.plots.predictive_check(two).axes[0].lines[-1].get_data()
    assert np.all(np.diff(predicted) > 0)
    assert np.all((happened >= 0) & (happened <= 1))
    assert abs(np.mean(happened) - 1 / 3) < 0.1, "a third came true; the bins hold about as many rows each"


def test_other_targets_are_refused(result):
    plain = sf.fit(lambda x: -x @ x, particles=np.zeros((5, 1)), num_steps=1, progress=False)
    with pytest.raises(ValueError, match="model by formula"):
        sf.plots.conditional_effects(plain)


def test_prior_draws_beside_the_observed_data(table):
    target = sf.formula("y ~ x * z + t + (1 | g)", table)
    figure = sf.plots.prior_check(target, num_draws=20)
    assert "Prior" in figure.get_suptitle()
    new = [line for line in figure.axes[0].lines if line.get_label() != "observed"]
    assert len(new) == 20
    with pytest.raises(ValueError, match="cannot predict new data"):
        sf.plots.prior_check(sf.Density(lambda x: -(x**2).sum()))


def test_codes_have_nothing_in_between():
    rng = np.random.default_rng(0)
    table = {"code": rng.integers(1, 4, 60).astype(float), "flag": rng.integers(0, 2, 60), "g": rng.integers(0, 40, 60)}
    table["y"] = table["code"] + rng.normal(size=60)
    target = sf.formula("y ~ C(code) + flag + (1 | g)", table)
    assert target.codes == {"code", "g"}
    along = target.effect_grid(["code"])
    assert along["code"].tolist() == [1, 2, 3]
    assert set(along["g"]) <= set(table["g"])
    assert set(target.effect_grid(["flag"])["code"]) <= {1, 2, 3}  # the mean of codes would be no code
    result = sf.fit(target, sf.SVGD.paper(), num_particles=20, num_steps=1, key=0, progress=False)
    assert effect_of(result, ["code"]).levels == ("1", "2", "3")
    assert effect_of(result, ["flag"]).levels == ("0", "1")


def test_censored_data_are_checked_by_survival_curves():
    times = pandas.DataFrame({"t": [1.0, 2, 2, 3, 4, 5], "event": [1, 1, 0, 0, 1, 0], "x": [0.0, 1, 2, 0, 1, 2]})
    target = sf.formula("Surv(t, event) ~ x", times, family="weibull")
    axis = sf.plots.prior_check(target, num_draws=20).axes[0]
    *new, observed = axis.lines
    assert len(new) == 20
    known = np.array([1.0, 5 / 6, 5 / 6 * 4 / 5, 5 / 6 * 4 / 5, 5 / 6 * 4 / 5 / 2, 5 / 6 * 4 / 5 / 2])
    steps = observed.get_ydata()[np.searchsorted(observed.get_xdata(), [0.5, 1.5, 2.5, 3.5, 4.5, 5.0])]
    np.testing.assert_allclose(steps, known)
