"""What a regression says about rows of a table: means, draws, levels that the fit has not seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


@pytest.fixture(scope="module")
def target(table):
    return sf.formula("y ~ x * z + (1 + x | g) + (1 | g:h)", table, weights="weight")


@pytest.fixture(scope="module")
def particle(target):
    return target.sample_prior(jax.random.key(1))


def test_levels_never_seen_are_drawn_from_their_distribution(target, table, particle):
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 4000, axis=0), particle)
    new = table.iloc[:1].assign(g=99, h=0)
    with pytest.warns(UserWarning, match="not seen"):
        drawn = target.means(many, new)[:, 0]
    sds, x = np.array([particle["1|g_sigma"], particle["x|g_sigma"]], float), float(new["x"].iloc[0])
    variance = sds[0] ** 2 + (x * sds[1]) ** 2 + 2 * x * sds[0] * sds[1] * float(particle["1+x|g_cor"][0])
    variance += float(particle["1|g:h_sigma"]) ** 2
    np.testing.assert_allclose(np.std(drawn), np.sqrt(variance), rtol=0.06)


def test_draws_are_noise_around_the_means(target, table, particle):
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 4000, axis=0), particle)
    some = table.iloc[:1]
    drawn = target.observations.predictive(many, some, key=jax.random.key(0))["y"][:, 0]
    mean, sigma = float(target.means(many, some)[0, 0]), float(particle["sigma"])
    assert abs(np.mean(drawn) - mean) < 4 * sigma / np.sqrt(4000)
    np.testing.assert_allclose(np.std(drawn), sigma, rtol=0.05)
