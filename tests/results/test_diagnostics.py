import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf

X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)


def test_dispersion_is_one_under_the_target():
    np.testing.assert_allclose(sf.dispersion(normal_log_density, X), np.var(X, axis=0), rtol=1e-4)
    narrow = sf.dispersion(normal_log_density, 0.3 * X)
    np.testing.assert_allclose(narrow, 0.09 * np.var(X, axis=0), rtol=1e-4)
    assert sf.dispersion(normal_log_density, X[:1]).tolist() == [0, 0]


def test_ksd_tells_good_from_bad():
    right = sf.ksd(normal_log_density, X)
    for wrong in [X + 0.5, 0.5 * X, 1.5 * X]:
        assert sf.ksd(normal_log_density, wrong) > 1.7 * right
    unbiased = sf.ksd(normal_log_density, X, statistic="U")
    assert abs(unbiased) < right**2


def goodness_of_fit(particles, key):
    return sf.goodness_of_fit(normal_log_density, particles, num_bootstrap=200, key=key)


def test_goodness_of_fit():
    fine = goodness_of_fit(X, key=1)
    assert fine.p_value > 0.05
    assert goodness_of_fit(X, key=1) == fine
    off = goodness_of_fit(X + 0.5, key=1)
    assert 0 < off.p_value < 0.01
    assert off.statistic > fine.statistic
    expected = sf.ksd(normal_log_density, X + 0.5, statistic="U")
    np.testing.assert_allclose(off.statistic, expected, rtol=1e-3)


@pytest.mark.slow
def test_goodness_of_fit_is_calibrated():
    """The p-values of exact draws are uniform: about 10% fall below 0.1."""
    rng = np.random.default_rng(1)
    p_values = [goodness_of_fit(rng.normal(size=X.shape), key=i).p_value for i in range(40)]
    assert 0.3 < np.mean(p_values) < 0.7
    assert np.mean(np.array(p_values) < 0.1) < 0.25


def test_constraints_are_taken_off():
    """LogNormal in the user's space is normal in the unconstrained one."""
    target = sf.Density(lambda x: jnp.sum(-jnp.log(x) - 0.5 * jnp.log(x) ** 2), constraints=sf.constraints.positive)
    np.testing.assert_allclose(sf.ksd(target, np.exp(X)), sf.ksd(normal_log_density, X), rtol=1e-3)


def test_errors():
    with pytest.raises(ValueError, match="at least two particles"):
        sf.goodness_of_fit(normal_log_density, X[:1])
    with pytest.raises(ValueError, match="num_bootstrap"):
        sf.goodness_of_fit(normal_log_density, X, num_bootstrap=0)
    with pytest.raises(ValueError, match="not finite at 1 of 2 particles"):
        sf.ksd(lambda x: jnp.sum(jnp.sqrt(x)), jnp.array([[0.0], [1.0]]))
