"""Centred kernels: one plus what is left of the mean, at the cost of the kernel inside."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from compiled import equations

import steinflow as sf
from steinflow.stein.discrepancy import ksd_squared

DEFAULT = sf.kernels.Centered(sf.kernels.Multiquadric(sf.kernels.Wide()) + 0.02 * sf.kernels.Linear())
X, S = naive.cloud(6, 2, jnp.float32)


def pair_products(kernel, n, d=2):
    """How many matrix products have the pairs as an operand or as the result: the direction's cost."""
    found = equations(lambda x, s: sf.stein_direction(x, s, kernel), n, d)
    products = [equation for equation in found if equation.primitive.name == "dot_general"]
    return sum(max(v.aval.size for v in (*product.invars, *product.outvars)) > 10 * n for product in products)


@pytest.mark.parametrize("n", [300, 3000])  # in one piece and in blocks
def test_pairs_are_computed_once(n):
    inside = sf.kernels.IMQ(sf.kernels.Wide()) + 0.02 * sf.kernels.Linear()
    assert pair_products(inside, n) == 3  # the distances; kernel times scores; derivative times particles
    assert pair_products(sf.kernels.Centered(inside), n) == 3
    assert pair_products(DEFAULT, n) == 3
    assert pair_products(sf.kernels.Centered(sf.kernels.RBF(1.0)), n) == 2


def test_ksd_takes_no_more_than_the_pairs():
    """No array is larger than that of all pairs, let alone that of all triples."""
    found = equations(lambda x, s: ksd_squared(x, s, DEFAULT, "U"), 50, 3)
    assert max(v.aval.size for equation in found for v in equation.outvars) <= 50 * 50


def test_centred_is_one_plus_what_is_left_of_the_mean():
    values = naive.gram(sf.kernels.RBF(0.7), X)
    centering = np.eye(len(X)) - 1 / len(X)
    expected = 1 + centering @ values @ centering
    np.testing.assert_allclose(
        naive.gram(sf.kernels.Centered(sf.kernels.RBF(0.7)).adapt(X), X), expected, rtol=1e-5, atol=1e-6
    )


def test_the_mean_score_moves_the_cloud_and_the_rest_its_shape():
    moves = sf.stein_direction(X, S, DEFAULT)
    np.testing.assert_allclose(jnp.mean(moves, axis=0), jnp.mean(S, axis=0), atol=1e-6)
    shifted = sf.stein_direction(X, S + 100, DEFAULT)
    np.testing.assert_allclose(shifted, moves + 100, rtol=1e-5)


@pytest.mark.slow
def test_centred_on_a_cloud_of_its_own(x64):
    """A kernel that is adapted to other particles than those of the direction is still the function that it says."""
    x, s = naive.cloud(5, 2, jnp.float64)
    other, _ = naive.cloud(7, 2, jnp.float64, seed=1)
    kernel = DEFAULT.adapt(other)

    def both(x, s):
        at = other[:3]
        ours = sf.stein_direction(x, s, kernel), sf.stein_direction(x, s, kernel, at), ksd_squared(x, s, kernel)
        u = naive.stein_kernel(x, s, kernel)
        return ours, (naive.direction(x, s, kernel, x), naive.direction(x, s, kernel, at), jnp.mean(u))

    ours, definitions = jax.jit(both)(x, s)
    for value, expected in zip(ours, definitions, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11)


def test_a_recipe_is_no_function_yet():
    with pytest.raises(ValueError, match="adapt"):
        DEFAULT(X[0], X[1])
