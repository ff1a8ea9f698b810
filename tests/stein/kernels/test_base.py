"""Every kernel's direction and Stein matrix are their definitions; sums, multiples and plain functions are kernels."""

import functools

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein.discrepancy import ksd_squared, stein_kernel_rows
from steinflow.stein.kernels import Scaled, Sum, as_kernel, positive_definite


class RationalQuadratic(sf.kernels.Radial):
    def profile(self, t):
        return 1 / (1 + t)


def polynomial(x, y):
    return (1 + x @ y) ** 2


DEFAULT = sf.kernels.Centered(sf.kernels.Multiquadric(sf.kernels.Wide()) + 0.02 * sf.kernels.Linear())
KERNELS = {
    "RBF": sf.kernels.RBF(),
    "IMQ": sf.kernels.IMQ(),
    "Linear diagonal": sf.kernels.Linear(),
    "Linear full": sf.kernels.Linear("full"),
    "sum of sums": 2 * (sf.kernels.RBF() + sf.kernels.Linear("full")) + RationalQuadratic(3.0),
    "a user's profile": RationalQuadratic(),
    "plain function": polynomial,
    "sum with a function": sf.kernels.RBF() + polynomial,
    "centred": sf.kernels.Centered(sf.kernels.RBF() + 0.1 * sf.kernels.Linear("full")),
    "centred function": sf.kernels.Centered(polynomial),
    "centred twice, in a sum": sf.kernels.IMQ()
    + 2.0 * sf.kernels.Centered(sf.kernels.Centered(0.5 * sf.kernels.Multiquadric(2.0))),
    "default": DEFAULT,
}
WEIGHTS = np.array([3, 1, 0, 2, 1, 1, 2]) / 10
# These functions run once: time spent on optimising them is lost.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def check_definitions(kernel, n, d, dtype):
    x, s = naive.cloud(n, d, dtype)
    at, _ = naive.cloud(2, d, dtype, seed=1)
    weights = jnp.asarray(WEIGHTS[:n] / WEIGHTS[:n].sum(), dtype)

    @functools.partial(jax.jit, compiler_options=QUICK)  # one compilation for everything
    def both(x, s, at):
        adapted = as_kernel(kernel).adapt(x)
        ours = {
            "matrix": adapted.matrix(x, at),
            "direction": sf.stein_direction(x, s, kernel),
            "direction elsewhere": sf.stein_direction(x, s, kernel, at),
            "direction of the adapted kernel": sf.stein_direction(x, s, adapted),
            "Stein matrix": stein_kernel_rows(x, s, kernel)(jnp.arange(n)),
            "V": ksd_squared(x, s, kernel),
            "V weighted": ksd_squared(x, s, adapted, weights=weights),
        }
        u = naive.stein_kernel(x, s, adapted)
        phi = naive.direction(x, s, adapted, x)
        definitions = {
            "matrix": jax.vmap(jax.vmap(adapted, (None, 0)), (0, None))(x, at),
            "direction": phi,
            "direction elsewhere": naive.direction(x, s, adapted, at),
            "direction of the adapted kernel": phi,
            "Stein matrix": u,
            "V": jnp.mean(u),
            "V weighted": weights @ u @ weights,
        }
        if n > 1:
            ours["U"] = ksd_squared(x, s, kernel, "U")
            definitions["U"] = (jnp.sum(u) - jnp.trace(u)) / (n * (n - 1))
            ours["U weighted"] = ksd_squared(x, s, kernel, "U", weights)
            off = weights @ (u - jnp.diag(jnp.diag(u))) @ weights
            definitions["U weighted"] = off / (1 - jnp.sum(weights**2))
        return ours, definitions, jnp.max(jnp.abs(u))

    ours, definitions, size = both(x, s, at)
    for what, value in ours.items():
        assert value.dtype == dtype, what
        scale = float(size) if what[0] in "UV" else 1 + float(jnp.max(jnp.abs(definitions[what])))
        naive.assert_equal_to_rounding(value, definitions[what], dtype, scale, what)


# In the gate, the user's profile is in the sum of sums, and what is centred in the default.
LONG = ("a user's profile", "centred", "centred function", "centred twice, in a sum", "sum of sums")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in KERNELS]
)
def test_direction_and_stein_matrix_are_their_definitions(name, dtype):
    check_definitions(KERNELS[name], 7, 3, dtype)


@pytest.mark.parametrize(
    ("name", "n", "d"),
    [
        pytest.param("Linear full", 1, 2, marks=pytest.mark.slow),
        ("Linear full", 2, 1),
        pytest.param("Linear full", 3, 5, marks=pytest.mark.slow),
        ("default", 1, 2),
        pytest.param("default", 2, 1, marks=pytest.mark.slow),
        pytest.param("default", 3, 5, marks=pytest.mark.slow),
    ],
)
def test_definitions_at_small_sizes(name, n, d, x64):
    check_definitions(KERNELS[name], n, d, jnp.float64)


def test_sums_and_multiples():
    x, _ = naive.cloud(6, 2, jnp.float32)
    kernel = (sf.kernels.RBF(1.0) + 0.5 * sf.kernels.IMQ(2.0) + sf.kernels.Linear()).adapt(x)
    assert isinstance(kernel, Sum)
    assert len(kernel.terms) == 3
    expected = (
        naive.gram(sf.kernels.RBF(1.0), x)
        + 0.5 * naive.gram(sf.kernels.IMQ(2.0), x)
        + naive.gram(sf.kernels.Linear().adapt(x), x)
    )
    np.testing.assert_allclose(naive.gram(kernel, x), expected, rtol=1e-5)
    assert isinstance(sf.kernels.RBF() * 2.0, Scaled)
    assert isinstance(2.0 * (sf.kernels.RBF() + sf.kernels.IMQ()), Scaled)
    with pytest.raises(ValueError, match="at least one term"):
        Sum(())


def test_plain_function_takes_part():
    x, _ = naive.cloud(6, 2, jnp.float32)
    kernel = as_kernel(lambda x, y: x @ y) + sf.kernels.RBF(1.0)
    np.testing.assert_allclose(naive.gram(kernel, x), x @ x.T + naive.gram(sf.kernels.RBF(1.0), x), rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in KERNELS if "centred function" not in name])
def test_positive_definite(name):
    x, _ = naive.cloud(6, 2, jnp.float32)
    values = np.asarray(jax.jit(lambda x: positive_definite(KERNELS[name]).adapt(x).matrix(x, x))(x), float)
    assert np.linalg.eigvalsh(values).min() > -1e-6 * np.abs(values).max()


@pytest.mark.parametrize(
    "kernel",
    [sf.kernels.Multiquadric(), 2.0 * sf.kernels.Multiquadric(), sf.kernels.RBF() + 0.5 * sf.kernels.Multiquadric(1.0)],
)
def test_what_is_not_positive_definite_is_refused(kernel):
    x, s = naive.cloud(6, 2, jnp.float32)
    assert not kernel.definite
    assert sf.kernels.Centered(kernel).definite
    for use in [
        lambda: sf.stein_direction(x, s, kernel),
        lambda: sf.stein_direction(x, s, kernel.adapt(x), at=x[:1]),
        lambda: ksd_squared(x, s, kernel),
        lambda: stein_kernel_rows(x, s, kernel),
        lambda: sf.svgd.Subsample(2).direction(x, s, kernel, key=jax.random.key(0)),
        lambda: sf.SVGD(kernel=kernel),
    ]:
        with pytest.raises(ValueError, match=r"centre it, as in sf.kernels.Centered\(sf.kernels.Multiquadric\(\)\)"):
            use()


@pytest.mark.parametrize("factor", [0, -1.0, float("nan")])
def test_factor_must_be_positive(factor):
    with pytest.raises(ValueError, match="positive number"):
        factor * sf.kernels.RBF()


@pytest.mark.parametrize("factor", [sf.kernels.RBF(), jnp.ones(2)])
def test_factor_must_be_a_number(factor):
    with pytest.raises(TypeError, match="positive number"):
        sf.kernels.IMQ() * factor


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("rbf", "a function k"), (1.0, "a function k"), (sf.kernels.RBF, r"RBF\(\)"), ([], "a function k")],
)
def test_not_a_kernel(kernel, message):
    for take in [as_kernel, positive_definite, sf.SVGD, sf.kernels.Centered, sf.kernels.RBF().__add__]:
        with pytest.raises(TypeError, match=message):
            take(kernel)
