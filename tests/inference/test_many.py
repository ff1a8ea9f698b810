"""Many posteriors at once: each is right by itself, and none disturbs the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf

NUMBER, ROWS, DIM, BROKEN = 7, 30, 2, 4


def regression(data):
    """Linear regression with unit noise and a standard normal prior; rows have weights."""
    X, y, weights = data
    return sf.Posterior(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, rows: -0.5 * rows[2] * (rows[1] - rows[0] @ w) ** 2,
        (X, y, weights),
        prior=lambda key: 3 * jax.random.normal(key, (DIM,)),
    )


def exact(X, y):
    """The mean and sd of the posterior."""
    covariance = np.linalg.inv(X.T @ X + np.eye(DIM))
    return covariance @ X.T @ y, np.sqrt(np.diag(covariance))


@pytest.fixture(scope="module")
def sets():
    """Data sets of different lengths, one of them with a missing value."""
    rng, found = np.random.default_rng(0), []
    for k in range(NUMBER):
        X = rng.normal(size=(ROWS - 3 * k, DIM)) * [1, 10.0**k] if k < 3 else rng.normal(size=(ROWS - 3 * k, DIM))
        found.append((X, X @ rng.normal(size=DIM) + rng.normal(size=len(X))))
    found[BROKEN][1][2] = np.nan
    return found


@pytest.fixture(scope="module")
def many(sets):
    (X, y), weights = sf.data.padded(sets)
    return sf.fit_many(regression, (X, y, weights), names=[f"set {k}" for k in range(NUMBER)], key=3, progress=False)


@pytest.mark.parametrize("k", sorted(set(range(NUMBER)) - {BROKEN}))
def test_mean_and_spread_of_each_are_exact_at_scales_and_lengths_of_their_own(many, sets, k):
    mean, sd = exact(*sets[k])
    np.testing.assert_allclose((many[k].mean() - mean) / sd, 0, atol=0.02)
    np.testing.assert_allclose(many[k].sd() / sd, 1, atol=0.02)
    assert many[k].verdict.level == "good"
    assert many[k].outcome is sf.Outcome.SETTLED


@pytest.mark.slow
def test_one_that_is_not_finite_ends_alone(many):
    assert many[BROKEN].outcome is sf.Outcome.NON_FINITE
    assert "NaN in the data" in many[BROKEN].ending.message
    assert many.levels.tolist().count("bad") == 1
    assert many[f"set {BROKEN}"] is many[BROKEN]


def test_positions_on_the_way_are_kept(many, sets):
    draws = many[1].draws(1000)
    mean, sd = exact(*sets[1])
    assert len(draws) >= 1000
    np.testing.assert_allclose((np.mean(draws.particles, axis=0) - mean) / sd, 0, atol=0.15)
    np.testing.assert_allclose(np.std(draws.particles, axis=0) / sd, 1, atol=0.1)


@pytest.mark.slow
def test_positions_that_would_fill_the_memory_are_not(sets, monkeypatch):
    monkeypatch.setattr("steinflow.inference.ended._KEPT_BYTES", 100)
    (X, y), weights = sf.data.padded(sets)
    assert sf.fit_many(regression, (X, y, weights), key=3, progress=False)[0].states is None


@pytest.mark.slow
def test_one_of_them_is_that_of_fit_with_its_own_key(many, sets):
    alone = sf.fit(many[1].target, key=jax.random.fold_in(jax.random.key(3), 1), progress=False)
    sd = exact(*sets[1])[1]
    np.testing.assert_allclose(np.asarray(alone.mean() - many[1].mean()) / sd, 0, atol=0.01)
    np.testing.assert_allclose(alone.sd() / many[1].sd(), 1, atol=0.01)


def test_a_function_many_priors_and_starting_clouds():
    scales = np.array([0.1, 1.0, 10.0])
    start = 1 + np.random.default_rng(0).normal(size=(3, 50, 1))

    def make(scale):
        return lambda x: -0.5 * jnp.sum((x / scale) ** 2)

    method, start = sf.SVGD(exploration=None), start * scales[:, None, None]
    many = sf.fit_many(make, scales, method, particles=start, num_steps=200, progress=False)
    np.testing.assert_allclose(many.mean()[:, 0] / scales, 0, atol=0.03)
    np.testing.assert_allclose(many.sd()[:, 0] / scales, 1, atol=0.03)


def test_other_methods_take_many_too():
    many = sf.fit_many(
        lambda mean: lambda x: -0.5 * jnp.sum((x - mean) ** 2),
        np.array([-3.0, 4.0]),
        sf.SVGD.paper(0.5),
        particles=np.random.default_rng(0).normal(size=(2, 30, 1)),
        num_steps=300,
        progress=False,
    )
    np.testing.assert_allclose(many.mean()[:, 0], [-3, 4], atol=0.1)
    assert many.outcomes == 2 * [sf.Outcome.STEP_LIMIT]


def test_ctrl_c_returns_what_there_is(monkeypatch):
    from steinflow.inference.interruption import Interruption

    monkeypatch.setattr(Interruption, "check", lambda self: setattr(self, "requested", True))
    many = sf.fit_many(
        lambda mean: lambda x: -0.5 * jnp.sum((x - mean) ** 2),
        np.array([-3.0, 4.0]),
        sf.SVGD.paper(0.5),
        particles=np.zeros((2, 30, 1)),
        num_steps=300,
        progress=False,
    )
    assert many.outcomes == 2 * [sf.Outcome.INTERRUPTED]
    assert many[0].info["num_steps"] == 0


def test_wrong_arguments():
    def make(y):
        return sf.Posterior(lambda x: -(x**2), lambda x, rows: -((rows - x) ** 2), y, batch_size=2)

    with pytest.raises(ValueError, match="all rows at every step"):
        sf.fit_many(make, np.zeros((2, 5)), particles=np.zeros((2, 30)))
    with pytest.raises(ValueError, match="pass one of them"):
        sf.fit_many(make, np.zeros((2, 5)), particles=np.zeros((2, 30)), num_particles=30)


@pytest.mark.slow
def test_a_numpyro_model_with_deterministic_sites(standard_promotion):
    import numpyro
    import numpyro.distributions as dist

    def model(y):
        mean = numpyro.sample("mean", dist.Normal(0, 10))
        numpyro.deterministic("double", 2 * mean)
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    y = np.random.default_rng(0).normal(size=(3, 20)) + np.array([[0.0], [3.0], [-5.0]])
    many = sf.fit_many(lambda y: sf.from_numpyro(model, y), y, progress=False)
    np.testing.assert_allclose(many.mean()["mean"], y.sum(axis=1) / 20.01, atol=0.01)
    np.testing.assert_allclose(many.sd()["double"], 2 / 20.01**0.5, rtol=0.02)
    assert many[0].to_arviz()["log_likelihood"]["y"].shape == (1, 100, 20)
