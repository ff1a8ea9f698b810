"""Blocks change nothing but the memory that is needed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein import blocks
from steinflow.stein.discrepancy import ksd_squared

KERNELS = {
    "RBF": sf.kernels.RBF(2.0),
    "sum with a function": sf.kernels.RBF(2.0) + (lambda x, y: (1 + x @ y) ** 2),
    "default": sf.kernels.Centered(sf.kernels.Multiquadric(sf.kernels.Wide()) + 0.02 * sf.kernels.Linear()),
}
# These functions run once: time spent on optimising them is lost.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@pytest.mark.parametrize(
    ("n", "name"),
    [(4, "RBF"), (9, "RBF"), pytest.param(8, "sum with a function", marks=pytest.mark.slow), (9, "default")],
)
def test_blocks_change_nothing(n, name, monkeypatch, x64):
    x, s = naive.cloud(n, 3, jnp.float64)
    kernel = KERNELS[name]

    def all_of_it():
        def function(x, s):
            return sf.stein_direction(x, s, kernel), ksd_squared(x, s, kernel), ksd_squared(x, s, kernel, "U")

        return jax.jit(function, compiler_options=QUICK)(x, s)

    whole = all_of_it()
    monkeypatch.setattr(blocks, "_UNBLOCKED_PAIRS", 0)
    monkeypatch.setattr(blocks, "_BLOCK_PAIRS", 1)
    monkeypatch.setattr(blocks, "_MIN_ROWS", 4)
    monkeypatch.setattr(blocks, "_MAX_ROWS", 4)
    for blocked, expected in zip(all_of_it(), whole, strict=True):
        np.testing.assert_allclose(blocked, expected, rtol=1e-12, atol=1e-13)


def test_real_blocks_agree_with_one_product():
    """At the sizes where blocks start, against the formula written out in NumPy."""
    n = 2049
    assert n * n > blocks._UNBLOCKED_PAIRS
    x, s = naive.cloud(n, 2, jnp.float32)
    x64, s64 = np.asarray(x, float), np.asarray(s, float)
    k = np.exp(-((x64[:, None] - x64) ** 2).sum(-1) / 1.5)
    expected = (k @ s64 - (2 / 1.5) * (k @ x64 - k.sum(1, keepdims=True) * x64)) / n
    np.testing.assert_allclose(eqx.filter_jit(sf.stein_direction)(x, s, sf.kernels.RBF(1.5)), expected, atol=2e-6)


@pytest.mark.parametrize("max_rows", [1, 3, 4, 7, 100])
def test_maps_and_sums(max_rows):
    rows = jnp.arange(14.0).reshape(7, 2)
    mapped = blocks.map_blocks(lambda rows: (rows**2, jnp.sum(rows, axis=1)), rows, max_rows)
    np.testing.assert_array_equal(mapped[0], rows**2)
    np.testing.assert_array_equal(mapped[1], jnp.sum(rows, axis=1))
    np.testing.assert_array_equal(blocks.sum_blocks(lambda rows: rows.T @ rows, rows, max_rows), rows.T @ rows)
