"""Models with a `pm.Minibatch`: the posterior of all rows, distributions of any kind, predictions, refusals."""

import equinox as eqx
import jax
import numpy as np
import pytest

import steinflow as sf

pm = pytest.importorskip("pymc")
pt = pytest.importorskip("pytensor.tensor")

pytestmark = pytest.mark.usefixtures("standard_promotion")
ROWS = 1000


def regression(X, y, total_size=None, **minibatch):
    """A regression with known noise, whose posterior is known; all rows, or minibatches of them."""
    with pm.Model() as model:
        data = pm.Data("X", X)
        X, y = pm.Minibatch(data, y, **minibatch) if minibatch else (data, y)
        mean = pm.Deterministic("mean", X @ pm.Normal("w", 0, 10, shape=3))
        pm.Normal("y", mean, 2, observed=y, total_size=total_size)
    return model


@pytest.fixture(scope="module")
def minibatched():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3)) + 1  # correlated weights
    y = X @ [1.0, -1.0, 0.5] + 2 * rng.normal(size=ROWS)
    return X, y, sf.from_pymc(regression(X, y, ROWS, batch_size=50))


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, *(pytest.param(key, marks=pytest.mark.slow) for key in (1, 2))])
def test_posterior_of_all_rows(minibatched, key):
    X, y, target = minibatched
    precision = X.T @ X / 4 + np.eye(3) / 100
    mean, sds = np.linalg.solve(precision, X.T @ y / 4), np.sqrt(np.diag(np.linalg.inv(precision)))
    result = sf.fit(target, num_particles=50, num_steps=300, key=key, progress=False)
    w = np.asarray(result.particles["w"])
    assert np.abs((w.mean(0) - mean) / sds).max() < 0.05
    np.testing.assert_allclose(w.std(0, ddof=1) / sds, 1, atol=0.05)


@pytest.mark.slow
def test_many_rows_with_the_defaults():
    """10^5 rows, from prior draws, in several keys: 1,000 batches of 500 alone would leave the mean 0.4 sds off."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100_000, 3)) + 1
    y = X @ [1.0, -1.0, 0.5] + 2 * rng.normal(size=len(X))
    target = sf.from_pymc(regression(X, y, len(X), batch_size=500))
    precision = X.T @ X / 4 + np.eye(3) / 100
    mean, sds = np.linalg.solve(precision, X.T @ y / 4), np.sqrt(np.diag(np.linalg.inv(precision)))
    for key in range(3):
        result = sf.fit(target, key=key, progress=False)
        w = np.asarray(result.particles["w"])
        assert result.verdict.level == "good", result.verdict
        assert np.abs((w.mean(0) - mean) / sds).max() < 0.05
        np.testing.assert_allclose(w.std(0) / sds, 1, atol=0.05)


def test_rows_are_data(minibatched):
    _, y, target = minibatched
    assert (target.data.num_rows, target.data.batch_size) == (ROWS, 50)
    w = {"w": np.array([0.5, 0.0, 1.0], np.float32)}
    log_density = eqx.filter_jit(target.log_density)
    values = [log_density(w, target.data.minibatch(jax.random.key(0), np.int32(step))) for step in range(ROWS // 50)]
    np.testing.assert_allclose(np.mean(values), log_density(w), rtol=1e-5)
    np.testing.assert_allclose(target.observations.observed()["y"], y, rtol=1e-5)


def test_predictions(minibatched):
    X, _, target = minibatched
    w = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])
    replayed = target.observations.predictive({"w": w}, key=jax.random.key(0))  # of all rows, deterministics too
    np.testing.assert_allclose(replayed["mean"], w @ X.T)
    residuals = replayed["y"] - replayed["mean"]
    np.testing.assert_allclose(residuals.std(1), 2, rtol=0.1)
    assert set(target.constrain({"w": w[0]})) == {"w"}
    new = target.observations.predictive({"w": w}, key=jax.random.key(0), X=np.eye(2, 3))
    np.testing.assert_allclose(new["mean"], w @ np.eye(3, 2))
    assert new["y"].shape == (2, 2)


FAMILIES = {
    "no parameter has rows": lambda eta, y, sd: pm.Poisson("y", sd, **y),
    "mixture": lambda eta, y, sd: pm.NormalMixture("y", [0.3, 0.7], pt.stack([eta, eta + sd], -1), sd, **y),
    "mixture of a truncated one": lambda eta, y, sd: pm.HurdlePoisson("y", 0.3, sd * pt.exp(eta), **y),
    "softmax": lambda eta, y, sd: pm.Categorical("y", logit_p=eta[:, None] * pt.stack([0.0, sd, 2.0]), **y),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("no parameter has rows", marks=pytest.mark.slow),
        pytest.param("mixture", marks=pytest.mark.slow),
        pytest.param("mixture of a truncated one", marks=pytest.mark.slow),
        "softmax",
    ],
)
@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")  # PyMC's own, for truncated ones
def test_distributions_that_know_the_length_of_a_batch(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=12), rng.integers(0, 3, 12).astype("float64" if name == "mixture" else "int32")

    def target(batch_size=None):
        with pm.Model() as model:
            rows = pm.Minibatch(X, y, batch_size=batch_size) if batch_size else (pt.as_tensor(X), y)
            observed = {"observed": rows[1], "total_size": 12 if batch_size else None}
            FAMILIES[name](pm.Normal("w") * rows[0], observed, pm.HalfNormal("sd"))
        return sf.from_pymc(model)

    some, everything = target(batch_size=4), target()

    @eqx.filter_jit
    def log_densities(some, params, thirds):
        estimates = jax.vmap(some.log_density, (None, 0))(params, thirds)
        return everything.log_density(params), some.log_density(params), estimates.mean()

    params = {"w": np.float32(0.4), "sd": np.float32(-0.2)}
    thirds = jax.tree.map(lambda leaf: leaf.reshape(3, 4), some.data.values)
    expected, of_all, of_thirds = log_densities(some, params, thirds)
    np.testing.assert_allclose([of_all, of_thirds], expected, rtol=1e-5)
    draws = some.observations.predictive({"w": np.zeros(2), "sd": np.ones(2)}, key=jax.random.key(0))
    assert draws["y"].shape == (2, 12)


def test_refusals(minibatched):
    X, y, _ = minibatched

    def refused(match, build):
        with pm.Model() as model:
            build(pm.Normal("w", shape=3), *pm.Minibatch(X, y, batch_size=10))
        with pytest.raises(ValueError, match=match):
            sf.from_pymc(model)

    def apart(w, rows, _):
        pm.Normal("y", rows @ w, observed=pm.Minibatch(y, batch_size=10), total_size=ROWS)

    def fixed(w, rows, y):
        pm.Normal("y", rows @ w + np.arange(10), observed=y, total_size=ROWS)

    refused("more than once.*by one call", apart)
    refused("takes 10 rows and no other number", fixed)
    refused(r"latent variables \['z'\] depend", lambda w, rows, y: pm.Normal("z", rows @ w))
    refused(r"potentials \['z'\] depend", lambda w, rows, y: pm.Potential("z", (rows @ w).sum()))
    with pytest.warns(UserWarning, match="total_size not provided"):
        refused(r"\['y'\] .* give them total_size", lambda w, rows, y: pm.Normal("y", rows @ w, observed=y))
