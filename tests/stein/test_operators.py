import functools

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein import operators as stein
from steinflow.stein.kernels import as_kernel


class RationalQuadratic(sf.Radial):
    def profile(self, t):
        return 1 / (1 + t)


def polynomial(x, y):
    return (1 + x @ y) ** 2


KERNELS = {
    "RBF": sf.RBF(),
    "RBF fixed": sf.RBF(0.7),
    "IMQ": sf.IMQ(),
    "Linear diagonal": sf.Linear(),
    "Linear full": sf.Linear("full"),
    "multiple": 0.3 * sf.IMQ(),
    "sum": sf.IMQ() + 0.1 * sf.Linear(),
    "sum of sums": 2 * (sf.RBF() + sf.Linear("full")) + RationalQuadratic(3.0),
    "a user's profile": RationalQuadratic(),
    "plain function": polynomial,
    "sum with a function": sf.RBF() + polynomial,
    "centred": sf.Centered(sf.IMQ() + 0.1 * sf.Linear()),
    "centred multiquadric": sf.Centered(sf.Multiquadric(2.0)),
}
each_kernel = pytest.mark.parametrize("name", KERNELS)
each_size = pytest.mark.parametrize(("n", "d"), [(1, 2), (2, 1), (3, 5)])
# These functions run once: time spent on optimising them is lost.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def cloud(n, d, dtype, seed=0):
    """Particles off the origin, and arbitrary scores."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(1 + 2 * rng.normal(size=(n, d)), dtype), jnp.asarray(rng.normal(size=(n, d)), dtype)


def adapted(kernel, particles):
    return as_kernel(kernel).adapt(particles)


def assert_equal_to_rounding(value, expected, dtype, scale=1.0):
    digits = {"float32": 3e-5, "float64": 1e-12}[jnp.dtype(dtype).name]
    np.testing.assert_allclose(value, expected, rtol=digits, atol=digits * scale)


@each_kernel
def test_direction_and_ksd_are_their_definitions(name, dtype):
    check_definitions(name, 7, 3, dtype)


@each_size
@pytest.mark.parametrize("name", ["RBF", "IMQ", "Linear diagonal", "Linear full"])
def test_definitions_at_small_sizes(name, n, d, x64):
    check_definitions(name, n, d, jnp.float64)


def check_definitions(name, n, d, dtype):
    x, s = cloud(n, d, dtype)
    at, _ = cloud(2, d, dtype, seed=1)

    @functools.partial(jax.jit, compiler_options=QUICK)  # one compilation for everything
    def both(x, s, at):
        kernel = adapted(KERNELS[name], x)
        ours = {
            "direction": sf.stein_direction(x, s, KERNELS[name]),
            "direction elsewhere": stein.stein_direction(x, s, kernel, at),
            "V": stein.ksd_squared(x, s, KERNELS[name]),
        }
        u = naive.stein_kernel(x, s, kernel)
        definitions = {
            "direction": naive.direction(x, s, kernel, x),
            "direction elsewhere": naive.direction(x, s, kernel, at),
            "V": jnp.mean(u),
        }
        if n > 1:
            ours["U"] = stein.ksd_squared(x, s, KERNELS[name], "U")
            definitions["U"] = (jnp.sum(u) - jnp.trace(u)) / (n * (n - 1))
        return ours, definitions, jnp.max(jnp.abs(u))

    ours, definitions, size = both(x, s, at)
    for what, value in ours.items():
        assert value.dtype == dtype, what
        scale = float(size) if what in "UV" else 1 + float(jnp.max(jnp.abs(definitions[what])))
        assert_equal_to_rounding(value, definitions[what], dtype, scale)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_direction_and_ksd_are_double_loops(n, dtype):
    x, s = cloud(n, 3, dtype)
    profiles = {
        sf.RBF: (lambda t: np.exp(-t), lambda t: -np.exp(-t), lambda t: np.exp(-t)),
        sf.IMQ: (lambda t: (1 + t) ** -0.5, lambda t: -0.5 * (1 + t) ** -1.5, lambda t: 0.75 * (1 + t) ** -2.5),
    }
    for kernel, profile in profiles.items():
        phi, u = naive.radial_loops(x, s, *profile, h=1.7)
        assert_equal_to_rounding(sf.stein_direction(x, s, kernel(1.7)), phi, dtype)
        assert_equal_to_rounding(stein.ksd_squared(x, s, kernel(1.7)), u.mean(), dtype, np.abs(u).max())


def test_u_statistic_needs_pairs():
    with pytest.raises(ValueError, match="at least two"):
        stein.ksd_squared(*cloud(1, 2, jnp.float32), sf.RBF(), "U")
    with pytest.raises(ValueError, match="'U' or 'V'"):
        stein.ksd_squared(*cloud(2, 2, jnp.float32), sf.RBF(), "W")


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9])
@pytest.mark.parametrize("name", ["RBF", "sum with a function"])
def test_blocks_change_nothing(n, name, monkeypatch, x64):
    x, s = cloud(n, 3, jnp.float64)
    kernel = adapted(KERNELS[name], x)

    def both():
        def function(x, s):
            return sf.stein_direction(x, s, kernel), stein.ksd_squared(x, s, kernel)

        return jax.jit(function, compiler_options=QUICK)(x, s)

    whole = both()
    monkeypatch.setattr(stein, "_UNBLOCKED_PAIRS", 0)
    monkeypatch.setattr(stein, "_BLOCK_PAIRS", 1)
    monkeypatch.setattr(stein, "_MIN_ROWS", 4)
    monkeypatch.setattr(stein, "_MAX_ROWS", 4)
    blocked = both()
    np.testing.assert_allclose(blocked[0], whole[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(blocked[1], whole[1], rtol=1e-12, atol=1e-13)


def test_real_blocks_agree_with_one_product():
    """At the sizes where blocks start, against the formula written out in NumPy."""
    n = 2049
    assert n * n > stein._UNBLOCKED_PAIRS
    x, s = cloud(n, 2, jnp.float32)
    x64, s64 = np.asarray(x, float), np.asarray(s, float)
    k = np.exp(-((x64[:, None] - x64) ** 2).sum(-1) / 1.5)
    expected = (k @ s64 - (2 / 1.5) * (k @ x64 - k.sum(1, keepdims=True) * x64)) / n
    np.testing.assert_allclose(eqx.filter_jit(sf.stein_direction)(x, s, sf.RBF(1.5)), expected, atol=2e-6)


@eqx.filter_jit
def facts(x, s, order, shift, kernel):
    """What must hold of any direction, as pairs of values that must agree."""
    direction = sf.stein_direction(x, s, kernel)
    repulsion = sf.stein_direction(x, 0 * s, kernel)
    return {
        "reordering": (sf.stein_direction(x[order], s[order], kernel), direction[order]),
        "shift": (sf.stein_direction(x + shift, s, kernel), direction),
        "linear in the scores": (sf.stein_direction(x, 2 * s, kernel) - repulsion, 2 * (direction - repulsion)),
        "KSD >= 0": (jnp.minimum(stein.ksd_squared(x, s, kernel), 0.0), jnp.zeros(())),
    }


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    shape=st.sampled_from([(1, 1), (2, 3), (5, 2)]),
    seed=st.integers(0, 10**6),
    name=st.sampled_from(["IMQ", "sum of sums"]),
    shift=st.floats(-100, 100),
    scale=st.floats(1e-3, 1e3),
)
def test_properties(shape, seed, name, shift, scale):
    with jax.enable_x64(True):
        x, s = cloud(*shape, jnp.float64, seed)
        order = np.random.default_rng(seed).permutation(len(x))
        for what, (value, expected) in facts(scale * x, s, order, shift, KERNELS[name]).items():
            size = 1 + np.abs(np.asarray(expected)).max()
            np.testing.assert_allclose(value, expected, atol=1e-6 * size, err_msg=what)


def test_one_step_is_the_authors_formula(dtype):
    """The authors' code: kernel exp(-d^2 / 2 eta^2), 2 eta^2 = median(d^2) / log(n + 1), n zeros included."""
    x, s = cloud(9, 3, dtype)
    x64, s64 = np.asarray(x, float), np.asarray(s, float)
    squares = ((x64[:, None] - x64) ** 2).sum(-1)
    eta = np.sqrt(0.5 * np.median(squares) / np.log(len(x) + 1))
    k = np.exp(-squares / eta**2 / 2)
    gradient = (-k @ x64 + x64 * k.sum(axis=1)[:, None]) / eta**2
    expected = (k @ s64 + gradient) / len(x)
    assert_equal_to_rounding(sf.stein_direction(x, s, sf.RBF(2 * eta**2)), expected, dtype)


def test_weights():
    """A particle of double weight is two particles."""
    x, s = cloud(4, 2, jnp.float32)
    kernel = sf.IMQ(1.0)
    weights = jnp.array([2, 1, 1, 1]) / 5
    twice = jnp.array([0, 0, 1, 2, 3])
    weighted = stein.ksd_squared(x, s, kernel, weights=weights)
    np.testing.assert_allclose(weighted, stein.ksd_squared(x[twice], s[twice], kernel), rtol=1e-5)


def test_far_from_the_origin():
    """A cloud a thousand sds away loses no more digits than its coordinates have."""
    x, s = cloud(50, 2, jnp.float32)
    direction = sf.stein_direction(x, s, sf.RBF())
    np.testing.assert_allclose(sf.stein_direction(x + 1000, s, sf.RBF()), direction, atol=2e-3)


def test_no_pairwise_tensor():
    """The largest array is the matrix of pairs: never n x n x d."""
    x, s = cloud(200, 30, jnp.float32)
    for kernel in [sf.RBF(1.0), sf.IMQ() + sf.Linear()]:
        jaxpr = jax.make_jaxpr(lambda x, s, kernel=kernel: sf.stein_direction(x, s, kernel))(x, s)
        sizes = [v.aval.size for equation in jaxpr.eqns for v in equation.outvars]
        assert max(sizes) <= 200 * 200


@pytest.mark.parametrize(("x", "s"), [((5, 2), (5, 3)), ((5, 2), (4, 2)), ((5,), (5,))])
def test_shapes_must_agree(x, s):
    with pytest.raises(ValueError, match=r"one shape \(n, d\)"):
        sf.stein_direction(jnp.zeros(x), jnp.zeros(s), sf.RBF())
