"""What must hold of the Stein direction, whatever the kernel."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from compiled import equations

import steinflow as sf
from steinflow.stein.discrepancy import ksd_squared, stein_kernel_rows

KERNELS = {
    "sum of sums": 2 * (sf.kernels.RBF() + sf.kernels.Linear("full")) + sf.kernels.IMQ(3.0),
    "default": sf.kernels.Centered(sf.kernels.Multiquadric(sf.kernels.Wide()) + 0.02 * sf.kernels.Linear()),
}


@eqx.filter_jit
def facts(x, s, order, shift, kernel):
    """What must hold of any direction, as pairs of values that must agree."""
    direction = sf.stein_direction(x, s, kernel)
    repulsion = sf.stein_direction(x, 0 * s, kernel)
    matrix = stein_kernel_rows(x, s, kernel)(jnp.arange(len(x)))
    eigenvalues = jnp.linalg.eigvalsh(matrix)
    return {
        "reordering": (sf.stein_direction(x[order], s[order], kernel), direction[order]),
        "shift": (sf.stein_direction(x + shift, s, kernel), direction),
        "linear in the scores": (sf.stein_direction(x, 2 * s, kernel) - repulsion, 2 * (direction - repulsion)),
        "at the particles": (sf.stein_direction(x, s, kernel, at=x), direction),
        "KSD": (ksd_squared(x, s, kernel), jnp.mean(matrix)),
        "KSD >= 0, whatever the weights": (jnp.minimum(eigenvalues[0] / eigenvalues[-1], 0.0), jnp.zeros(())),
    }


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(list(KERNELS)),
    shift=st.floats(-100, 100),
    scale=st.floats(1e-3, 1e3),
)
def test_properties(seed, name, shift, scale):
    with jax.enable_x64(True):
        x, s = naive.cloud(5, 2, jnp.float64, seed)
        order = np.random.default_rng(seed).permutation(len(x))
        shifted = jnp.asarray(shift)  # an array: a number would be a constant, compiled anew for each example
        for what, (value, expected) in facts(scale * x, s, order, shifted, KERNELS[name]).items():
            size = 1 + np.abs(np.asarray(expected)).max()
            np.testing.assert_allclose(value, expected, atol=1e-6 * size, err_msg=what)


@pytest.mark.parametrize(("n", "rows"), [(200, 200), (3000, 512)], ids=["in one piece", "in blocks"])
@pytest.mark.parametrize("kernel", [sf.kernels.RBF(1.0), sf.kernels.IMQ() + sf.kernels.Linear()], ids=["RBF", "sum"])
def test_no_pairwise_tensor(kernel, n, rows):
    """The largest array is a matrix of pairs: never n x n x d."""
    found = equations(lambda x, s: sf.stein_direction(x, s, kernel), n, 30)
    assert max(v.aval.size for equation in found for v in equation.outvars) <= rows * n


@pytest.mark.parametrize(("x", "s"), [((5, 2), (5, 3)), ((5, 2), (4, 2)), ((5,), (5,))])
def test_shapes_must_agree(x, s):
    with pytest.raises(ValueError, match=r"one shape \(n, d\)"):
        sf.stein_direction(jnp.zeros(x), jnp.zeros(s), sf.kernels.RBF())
