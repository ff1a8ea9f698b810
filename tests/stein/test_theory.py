"""The paper's theory in numbers: what Theorems 3.1 and 3.3 and Lemma 3.2 promise, where everything is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
from compiled import ksd_squared, stein_direction

import steinflow as sf
from steinflow.stein.direction import stein_operator

MEAN, COVARIANCE = np.array([1.0, -0.5]), np.array([[2.0, 0.6], [0.6, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


def score(x):
    return -(x - jnp.array(MEAN, x.dtype)) @ jnp.array(PRECISION, x.dtype)


def gaussian_kl(mean, covariance):
    """KL(N(mean, covariance) || p)."""
    difference = mean - MEAN
    ratio = PRECISION @ covariance
    return 0.5 * (np.trace(ratio) - np.linalg.slogdet(ratio)[1] - 2 + difference @ PRECISION @ difference)


def kl_after(mean, covariance, offset, matrix, epsilon):
    """KL of q after x -> x + epsilon (offset + matrix (x - mean)): still Gaussian, so exact."""
    jacobian = np.eye(2) + epsilon * matrix
    return gaussian_kl(mean + epsilon * offset, jacobian @ covariance @ jacobian.T)


def slope(function, epsilon=1e-5):
    return (function(epsilon) - function(-epsilon)) / (2 * epsilon)


# A cloud whose empirical mean and covariance are those of q exactly: for linear phi it represents q.
Q_MEAN, Q_COVARIANCE = np.array([0.0, 1.0]), np.array([[1.0, -0.4], [-0.4, 0.7]])
_WHITE = np.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
CLOUD = Q_MEAN + _WHITE @ np.linalg.cholesky(Q_COVARIANCE).T


def test_steins_identity_under_exact_samples(x64):
    """E_p[s(x)'f(x) + div f(x)] = 0, within 4 standard errors, for bounded and unbounded f."""
    x = MEAN + np.random.default_rng(0).normal(size=(20_000, 2)) @ np.linalg.cholesky(COVARIANCE).T
    functions = {
        "linear": lambda x: jnp.array([[1.0, 2.0], [0.5, -1.0]]) @ x,
        "sine": lambda x: jnp.sin(x),
        "kernel": lambda x: jnp.exp(-jnp.sum(x**2)) * jnp.array([1.0, -2.0]),
    }
    for name, function in functions.items():
        values = np.asarray(jax.jit(jax.vmap(stein_operator(function, score)))(jnp.asarray(x)))
        assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(x)), name
        assert values.std() > 0.1, name


def test_steins_identity_fails_elsewhere(x64):
    x = 1 + np.random.default_rng(0).normal(size=(20_000, 2)) @ np.linalg.cholesky(COVARIANCE).T
    values = np.asarray(jax.jit(jax.vmap(stein_operator(jnp.sin, score)))(jnp.asarray(x)))
    assert abs(values.mean()) > 10 * values.std() / np.sqrt(len(x))


def test_kl_falls_at_the_rate_of_the_stein_operator(x64):
    """Theorem 3.1: d/d eps KL = -E_q[trace A_p phi] for any smooth phi; here phi is linear, and KL is exact."""
    offset, matrix = np.array([0.3, -1.0]), np.array([[0.5, 0.2], [-0.3, 0.1]])
    operated = stein_operator(lambda x: offset + jnp.asarray(matrix) @ (x - Q_MEAN), score)
    rate = np.mean(jax.jit(jax.vmap(operated))(jnp.asarray(CLOUD)))
    np.testing.assert_allclose(slope(lambda e: kl_after(Q_MEAN, Q_COVARIANCE, offset, matrix, e)), -rate, rtol=1e-7)


def test_kl_falls_at_the_rate_of_ksd_squared(x64):
    """Lemma 3.2: along phi* of the linear kernel, d/d eps KL = -KSD^2."""
    x = jnp.asarray(CLOUD)
    for kernel in [sf.kernels.Linear(), sf.kernels.Linear("full")]:
        fixed = kernel.adapt(x)
        phi = np.asarray(stein_direction(x, score(x), kernel))
        offset = phi.mean(0)
        matrix = np.linalg.lstsq(CLOUD - Q_MEAN, phi - offset, rcond=None)[0].T
        np.testing.assert_allclose(offset + (CLOUD - Q_MEAN) @ matrix.T, phi, atol=1e-12)  # phi* is linear
        rate = slope(lambda e, o=offset, m=matrix: kl_after(Q_MEAN, Q_COVARIANCE, o, m, e))
        np.testing.assert_allclose(rate, -ksd_squared(x, score(x), fixed), rtol=1e-7)


def test_kl_falls_at_the_rate_of_the_fisher_divergence(x64):
    """For phi = score_p - score_q, d/d eps KL = -E_q |score_p - score_q|^2."""
    q_precision = np.linalg.inv(Q_COVARIANCE)
    matrix = q_precision - PRECISION
    offset = -PRECISION @ (Q_MEAN - MEAN)
    fisher = np.trace(matrix @ Q_COVARIANCE @ matrix.T) + offset @ offset
    rate = slope(lambda e: kl_after(Q_MEAN, Q_COVARIANCE, offset, matrix, e))
    np.testing.assert_allclose(rate, -fisher, rtol=1e-7)


def test_rkhs_norm_of_the_gradient_is_ksd_squared(x64):
    """Theorem 3.3: |phi*|^2 = KSD^2, where <f, phi*> = mean A_p f by the reproducing property, for f = phi*."""
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(6, 2)))
    for kernel in [sf.kernels.RBF(1.3), sf.kernels.IMQ(0.8) + 0.1 * sf.kernels.Linear()]:
        fixed = kernel.adapt(x)
        s = score(x)

        def phi(point, fixed=fixed, s=s):
            return stein_direction(x, s, fixed, point[None])[0]

        norm_squared = jnp.mean(jax.jit(jax.vmap(stein_operator(phi, score)))(x))
        np.testing.assert_allclose(norm_squared, ksd_squared(x, s, fixed), rtol=1e-10)


def test_ksd_vanishes_under_the_target(x64):
    """The U statistic is centred at zero under p, and far from it elsewhere."""
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(800, 2)) @ np.linalg.cholesky(COVARIANCE).T
    right, wrong = jnp.asarray(MEAN + draws), jnp.asarray(MEAN + 0.5 + draws)
    kernel = sf.kernels.IMQ(1.0)
    ksd = jax.jit(lambda x: ksd_squared(x, score(x), kernel, "U"))
    assert abs(ksd(right)) < 0.01
    assert ksd(wrong) > 0.05


def test_one_particle_climbs_to_the_map():
    target = sf.Density(lambda x: -0.5 * (x - MEAN) @ jnp.asarray(PRECISION, jnp.float32) @ (x - MEAN))
    x0 = jnp.array([[4.0, 4.0]])
    result = sf.fit(target, sf.SVGD.paper(1.0), particles=x0, num_steps=500, progress=False)
    np.testing.assert_allclose(result.particles[0], MEAN, atol=1e-3)
    direction = stein_direction(x0, score(x0), sf.kernels.RBF())
    np.testing.assert_allclose(direction, score(x0), rtol=1e-6)


def test_vanishing_bandwidth_gives_independent_chains(x64):
    """h -> 0: each particle sees its own score alone, divided by n; h -> infinity: all see the same.

    In double precision: the closed form loses digits where h is a millionth of the cloud.
    """
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    s = jnp.asarray(score(x))
    np.testing.assert_allclose(stein_direction(x, s, sf.kernels.RBF(1e-6)), s / 5, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        stein_direction(x, s, sf.kernels.RBF(1e12)), np.tile(np.mean(s, axis=0), (5, 1)), rtol=1e-8
    )


def test_kl_falls_along_the_iterations():
    """Of the Gaussian with the particles' moments, at every record until it has settled."""
    x0 = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32) * 0.5 - 3
    target = sf.Density(lambda x: -0.5 * (x - MEAN) @ jnp.asarray(PRECISION, jnp.float32) @ (x - MEAN))
    result = sf.fit(
        target,
        sf.SVGD.paper(0.3),
        particles=x0,
        num_steps=600,
        record={"x": lambda x: x},
        record_every=50,
        progress=False,
    )
    clouds = [x0, *result.history["x"]]
    kl = np.array([gaussian_kl(x.mean(0), np.cov(x.T, bias=True)) for x in clouds])
    assert kl[0] > 5
    assert np.all(np.diff(kl) < 1e-3)
    assert kl[-1] < 0.1
