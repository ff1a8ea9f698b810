"""NUTS through fit: the right posterior, chains and draws where ArviZ expects them, clear refusals."""

import warnings

import german
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import gaussian

import steinflow as sf

COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])
MEAN = np.array([1.0, -1.0])


@pytest.fixture(scope="module")
def result():
    x0 = jax.random.normal(jax.random.key(0), (3, 2))
    method = sf.NUTS(num_chains=3, num_warmup=200)
    return sf.fit(gaussian(MEAN, COVARIANCE), method, particles=x0, num_steps=1000, key=1, progress=False)


def test_correlated_gaussian(result):
    np.testing.assert_allclose(result.mean(), MEAN, atol=0.12)
    np.testing.assert_allclose(np.cov(result.particles.T), COVARIANCE, atol=0.25)


def test_arviz_sees_chains_and_draws(result):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        posterior = result.to_arviz()
        table = arviz.summary(posterior, round_to="none")
    assert posterior.posterior.sizes["chain"] == 3
    assert posterior.posterior.sizes["draw"] == 1000
    assert table["r_hat"].max() < 1.02
    assert table["ess_bulk"].min() > 500


def test_the_result_holds_the_draws_that_were_made(result):
    assert len(result) == 3 * 1000
    assert result.num_chains == 3
    by_chain = np.asarray(result.particles).reshape(3, 1000, 2)
    moved = np.any(np.diff(by_chain, axis=1) != 0, axis=-1)
    assert np.mean(moved) > 0.95, "draw after draw of the same chain, none twice but for rejections"


def test_an_interrupted_run_has_as_many_draws_of_every_chain():
    def enough(history):
        return history["step"][-1] >= 4

    result = sf.fit(
        gaussian(MEAN, COVARIANCE),
        sf.NUTS(num_chains=3, num_warmup=200),
        particles=jnp.zeros((3, 2)),
        num_steps=1000,
        record_every=4,
        stop=enough,
        progress=False,
    )
    assert len(result) == 3 * 4
    assert result.to_arviz().posterior.sizes["draw"] == 4
    assert len(set(np.asarray(result.particles[:, 0]).tolist())) > 8


@pytest.mark.slow
def test_divergences_are_counted(result):
    assert result.info["num_divergent"] == 0
    narrow = sf.fit(  # a neck that no step size fits
        lambda x: -0.5 * x[0] ** 2 / 9 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0],
        sf.NUTS(num_chains=2, num_warmup=200),
        particles=jnp.zeros((2, 5)),
        num_steps=300,
        progress=False,
    )
    assert narrow.info["num_divergent"] > 0


def test_refusals():
    model = sf.models.LogisticRegression(np.ones((20, 1)), np.arange(20) % 2, batch_size=5)
    with pytest.raises(ValueError, match="NUTS needs all of the data"):
        sf.fit(model, sf.NUTS(), num_particles=4, num_steps=1, progress=False)
    with pytest.raises(ValueError, match=r"each of its 4 chains.*sf\.NUTS\(num_chains=3\)"):
        sf.fit(lambda x: -jnp.sum(x**2), sf.NUTS(), particles=jnp.zeros((3, 1)), num_steps=1, progress=False)
    with pytest.raises(ValueError, match="at least one chain"):
        sf.NUTS(num_chains=0)


@pytest.mark.slow
def test_german():
    method = sf.NUTS(num_chains=2, num_warmup=500)
    result = sf.fit(german.model(), method, num_steps=500, key=1, progress=False)
    error, ratio = german.errors(result)
    assert np.sqrt(np.mean(error**2)) < 2 / np.sqrt(1000)
    assert np.all((ratio > 0.9) & (ratio < 1.1))
