"""Functions of a tree: its arrays are arguments, the rest is a constant."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices import compilation
from steinflow.devices.compilation import compiled, split


class Power(eqx.Module):
    base: jax.Array
    exponent: int


def test_other_arrays_are_not_traced_again_and_other_constants_are():
    traces = []

    @compiled(static=(2,))
    def power(tree, repeats, x):
        traces.append(1)
        return repeats * (x * tree.base) ** tree.exponent

    def value(base, exponent, repeats=1):
        return float(power(*split(Power(jnp.asarray(base), exponent)), repeats, jnp.asarray(3.0)))

    assert (value(1.0, 2), value(2.0, 2), len(traces)) == (9, 36, 1)
    assert (value(1.0, 3), value(1.0, 2, 2), len(traces)) == (27, 18, 3)
    assert power.__name__ == "power"


@pytest.mark.skipif(not compilation._MAPS.exists(), reason="Linux counts maps")
def test_what_was_compiled_is_forgotten_before_there_is_too_much(monkeypatch):
    traces = []

    @compiled()
    def double(tree, x):
        traces.append(1)
        return 2 * tree.base * x

    def value():
        return float(double(*split(Power(jnp.asarray(1.0), 1)), jnp.asarray(3.0)))

    assert (value(), value(), len(traces)) == (6, 6, 1)
    for _ in range(compilation._EVERY):
        compilation.make_room()
    assert (value(), len(traces)) == (6, 1)
    monkeypatch.setattr(compilation, "_MOST_MAPS", 0)
    for _ in range(compilation._EVERY):
        compilation.make_room()
    assert (value(), len(traces)) == (6, 2)


def test_a_program_is_compiled_well_only_where_its_passes_repay_it():
    @compiled()
    def scaled(tree, x):
        return tree.base * jnp.sin(x)

    arguments = *split(Power(jnp.asarray(2.0), 1)), jnp.ones(1000)
    few, many = (scaled.for_passes(times, *arguments) for times in (10, 10**7))
    assert few is scaled._quick
    assert many is scaled.jitted is scaled._good
    np.testing.assert_allclose(few(*arguments), many(*arguments), rtol=1e-6)


@pytest.mark.parametrize(
    ("flags", "backend", "once", "expected"),
    [
        ("", "cpu", False, {"xla_backend_optimization_level": 1}),
        ("", "cpu", True, {"xla_backend_optimization_level": 0}),
        ("--xla_backend_optimization_level=3", "cpu", True, None),
        ("", "gpu", False, None),
    ],
)
@pytest.mark.parametrize("newest", [False, True])
def test_only_cpus_compile_with_less_effort_unless_the_user_says_otherwise(
    monkeypatch, flags, backend, once, expected, newest
):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(compilation, "_knows_only_emitters", lambda: newest)
    older = {"xla_cpu_use_fusion_emitters": False} if expected and once and not newest else {}
    assert compilation._options(once=once) == (expected and {**expected, **older})
