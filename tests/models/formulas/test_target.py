"""Formulas as targets: the density by a naive loop, coordinates and back, predictions, priors, compiled code."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas
import polars
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.priors import described

FORMULA = "y ~ x * z + (1 + x | g) + (1 | g:h)"


@pytest.fixture(scope="module")
def target(table):
    return sf.formula(FORMULA, table, weights="weight")


@pytest.fixture(scope="module")
def particle(target):
    return target.sample_prior(jax.random.key(1))


def naive_mean(table, p):
    """The mean of every row, by a loop over rows."""
    levels, cells = [0, 1, 2, 3, 4, 5], sorted({(g, h) for g, h in zip(table["g"], table["h"], strict=True)})
    means = []
    for row in table.itertuples():
        b, c = row.z == "b", row.z == "c"
        g, cell = levels.index(row.g), cells.index((row.g, row.h))
        mean = p["Intercept"] + p["x"] * row.x + p["z"][0] * b + p["z"][1] * c
        mean += row.x * (p["x:z"][0] * b + p["x:z"][1] * c)
        means.append(mean + p["1|g"][g] + p["x|g"][g] * row.x + p["1|g:h"][cell])
    return np.array(means)


def naive_log_density(target, table, p):
    """Prior times likelihood in double precision, where effects of groups are normal given their covariance."""
    residuals = table["y"] - naive_mean(table, p)
    value = np.sum(table["weight"] * (-0.5 * (residuals / p["sigma"]) ** 2 - np.log(p["sigma"])))
    at_means = p["Intercept"] + p["x"] * table["x"].mean()
    for i, level in enumerate("bc"):
        chosen = table["z"] == level
        at_means += p["z"][i] * chosen.mean() + p["x:z"][i] * (chosen * table["x"]).mean()
    for name in ("Intercept", "x", "z", "x:z", "1|g_sigma", "x|g_sigma", "1|g:h_sigma", "sigma"):
        value += np.sum(target.priors[name].log_prob(jnp.asarray(at_means if name == "Intercept" else p[name])))
    sds, r = np.array([p["1|g_sigma"], p["x|g_sigma"]]), p["1+x|g_cor"][0]
    covariance = np.outer(sds, sds) * np.array([[1, r], [r, 1]])
    effects = np.stack([p["1|g"], p["x|g"]], axis=1)
    value += np.sum(-0.5 * np.einsum("li,ij,lj->l", effects, np.linalg.inv(covariance), effects))
    return value - 0.5 * np.sum((p["1|g:h"] / p["1|g:h_sigma"]) ** 2)


def test_the_density_is_that_of_a_loop_over_rows(target, table):
    """Differences between points with the same scales, for which all Jacobians are constants."""
    draws = [target.sample_prior(jax.random.key(key)) for key in (1, 2)]
    draws[1] |= {name: draws[0][name] for name in draws[0] if name.endswith(("sigma", "cor"))}
    log_density = jax.jit(lambda draw: target.log_density(target.unconstrain(draw)))
    values = [float(log_density(draw)) for draw in draws]
    plain = [naive_log_density(target, table, jax.tree.map(lambda v: np.asarray(v, float), draw)) for draw in draws]
    np.testing.assert_allclose(values[1] - values[0], plain[1] - plain[0], rtol=1e-4)


def test_scales_have_the_prior_that_is_printed(target):
    """The density of all that the likelihood does not see integrates to the priors, log-determinants included."""
    only_prior = sf.formula("y ~ 1 + (1 | g)", {"y": [0.0, 1.0] * 3, "g": [0, 1, 2] * 2, "w": [1e-9] * 6}, weights="w")
    draws = [only_prior.sample_prior(jax.random.key(key)) for key in (0, 1)]
    log_density = jax.jit(lambda draw: only_prior.log_density(only_prior.unconstrain(draw)))
    values = [log_density(draw) for draw in draws]

    def expected(p):
        priors = sum(only_prior.priors[n].log_prob(p[n]) + jnp.log(p[n]) for n in ("sigma", "1|g_sigma"))
        z = p["1|g"] / p["1|g_sigma"]
        return priors + only_prior.priors["Intercept"].log_prob(p["Intercept"]) - 0.5 * jnp.sum(z**2)

    np.testing.assert_allclose(values[1] - values[0], expected(draws[1]) - expected(draws[0]), rtol=1e-4)


def test_users_see_what_methods_move_and_back(target, particle):
    assert set(target.parameters) == set(particle)
    for name, value in jax.jit(lambda p: target.constrain(target.unconstrain(p)))(particle).items():
        np.testing.assert_allclose(value, particle[name], rtol=2e-4, atol=1e-4, err_msg=name)


def test_means_are_those_of_a_loop_over_rows(target, table, particle):
    one = jax.tree.map(lambda leaf: leaf[None], particle)
    expected = naive_mean(table, jax.tree.map(lambda v: np.asarray(v, float), particle))
    np.testing.assert_allclose(target.means(one)[0], expected, rtol=1e-4)
    some = table.iloc[::-7]
    np.testing.assert_allclose(target.predict(one, polars.from_pandas(some)), expected[::-7], rtol=1e-4)


def test_other_data_of_the_same_shape_share_compiled_code(table):
    targets = [sf.formula("y ~ x + (1 | g)", table.assign(x=table["x"] * k)) for k in (1.0, 2.0)]
    structures = [jax.tree.structure(target) for target in targets]
    assert structures[0] == structures[1]


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        pytest.param("grade ~ x + (1 + x | g)", "categorical", marks=pytest.mark.slow),
        ("p(yes, trials) ~ x", "binomial"),
        ("grade ~ x + (1 | g)", "cumulative"),
    ],
)
def test_other_families_go_to_coordinates_and_back_and_predict(table, formula, family):
    target = sf.formula(formula, table, family=family)
    p = jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 3))
    back = jax.jit(jax.vmap(lambda one: target.constrain(target.unconstrain(one))))(p)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), back, p)
    new = table[["x", "g", "trials"]].iloc[:4]
    expected = target.means(p)[:, :4]
    np.testing.assert_allclose(target.means(p, new), expected, rtol=1e-4, atol=1e-5)
    name = next(iter(target.observations.observed()))
    drawn = target.observations.predictive(p, new, key=jax.random.key(0))[name]
    assert drawn.shape == (3, 4)


@pytest.mark.parametrize("family", ["cumulative", "categorical"])
@pytest.mark.parametrize("kind", [int, float])
def test_classes_that_are_numbers_are_found_again(table, family, kind):
    target = sf.formula("grade ~ x", table, family=family)
    assert target.about.response.levels == ("1", "2", "3", "4")
    p = jax.tree.map(lambda leaf: leaf[None], target.sample_prior(jax.random.key(0)))
    again = table.assign(grade=table["grade"].astype(kind))
    found = target.log_likelihoods(p, target.rows(again, with_response=True))
    np.testing.assert_allclose(found, target.observations.log_likelihoods(p)["grade"], rtol=1e-5)


def test_classes_of_another_table_that_the_fit_has_not_seen(table):
    target = sf.formula("grade ~ x", table, family="cumulative")
    other = table[:3].assign(grade=[2, 9, 4])
    np.testing.assert_array_equal(target.response(other).y, [1, np.nan, 3])
    with pytest.raises(FormulaError, match="has not seen in 1 of 3 rows"):
        target.rows(other, with_response=True)


def test_a_success_need_not_occur_in_another_table(table):
    target = sf.formula("z['b'] ~ x", table, family="bernoulli")
    without = table[table["z"] != "b"]
    assert not np.any(target.rows(without, with_response=True)["y"])


def test_nested_levels_are_coded_by_term(table):
    target = sf.formula("y ~ z / h2 + x", table.assign(h2=table["h"].astype(str)))
    p = jax.tree.map(lambda leaf: leaf[None], target.sample_prior(jax.random.key(0)))
    assert {name: p[name].shape[1:] for name in ("z", "z:h2")} == {"z": (2,), "z:h2": (12,)}
    assert target.observations.labels().coords["z_dim"] == ["b", "c"]
    new = table.assign(h2=table["h"].astype(str))[5:9]
    np.testing.assert_allclose(target.means(p, new), target.means(p)[:, 5:9], rtol=1e-5)


def test_trials_may_be_a_sum(table):
    target = sf.formula("p(count, count + trials) ~ x", table, family="binomial")
    new = table[["x", "count", "trials"]][:4]
    assert target.rows(new)["trials"].tolist() == (new["count"] + new["trials"]).tolist()
    with pytest.raises(FormulaError, match="no column 'count'"):
        target.rows(new[["x", "trials"]])


def test_a_level_may_have_a_prior_of_its_own(table):
    target = sf.formula("y ~ x + z", table, priors={"z[c]": "Normal(3, 0.5)", "z": "Normal(1, 2)"})
    np.testing.assert_array_equal(target.priors["z"].loc, [1, 3])
    np.testing.assert_array_equal(target.priors["z"].scale, [2, 0.5])
    assert "Normal([1, 3], [2, 0.5])  (given)" in str(target.priors)
    classes = sf.formula("z ~ x", table, family="categorical", priors={"x[c]": dist.Normal(3.0, 1.0)})
    np.testing.assert_array_equal(classes.priors["x"].loc, [0, 3])


@pytest.mark.parametrize(
    ("given", "density"),
    [
        ("StudentT(3, 0, 2.5)", stats.t(3, 0, 2.5)),
        ("HalfStudentT(3, 2.5)", stats.t(3, 0, 2.5)),
        ("Cauchy(0, 2)", stats.cauchy(0, 2)),
        (dist.Normal(0.0, 2.0), stats.norm(0, 2)),
    ],
)
def test_half_of_a_prior_around_zero_is_one_of_a_positive_number(table, given, density):
    prior = sf.formula("y ~ x", table, priors={"sigma": given}).priors["sigma"]
    np.testing.assert_allclose(prior.log_prob(1.5), np.log(2) + density.logpdf(1.5), rtol=1e-5)
    assert described(prior).startswith("Half")
    assert prior.sample(jax.random.key(0)) > 0


def test_missing_values_may_be_a_level(table):
    gaps = table.assign(z=table["z"].where(table.index % 7 != 0))
    with pytest.warns(UserWarning, match="Missing values of 'z' are a level of their own, 'missing'"):
        target = sf.formula("y ~ x + z + (1 | g)", gaps, missing="level")
    assert target.observations.labels().coords["z_dim"] == ["b", "c", "missing"]
    p = jax.tree.map(lambda leaf: leaf[None], target.sample_prior(jax.random.key(0)))
    for rows in (slice(0, 60), slice(8, 13)):
        np.testing.assert_allclose(target.means(p, gaps[rows]), target.means(p)[:, rows], rtol=1e-5)


def test_missing_truth_values_may_be_a_level(table):
    flags = pandas.Series([True, False, None] * 20, dtype=object)
    with pytest.warns(UserWarning, match="'missing'"):
        target = sf.formula("y ~ flag", table.assign(flag=flags), missing="level")
    p = jax.tree.map(lambda leaf: leaf[None], target.sample_prior(jax.random.key(0)))
    both = target.means(p, {"flag": np.array([True, False])})
    np.testing.assert_allclose(both, target.means(p)[:, :2], rtol=1e-5)
