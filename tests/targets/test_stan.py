"""Stan models: names, transforms, generated quantities and the posterior.

BridgeStan's own package loads a library that stands in for a compiled model: it is written by hand, in C.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.stan import without_rounding

bridgestan = pytest.importorskip("bridgestan")
SOURCE = Path(__file__).parents[1] / "helpers" / "stan_model.c"
ROWS, COLUMNS = np.mgrid[1:3, 1:3]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not (compiler := shutil.which("cc")) or sys.platform == "win32":
        pytest.skip("there is no C compiler for the library that stands in for a Stan model")
    path = tmp_path_factory.mktemp("stan") / "stand_in_model.so"
    version = bridgestan.__version__.split(".")  # BridgeStan warns where package and library have different ones
    defined = [f"-D{name}={part}" for name, part in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)]
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", *defined, "-o", path, SOURCE, "-lm"], check=True)
    return path


@pytest.fixture(scope="module")
def target(library):
    return sf.from_stan(library, {"x": 3.0})


@pytest.fixture(scope="module")
def result(target):
    return sf.fit(target, num_particles=40, progress=False)


@pytest.mark.slow
def test_posterior(result):
    mean, sd = result.mean(), result.sd()
    np.testing.assert_allclose([mean["mu"], mean["sigma"]], [1, 1], atol=0.15)
    np.testing.assert_allclose(sd["mu"], 0.5, rtol=0.15)
    np.testing.assert_allclose(mean["m"], ROWS + 10 * COLUMNS, atol=0.05)  # Stan's order is by columns
    np.testing.assert_allclose(result.particles["twice"], 2 * result.particles["mu"], rtol=1e-5)
    assert set(result.particles) == {"mu", "sigma", "m", "twice"}
    assert np.all(result.particles["sigma"] > 0)


def test_there_and_back_and_log_density(target):
    params = {"mu": np.float32(0.5), "sigma": np.float32(2.0), "m": np.float32(ROWS + 10 * COLUMNS)}
    point = jax.jit(target.unconstrain)(params)
    np.testing.assert_allclose(point, [0.5, np.log(2), 11, 12, 21, 22], rtol=1e-6)
    back = jax.jit(target.constrain)(point)
    for name, value in params.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-6)
    value, score = jax.jit(jax.value_and_grad(target.log_density))(point)
    np.testing.assert_allclose(value, -2 * 0.5**2 - 2 + np.log(2), rtol=1e-5)
    np.testing.assert_allclose(score, [2, -1, 0, 0, 0, 0], atol=1e-5)


def test_slopes_are_those_of_the_transforms(target):
    points = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    slopes = jax.jit(jax.vmap(jax.jacfwd(target.constrain)))(points)
    np.testing.assert_allclose(slopes["sigma"][:, 1], np.exp(points[:, 1]), rtol=1e-5)
    np.testing.assert_allclose(slopes["twice"], np.tile([2.0, 0, 0, 0, 0, 0], (3, 1)), atol=1e-5)


@pytest.mark.slow
def test_generated_quantities(target, result):
    predicted = result.predictive(key=1)
    assert set(predicted) == {"y_rep"}  # log_lik is no prediction
    mu, sigma = (np.asarray(result.particles[name]) for name in ("mu", "sigma"))
    uniform = (predicted["y_rep"] - 3 * mu) / sigma
    assert 0 < uniform.min() < 0.2 < 0.8 < uniform.max() < 1
    assert np.any(predicted["y_rep"] != result.predictive(key=2)["y_rep"])
    np.testing.assert_allclose(result.predictive(x=-5.0, key=1)["y_rep"], predicted["y_rep"] - 8 * mu, rtol=1e-3)
    np.testing.assert_array_equal(result.predictive(key=1)["y_rep"], predicted["y_rep"])  # the data are as before
    data = result.to_arviz()
    np.testing.assert_allclose(data.log_likelihood["log_lik"][0, :, 0], mu, rtol=1e-5)
    assert data.posterior_predictive["y_rep"].shape == (1, 40)
    with pytest.raises(TypeError, match=r"its data, by name"):
        target.observations.predictive(result.particles, 4.0, key=jax.random.key(0))


def test_data_in_every_form(library, tmp_path):
    (tmp_path / "data.json").write_text(json.dumps({"x": 4.0}))
    for data in ({"x": np.float64(4)}, '{"x": 4.0}', tmp_path / "data.json"):
        assert sf.from_stan(library, data).model.data == {"x": 4.0}
    with pytest.raises(RuntimeError, match="name=x"):
        sf.from_stan(library)


def test_what_stan_rejects_is_not_finite(target):
    scores, log_densities = target.model.scores_and_log_densities(
        np.array([[200.0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
    )
    assert np.isnan(log_densities[0])
    assert np.all(np.isnan(scores[0]))
    assert np.isfinite(log_densities[1])
    outside = {"mu": np.zeros(2), "sigma": np.array([1.0, -1.0]), "m": np.zeros((2, 2, 2))}
    with pytest.raises(ValueError, match=r"1 of 2 particles .* outside their constraints"):
        sf.fit(target, particles=outside, num_steps=1, progress=False)
    with pytest.raises(ValueError, match=r"\['sigma', 'm'\] are missing"):
        target.unconstrain({"mu": 1.0})


def test_constraints_that_single_precision_holds_only_nearly():
    """Stan wants them to hold to eight digits."""
    rng = np.random.default_rng(0)

    def single(values):
        return np.asarray(np.asarray(values, np.float32), float)

    simplex = without_rounding(single(rng.dirichlet(np.ones(7), size=3)))
    np.testing.assert_allclose(simplex.sum(-1), 1, rtol=1e-14)
    centred = rng.normal(size=5)
    np.testing.assert_allclose(without_rounding(single(centred - centred.mean())).sum(), 0, atol=1e-14)
    correlation = np.corrcoef(rng.normal(size=(4, 9)))
    exact = without_rounding(single(correlation + 1e-7 * np.tri(4)))
    np.testing.assert_array_equal(exact, exact.T)
    np.testing.assert_array_equal(np.diagonal(exact), 1)
    np.testing.assert_allclose(exact, correlation, atol=1e-6)
    factor = without_rounding(single(np.linalg.cholesky(correlation)))
    np.testing.assert_allclose(np.linalg.norm(factor, axis=-1), 1, rtol=1e-14)
    other = rng.normal(size=(3, 3))
    np.testing.assert_array_equal(without_rounding(other), other)
