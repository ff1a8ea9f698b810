"""Scores from outside JAX: the same particles as with JAX's own scores, one call a step, errors that speak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf

MEAN = np.array([1.0, -2.0], np.float32)
SD = np.array([0.5, 2.0], np.float32)
PAPER = sf.SVGD.paper(0.3)  # whose step is compiled in half the time


def start(num_particles, dim=2):
    return np.random.default_rng(0).normal(size=(num_particles, dim)).astype(np.float32)


def test_same_particles_as_with_jax():
    outside = sf.from_score(lambda x: -(x - MEAN) / SD**2)
    inside = sf.Density(lambda x: -0.5 * jnp.sum(((x - MEAN) / SD) ** 2))
    results = [
        sf.fit(target, PAPER, particles=start(30), num_steps=100, progress=False) for target in (outside, inside)
    ]
    np.testing.assert_allclose(*[result.particles for result in results], atol=1e-3)
    assert np.all(np.isnan(results[0].log_densities))  # nobody knows them


@pytest.mark.slow
def test_accuracy():
    result = sf.fit(sf.from_score(lambda x: -(x - MEAN) / SD**2), particles=start(100), progress=False)
    np.testing.assert_allclose(result.mean(), MEAN, atol=0.05)
    np.testing.assert_allclose(result.sd(), SD, rtol=0.05)


def test_structures_constraints_and_log_densities():
    constraints = {"rate": sf.constraints.positive, "x": None}

    def scores(particles):  # Gamma(3, 2) and a standard normal
        rate, x = particles["rate"], particles["x"]
        log_densities = 2 * np.log(rate) - 2 * rate - 0.5 * np.sum(x**2, axis=1)
        return {"rate": 2 / rate - 2, "x": -x}, log_densities

    outside = sf.from_score(scores, with_log_density=True, constraints=constraints)
    inside = sf.Density(
        lambda p: 2 * jnp.log(p["rate"]) - 2 * p["rate"] - 0.5 * jnp.sum(p["x"] ** 2), constraints=constraints
    )
    particles = {"rate": np.linspace(0.5, 2, 20, dtype=np.float32), "x": start(20, 3)}
    results = [sf.fit(target, PAPER, particles=particles, num_steps=50, progress=False) for target in (outside, inside)]
    for name in particles:
        np.testing.assert_allclose(*[result.particles[name] for result in results], atol=1e-3)
    np.testing.assert_allclose(*[result.log_densities for result in results], atol=1e-2)


def test_prior_and_one_call_a_step():
    calls = []

    def scores(x):
        calls.append(type(x))
        return -x

    target = sf.from_score(scores, prior=lambda key: jax.random.normal(key, (3,)))
    result = sf.fit(target, num_particles=7, num_steps=20, record_every=20, progress=False)
    assert result.particles.shape == (7, 3)
    assert 20 <= len(calls) <= 26  # a few for the checks and records
    assert set(calls) == {np.ndarray}


@pytest.mark.parametrize(
    ("scores", "pair", "message"),
    [
        (lambda x: x[:, :1], False, r"shape of the particles, \(5, 2\); got \(5, 1\)"),
        (lambda x: x, True, "must return a pair"),
        (lambda x: (x, x), True, "must return 5 log densities"),
    ],
)
def test_errors(scores, pair, message):
    target = sf.from_score(scores, with_log_density=pair)
    with pytest.raises(Exception, match=message):  # JAX wraps it in its own kind of error
        sf.fit(target, PAPER, particles=np.ones((5, 2)), num_steps=1, progress=False)
    with pytest.raises(TypeError, match="takes a function"):
        sf.from_score(3)


def test_pytorch():
    torch = pytest.importorskip("torch")
    normal = torch.distributions.Normal(torch.tensor(MEAN), torch.tensor(SD))

    def scores(particles):
        x = torch.tensor(particles, requires_grad=True)
        log_densities = normal.log_prob(x).sum(1)
        return torch.autograd.grad(log_densities.sum(), x)[0].numpy(), log_densities.detach().numpy()

    result = sf.fit(sf.from_score(scores, with_log_density=True), particles=start(100), progress=False)
    np.testing.assert_allclose(result.mean(), MEAN, atol=0.05)
    np.testing.assert_allclose(result.sd(), SD, rtol=0.05)
