"""Runs of `fit_many` that have ended."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def test_none_that_is_finite_anywhere_is_an_error():
    with pytest.raises(ValueError, match="any starting particle of any of the 2 posteriors"):
        sf.fit_many(
            lambda mean: lambda x: -0.5 * jnp.sum((x - mean) ** 2),
            np.array([np.nan, np.inf]),
            sf.SVGD.paper(0.5),
            particles=np.zeros((2, 30, 1)),
            num_steps=300,
            progress=False,
        )


@pytest.mark.slow
def test_runs_that_are_advised_to_take_more_steps_go_on():
    """Of a funnel, 1,000 steps say too little; of a normal posterior they say enough."""
    widths = np.array([3.0, 0.1, 3.0], np.float32)

    def funnel(width):
        def log_density(x):
            return -0.5 * (x[0] / width) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]

        return sf.Density(log_density, prior=lambda key: jax.random.normal(key, (5,)))

    many = sf.fit_many(funnel, widths, key=0, progress=False)
    steps = [result.info["num_steps"] for result in many]
    assert steps[1] <= 1000
    assert min(steps[0], steps[2]) > 1000
    alone = sf.fit(many[0].target, key=jax.random.fold_in(jax.random.key(0), 0), progress=False)
    assert alone.info["num_steps"] > 1000
    for result in (many[0], many[2], alone):
        np.testing.assert_allclose(result.sd()[0] / 3, 1, atol=0.1)
        np.testing.assert_allclose(result.mean()[0] / 3, 0, atol=0.15)
    short = sf.fit_many(funnel, widths, num_steps=1000, key=0, progress=False)
    assert max(result.info["num_steps"] for result in short) == 1000
