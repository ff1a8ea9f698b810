import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf


def history(ksd, dispersion=1.0, worst=0.0, mean_error=0.0):
    records = {"dispersion": dispersion, "dispersion_error": max(worst, abs(dispersion - 1)), "mean_error": mean_error}
    return {
        "ksd": [np.float32(k) for k in ksd],
        **{name: [np.float32(value)] * len(ksd) for name, value in records.items()},
    }


def test_stops_when_settled_and_mean_and_spread_are_right():
    rule = sf.Converged(patience=3)
    assert rule(history([5, 3, 1, 1, 1, 1]))
    assert not rule(history([5, 3, 1, 1, 1])), "not yet patient enough"
    assert not rule(history([5, 3, 1, 0.9, 0.8, 0.7])), "still falling"
    assert not rule(history([5, 3, 1, 1, 1, 1], dispersion=0.5)), "collapsed"
    assert not rule(history([5, 3, 1, 1, 1, 1], dispersion=1.5)), "too wide"
    assert not rule(history([5, 3, 1, 1, 1, 1], worst=0.4)), "one coordinate is wrong"
    assert not rule(history([5, 3, 1, 1, 1, 1], mean_error=0.2)), "the mean is wrong"
    assert not rule(history([5, 3, 1, 1, 1, float("nan")]))
    assert not rule(history([1]))


def test_patience_is_positive():
    with pytest.raises(ValueError, match="at least 1"):
        sf.Converged(patience=0)


def test_stops_early_and_right():
    """The deterministic flow, which does not end by itself."""
    x0 = 3 + 2 * jax.random.normal(jax.random.key(0), (100, 3))
    method = sf.SVGD(exploration=None)
    result = sf.fit(normal_log_density, method, particles=x0, stop=sf.Converged(), progress=False)
    assert result.outcome is sf.Outcome.STOPPED
    assert "Converged" in result.ending.message
    assert result.info["num_steps"] < 1000
    assert result.verdict.level == "good"
    np.testing.assert_allclose(result.mean(), 0, atol=0.02)
    np.testing.assert_allclose(result.sd() ** 2, 1, atol=0.05)


def plateau(x):
    """Flat far from the origin: scores fade, and with them every move."""
    return -jnp.log1p(1e-4 * jnp.sum(x**2)) - 0.5 * jnp.sum(jnp.tanh(x / 3) ** 2) * 9


@pytest.mark.parametrize("method", [sf.SVGD.paper(1e-3), sf.SVGD.paper(0.1)], ids=["tiny steps", "collapsed"])
def test_never_on_a_plateau(method):
    """Where KSD has settled and the answer is wrong, the run goes on."""
    x0 = 30 + jax.random.normal(jax.random.key(0), (50, 20))
    result = sf.fit(plateau, method, particles=x0, num_steps=300, stop=sf.Converged(), progress=False)
    assert result.outcome is sf.Outcome.STEP_LIMIT
    assert result.info["num_steps"] == 300
    assert result.verdict.level == "bad"


@pytest.mark.slow
def test_not_on_the_noise_of_minibatches():
    rows = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    data = sf.data.Stream((rows[i * 10 % 1000 :][:10] for i in range(1000)), num_rows=1000)  # read once: no anchors
    target = sf.Posterior(lambda x: -0.5 * x**2 / 100, lambda x, batch: -0.5 * (batch - x) ** 2, data)
    x0 = 0.1 * jax.random.normal(jax.random.key(0), (50,))
    result = sf.fit(target, particles=x0, num_steps=300, stop=sf.Converged(), progress=False)
    assert result.info["num_steps"] == 300
