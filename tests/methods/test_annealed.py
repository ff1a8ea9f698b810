import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf
from steinflow.targets.flat import flatten


def two_modes(x):
    return jnp.logaddexp(normal_log_density(x, jnp.array([-5.0, 0.0])), normal_log_density(x, jnp.array([5.0, 0.0])))


@pytest.mark.slow
def test_finds_the_mode_that_the_start_does_not_know():
    x0 = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32) + np.array([5.0, 0.0], np.float32)
    lost = sf.fit(two_modes, particles=x0, num_steps=500, progress=False)
    assert jnp.all(lost.particles[:, 0] > 0)
    found = sf.fit(two_modes, sf.Annealed(sf.SVGD()), particles=x0, num_steps=500, progress=False)
    share = jnp.mean(found.particles[:, 0] < 0)
    assert 0.3 < share < 0.7
    sides = [np.asarray(found.particles)[np.asarray(found.particles[:, 0] < 0) == side] for side in (True, False)]
    for side, place in zip(sides, (-5, 5), strict=True):
        np.testing.assert_allclose(side.mean(axis=0), [place, 0], atol=0.2)
        np.testing.assert_allclose(side.var(axis=0), 1, atol=0.25)


def test_ends_at_the_target_itself():
    x0 = 3 + np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    result = sf.fit(normal_log_density, sf.Annealed(sf.SVGD()), particles=x0, num_steps=500, progress=False)
    np.testing.assert_allclose(result.mean(), 0, atol=0.05)
    np.testing.assert_allclose(result.sd() ** 2, 1, atol=0.1)
    assert result.verdict.level == "good"


def test_tempered_target():
    target, x = flatten(normal_log_density, np.ones((1, 2)))
    np.testing.assert_allclose(target.tempered(jnp.asarray(0.25)).scores(x), -0.25 * x)
    np.testing.assert_allclose(target.scores(x), -x)


@pytest.mark.parametrize("settings", [{"start": 0.0}, {"start": 2.0}, {"until": 0.0}])
def test_settings_in_range(settings):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        sf.Annealed(sf.SVGD(), **settings)


def test_takes_a_method():
    with pytest.raises(TypeError, match=r"sf.Annealed\(sf.SVGD\(\)\)"):
        sf.Annealed(sf.SVGD)
