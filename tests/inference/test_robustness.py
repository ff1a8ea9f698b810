"""What people do by mistake and numbers by themselves: a clear error or a defined outcome, never a silent NaN."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import PAPER, X0, run
from scenarios import normal_log_density

import steinflow as sf


def assert_finite(result):
    assert jnp.all(jnp.isfinite(result.particles))
    assert jnp.all(jnp.isfinite(result.scores))
    assert math.isfinite(result.ksd)
    assert "nan" not in str(result.summary()).lower()


NOT_FINITE = {
    "NaN": lambda x: jnp.nan * jnp.sum(x),
    "-inf": lambda x: jnp.log(0.0 * jnp.sum(x**2)),
    "inf": lambda x: jnp.inf * jnp.sum(x**2),
    "score alone": lambda x: jnp.sum(jnp.sqrt(x - jax.lax.stop_gradient(x))),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_nowhere_finite_at_the_start(name):
    which = "score" if name == "score alone" else "log density"
    with pytest.raises(ValueError, match=rf"The {which} is not finite at any of the 20 starting particles.* log-space"):
        run(NOT_FINITE[name])


def half_plane(x):
    """NaN, value and score, where the first coordinate is negative."""
    return normal_log_density(x) + 0 * jnp.log(x[0])


def test_some_particles_not_finite_at_the_start():
    """They add nothing to the others, and are reported where they stay outside."""
    x0 = X0.copy()
    x0[:3, 0] = -0.2
    result = run(half_plane, particles=x0)
    assert_finite(result)
    lost = int(jnp.sum(result.particles[:, 0] <= 0))
    assert 3 <= lost < 20
    assert f"not finite at {lost} of 20 particles" in result.ending.message


def test_particles_lost_on_the_way_are_reported():
    """The mode lies on the edge of the support: some particles step over it."""
    result = run(half_plane, num_steps=200)
    assert_finite(result)
    lost = int(jnp.sum(result.particles[:, 0] <= 0))
    assert lost
    assert f"The log density or its score is not finite at {lost} of 20 particles." in result.ending.message


def cliff(x):
    """The density draws all particles down to 1, where it becomes NaN."""
    return -10 * jnp.sum(x**2) + 0 * jnp.log(jnp.min(x) - 1)


def test_everything_lost_mid_run_ends_it():
    result = run(cliff, particles=X0 + 3, num_steps=1000)
    assert jnp.all(jnp.isfinite(result.particles))
    assert result.outcome is sf.Outcome.NON_FINITE
    assert result.info["num_steps"] < 1000
    assert "not finite at any particle" in result.ending.message


def uniform(x):
    """Written with where: the score is 0 everywhere and says nothing about the edges."""
    return jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, -jnp.inf) + 0.0 * jnp.sum(x)


def test_outside_of_a_support_with_zero_score():
    result = run(uniform, particles=0.1 * (X0 - 2), num_steps=300)
    outside = int(jnp.sum(jnp.any(jnp.abs(result.particles) >= 1, axis=1)))
    assert 0 < outside < 20
    assert result.outcome is sf.Outcome.STEP_LIMIT
    assert f"{outside} of 20 particles" in result.ending.message


def test_overflow_of_the_log_density():
    """exp overflows in float32 beyond 88: a step that is not finite is not made."""
    result = run(lambda x: -jnp.sum(jnp.exp(x)), particles=30 * X0)
    assert jnp.all(jnp.isfinite(result.particles))


def test_overflow_of_distances():
    with pytest.raises(ValueError, match=r"overflow in float32: coordinates go up to .*e\+25.* scale near 1"):
        run(lambda x: -jnp.sum(jnp.abs(x)), particles=1e25 * X0)


def test_tiny_scales():
    result = run(lambda x: -0.5 * jnp.sum((x / 1e-12) ** 2), particles=1e-12 * X0, method=sf.SVGD.paper(1e-13))
    assert_finite(result)


WRONG_PARTICLES = {
    "none at all": (jnp.zeros((0, 2)), ValueError, "at least one particle"),
    "one number": (3.0, ValueError, r"x\[None\]"),
    "no coordinates": (jnp.zeros((3, 0)), ValueError, "nothing to infer"),
    "different lengths": ({"a": jnp.zeros(3), "b": jnp.zeros(4)}, ValueError, "the same in every array"),
    "nothing": ({}, ValueError, "leading axis"),
    "nested lists": ([[1.0, 2.0], [3.0, 4.0]], ValueError, r"np\.array"),
    "complex": (np.ones((3, 2)) * 1j, TypeError, "real numbers"),
    "text": (np.array([["a"], ["b"]]), TypeError, "real numbers"),
    "objects": (np.array([[object()]]), TypeError, "real numbers"),
    "NaN": (jnp.array([[jnp.nan], [0.0]]), ValueError, "1 of 2 particles are not finite"),
}


@pytest.mark.parametrize("name", WRONG_PARTICLES)
def test_wrong_particles(name):
    particles, error, message = WRONG_PARTICLES[name]
    with pytest.raises(error, match=message):
        run(lambda x: -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x)), particles=particles)


WRONG_DENSITIES = {
    "vector": (lambda x: -0.5 * x**2, ValueError, r"single number; got shape \(2,\).*ONE particle"),
    "one in a vector": (lambda x: -0.5 * jnp.sum(x**2, keepdims=True), ValueError, r"got shape \(1,\)"),
    "nothing": (lambda x: None, TypeError, "return its value"),
    "text": (lambda x: "high", TypeError, "return its value"),
    "integer": (lambda x: jnp.sum(x > 0), TypeError, "differentiated; got int"),
    "complex": (lambda x: jax.lax.complex(jnp.sum(x), jnp.sum(x)), TypeError, "differentiated; got complex"),
    "numpy": (lambda x: -np.sum(np.asarray(x) ** 2), jax.errors.TracerArrayConversionError, "Tracer"),
    "branch": (lambda x: -x[0] if x[0] > 0 else x[0], jax.errors.TracerBoolConversionError, "boolean"),
}


@pytest.mark.parametrize("name", WRONG_DENSITIES)
def test_wrong_log_densities(name):
    function, error, message = WRONG_DENSITIES[name]
    with pytest.raises(error, match=message) as caught:
        run(function)
    if name in ("numpy", "branch"):
        assert any("jax.numpy" in note for note in caught.value.__notes__)


def test_two_arguments():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        run(lambda x, y: 0.0)


@pytest.mark.parametrize(("n", "d"), [pytest.param(1, 30, marks=pytest.mark.slow), (2, 1)])
def test_few_particles_in_many_dimensions(n, d):
    x0 = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    for method in [PAPER, sf.SVGD()]:
        result = run(method=method, particles=x0)
        assert_finite(result)
        assert result.particles.shape == (n, d)


def test_duplicates_stay_finite():
    x0 = np.repeat(X0[:4], 5, axis=0)
    for method in [PAPER, sf.SVGD()]:
        assert_finite(run(method=method, particles=x0))
        assert_finite(run(method=method, particles=np.tile(X0[:1], (20, 1))))


def test_integer_particles():
    result = run(particles=np.arange(40).reshape(20, 2))
    assert result.particles.dtype == jnp.float32
    assert_finite(result)


def test_nan_in_the_data_is_an_error():
    target = sf.Posterior(normal_log_density, lambda w, y: -0.5 * (y - w[0]) ** 2, np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match=r"1 of 2 rows .* rows 1 \("):
        run(target)
