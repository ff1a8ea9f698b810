"""A model per group against closed forms, and against a fit of the group alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.inference.groups import _of_similar_length

METHOD = sf.SVGD(exploration=None)
LENGTHS = {"2": 3, "10": 1, "c": 8}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    by = np.array([name for name, length in LENGTHS.items() for _ in range(length)], object)
    order = rng.permutation(len(by))
    return rng.normal(2, 1, len(by)), by[order]


def normal_mean(y, batch_size=None):
    """A mean with prior N(0, 1) and unit noise."""
    return sf.Posterior(
        lambda mean: -0.5 * mean**2,
        lambda mean, rows: -0.5 * (rows - mean) ** 2,
        y,
        batch_size,
        prior=jax.random.normal,
    )


@pytest.fixture(scope="module")
def many(rows):
    y, by = rows
    return sf.fit_groups(normal_mean(y), by, METHOD, num_particles=100, num_steps=200, progress=False)


def test_every_group_has_the_posterior_of_its_own_rows(many, rows):
    y, by = rows
    assert many.names == ("10", "2", "c")
    for name, length in LENGTHS.items():
        own = y[by == name]
        np.testing.assert_allclose(many[name].mean(), own.sum() / (length + 1), atol=0.01)
        np.testing.assert_allclose(many[name].sd(), (length + 1) ** -0.5, rtol=0.02)
        assert many[name].verdict.level == "good"


def test_results_know_their_rows(many, rows):
    y, by = rows
    assert many.summary().num_rows.tolist() == [1, 3, 8]
    assert list(many.summary().to_dataframe()["rows"]) == [1, 3, 8]
    assert str(many.summary()).splitlines()[0].split()[:2] == ["rows", "x"]
    np.testing.assert_allclose(many["c"].target.data.values, y[by == "c"])
    own = many["2"].target.log_density(jnp.asarray(0.5))
    np.testing.assert_allclose(own, -0.125 - 0.5 * np.sum((y[by == "2"] - 0.5) ** 2), rtol=1e-5)


def test_groups_with_too_few_rows_are_named_and_the_others_go_on(rows):
    y, by = rows
    with pytest.warns(UserWarning, match="1 of 3 groups have fewer than 2 complete rows and are left out: '10'"):
        many = sf.fit_groups(normal_mean(y), by, METHOD, num_particles=100, num_steps=200, min_rows=2, progress=False)
    assert many.names == ("2", "c")
    with pytest.raises(ValueError, match="None of the 3 groups has 9 complete rows"):
        sf.fit_groups(normal_mean(y), by, min_rows=9)


@pytest.mark.parametrize(
    ("target", "by", "expected"),
    [
        (normal_mean(np.ones(3)), ["a", "b"], "by needs one entry for each of the 3 rows"),
        (normal_mean(np.ones(3)), ["a", None, "b"], "1 rows have no group, the first is row 1"),
        (normal_mean(np.ones(3), batch_size=2), ["a", "a", "b"], "no batch_size"),
        (sf.Density(lambda x: -(x**2)), ["a"], "it needs all rows in memory and no batch_size"),
    ],
    ids=["too few", "no group", "minibatches", "no rows"],
)
def test_what_has_no_groups(target, by, expected):
    with pytest.raises(ValueError, match=expected):
        sf.fit_groups(target, by)


def test_a_long_group_does_not_fill_up_short_ones():
    assert _of_similar_length(np.array([5, 256, 100])) == [[1, 2, 0]]
    assert _of_similar_length(np.array([5, 4000, 1000, 300, 90, 999])) == [[1, 2], [5, 3], [4, 0]]


def table_with_gaps():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=60), "g": np.repeat(["a", "b", "c"], 20), "kind": np.tile(["k", "l"], 30)}
    table["y"] = 1 + 2 * table["x"] + rng.normal(size=60)
    table["x"][[3, 25]] = np.nan
    table["x"][40:] = np.nan
    return table


def test_a_formula_that_dropped_rows_still_knows_which_group_each_row_is_of():
    table = table_with_gaps()
    with pytest.warns(UserWarning, match="Dropped 22"):
        target = sf.formula("y ~ x + kind", table)
    by = target.by_row(table["g"], "by")
    assert by.tolist() == ["a"] * 19 + ["b"] * 19
    own = target.selected(np.flatnonzero(by == "b"))
    assert own.data.num_rows == 19
    assert own.priors is target.priors
    np.testing.assert_allclose(own.observations.observed()["y"], np.delete(table["y"][20:40], 5), rtol=1e-6)
    assert own.observations.labels().coords["row"] == [k for k in range(20, 40) if k != 25]


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 1])
def test_a_formula_of_a_group_is_that_of_a_fit_alone(key):
    table = table_with_gaps()
    with pytest.warns(UserWarning, match="Dropped 22"):
        target = sf.formula("y ~ x + kind", table)
    with pytest.warns(UserWarning, match="1 of 3 groups have no complete rows and are left out: 'c'"):
        many = sf.fit_groups(target, table["g"], key=key, progress=False)
    assert many.names == ("a", "b")
    assert set(many.levels) == {"good"}
    alone = sf.fit(many["b"].target, key=7 + key, progress=False)
    for name, sd in alone.sd().items():
        np.testing.assert_allclose((many["b"].mean()[name] - alone.mean()[name]) / sd, 0, atol=0.03)
        # Each sd is known to 0.01: over six keys and four parameters the ratios scatter by 0.016 about 1.006.
        np.testing.assert_allclose(many["b"].sd()[name] / sd, 1, atol=0.06)
    assert many["b"].predictive({"x": [0.5], "kind": ["k"]})["y"].shape == (100, 1)


@pytest.mark.slow
def test_groups_of_very_different_lengths_are_right_too():
    rng = np.random.default_rng(1)
    lengths = [1500, 4, 700, 30]
    by, y = np.repeat(np.arange(4), lengths), rng.normal(1, 1, sum(lengths))
    many = sf.fit_groups(normal_mean(y), by, METHOD, num_particles=100, num_steps=200, progress=False)
    for k, length in enumerate(lengths):
        np.testing.assert_allclose(many[k].mean() - y[by == k].sum() / (length + 1), 0, atol=0.02 * length**-0.5)
        np.testing.assert_allclose(many[k].sd(), (length + 1) ** -0.5, rtol=0.02)
