"""PyMC models: the posteriors of long NUTS runs of PyMC, transforms, predictions, names, no side effects, refusals."""

import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import pytest
import references
from references import EFFECTS, ERRORS

import steinflow as sf

pm = pytest.importorskip("pymc")

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def schools():
    model = references.pymc_model("eight schools")
    target = sf.from_pymc(model)
    # The paper's method compiles in a fraction of the default's time; what comes after a run does not care.
    return model, target, sf.fit(target, sf.SVGD.paper(), num_steps=50, key=0, progress=False)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("eight schools", marks=pytest.mark.slow),
        pytest.param("logistic", marks=pytest.mark.slow),
        pytest.param("poisson", marks=pytest.mark.slow),
    ],
)
def test_defaults_agree_with_nuts(name):
    references.check(sf.from_pymc(references.pymc_model(name)), "pymc", name)


def test_arviz_groups(schools):
    _, target, result = schools
    data = result.to_arviz()
    for group in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data"):
        assert group in data
    for group, name in [("posterior", "theta"), ("posterior_predictive", "effect"), ("log_likelihood", "effect")]:
        assert data[group][name].dims == ("chain", "draw", "school")
        assert list(data[group][name].coords["school"].values) == list("ABCDEFGH")
    np.testing.assert_allclose(data["observed_data"]["effect"], EFFECTS)
    residuals = (EFFECTS - np.asarray(result.particles["theta"])) / ERRORS
    expected = -0.5 * residuals**2 - np.log(ERRORS * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(data["log_likelihood"]["effect"][0], expected, rtol=1e-3)
    one = {name: np.repeat(values[:1], 2000, 0) for name, values in result.particles.items()}
    draws = target.observations.predictive(one, key=jax.random.key(0))["effect"]
    np.testing.assert_allclose(draws.mean(0), result.particles["theta"][0], atol=1.5)
    np.testing.assert_allclose(draws.std(0), ERRORS, rtol=0.08)


@pytest.fixture(scope="module")
def mixed():
    """Every kind of transform, one that depends on another variable, and a flat prior."""
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        pm.Uniform("below", 0, sigma)
        pm.Dirichlet("shares", np.ones(3))
        pm.Beta("rate", 2, 2)
        pm.Normal("cuts", 0, 3, shape=7, transform=pm.distributions.transforms.ordered)  # one draw in 5,040 is
        flat = pm.Flat("flat")
        pm.Normal("y", flat, sigma, observed=np.arange(4.0))
    return model, sf.from_pymc(model)


def test_transforms_and_log_density_are_those_of_pymc(mixed):
    model, target = mixed
    user = {"sigma": 1.5, "below": 0.3, "shares": np.array([0.2, 0.3, 0.5]), "rate": 0.4, "flat": -1.0}
    user["cuts"] = np.arange(7.0) ** 2
    user = {name: np.asarray(value, np.float32) for name, value in user.items()}
    values = eqx.filter_jit(target.unconstrain)(user)
    back = eqx.filter_jit(target.constrain)(values)
    for name, value in user.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-5)
    point = {v.name: np.asarray(values[rv.name]) for rv, v in zip(model.free_RVs, model.value_vars, strict=True)}
    expected = model.compile_logp(mode="FAST_COMPILE")(point)
    np.testing.assert_allclose(eqx.filter_jit(target.log_density)(values), expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"'rate'.* are missing"):
        target.unconstrain({"sigma": 1.0})


def test_starts_from_the_prior(mixed):
    _, target = mixed
    sample = jax.jit(jax.vmap(target.sample_prior))
    draws = sample(jax.random.split(jax.random.key(0), 1000))
    np.testing.assert_allclose((draws["sigma"] ** 2).mean(), 4, rtol=0.15)
    np.testing.assert_allclose((draws["below"] / draws["sigma"]).mean(), 0.5, atol=0.04)
    np.testing.assert_allclose(draws["shares"].mean(0), 1 / 3, atol=0.04)
    assert 0.3 < draws["flat"].std() < 1
    assert np.all(np.diff(draws["cuts"]) > 0)
    np.testing.assert_allclose(draws["cuts"].std(), 3, rtol=0.05)
    again = sample(jax.random.split(jax.random.key(0), 1000))
    np.testing.assert_array_equal(again["sigma"], draws["sigma"])


@pytest.fixture(scope="module")
def regression():
    """A regression whose data can vary; of one of them, its prior depends."""
    with pm.Model() as model:
        X, y, sd = pm.Data("X", np.zeros((6, 2))), pm.Data("y", np.zeros(6)), pm.Data("sd", 10.0)
        mean = pm.Deterministic("mean", X @ pm.Normal("w", 0, sd, shape=2))
        pm.Normal("obs", mean, 1, observed=y, shape=mean.shape)
    return model, sf.from_pymc(model)


def test_other_data(regression):
    model, target = regression
    rng, w = np.random.default_rng(0), np.array([0.5, -1], np.float32)
    data = {"y": rng.normal(size=6).astype(np.float32), "X": rng.normal(size=(6, 2)).astype(np.float32)}
    other = target.given(data)
    with model:
        pm.set_data(data)
        expected = model.compile_logp(mode="FAST_COMPILE")({"w": w})
        pm.set_data({name: np.zeros_like(values) for name, values in data.items()})
    np.testing.assert_allclose(eqx.filter_jit(other.log_density)({"w": w}), expected, rtol=1e-5)
    np.testing.assert_allclose(other.constrain({"w": w})["mean"], data["X"] @ w, rtol=1e-5)
    np.testing.assert_array_equal(other.observations.observed()["obs"], data["y"])
    drawn = other.observations.predictive({"w": np.tile(w, (500, 1))}, key=jax.random.key(0))["obs"]
    np.testing.assert_allclose(drawn.mean(0), data["X"] @ w, atol=0.2)
    np.testing.assert_array_equal(target.observations.observed()["obs"], np.zeros(6))
    assert other.sample_prior(jax.random.key(0))["w"].shape == (2,)


def test_other_data_that_do_not_fit(regression):
    _, target = regression
    with pytest.raises(ValueError, match=r"no pm\.Data named \['z'\]"):
        target.given({"z": 1.0})
    with pytest.raises(ValueError, match=r"prior depends on the data \['sd'\].* pass particles="):
        target.given({"sd": 1.0}).sample_prior(jax.random.key(0))


@pytest.mark.slow
def test_many_posteriors(regression):
    _, target = regression
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3, 6, 2)), rng.normal(size=(3, 6))
    many = sf.fit_many(target.given, {"X": X, "y": y}, progress=False)
    for k, result in enumerate(many):
        covariance = np.linalg.inv(X[k].T @ X[k] + np.eye(2) / 100)
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((result.mean()["w"] - covariance @ X[k].T @ y[k]) / sd, 0, atol=0.02)
        np.testing.assert_allclose(result.sd()["w"] / sd, 1, atol=0.02)
        np.testing.assert_allclose(result.to_arviz()["observed_data"]["obs"], y[k], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # bambi's own, on import
def test_bambi_models():
    bambi, pandas = pytest.importorskip("bambi"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"x": rng.normal(size=20), "y": rng.normal(size=20)})
    model = bambi.Model("y ~ x", table, center_predictors=False)  # else its fit, not its model, moves the intercept
    model.build()
    target = sf.from_pymc(model.backend.model)
    assert set(target.graphs.free) == {"Intercept", "x", "sigma"}
    result = sf.fit(target, sf.SVGD.paper(), num_particles=5, num_steps=5, progress=False)
    data = result.to_arviz()
    assert data["log_likelihood"]["y"].shape == (1, 5, 20)
    predicted = model.predict(data, data=table.head(3), inplace=False)  # by bambi, from our draws
    intercept, slope = (np.asarray(result.particles[name])[:, None] for name in ("Intercept", "x"))
    expected = intercept + slope * table["x"].head(3).to_numpy()
    np.testing.assert_allclose(predicted["posterior"]["mu"][0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.slow  # it imports PyMC again
def test_no_side_effects():
    code = """
import os, jax, pymc as pm, steinflow as sf
before = jax.config.jax_enable_x64, os.environ.get("XLA_FLAGS")
with pm.Model() as model:
    pm.Normal("x")
sf.from_pymc(model)
assert (jax.config.jax_enable_x64, os.environ.get("XLA_FLAGS")) == before
assert len(jax.devices()) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_refusals():
    with pm.Model() as discrete:
        pm.Normal("y", pm.Bernoulli("z", 0.5), observed=1.0)
    with pm.Model() as empty:
        pm.Normal("y", observed=1.0)
    with pytest.raises(ValueError, match=r"\['z'\] are discrete.*Sum them out"):
        sf.from_pymc(discrete)
    with pytest.raises(ValueError, match="nothing to infer"):
        sf.from_pymc(empty)
    with pytest.raises(TypeError, match=r"takes a pymc\.Model"):
        sf.from_pymc(lambda: None)
