"""Fingerprints are equal for equal values, in any process, and differ where a run would."""

import functools
import os
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

import steinflow as sf
from steinflow.inference.fingerprints import fingerprint, is_fingerprint

SCALE = 2.0


def scaled(x):
    return SCALE * x


def make(factor, data=None):
    return lambda x: factor * x if data is None else data @ x


def test_fingerprints_see_what_counts(monkeypatch):
    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert fingerprint(make(1.0)) != fingerprint(make(2.0))
    assert fingerprint(make(1.0, np.eye(2))) != fingerprint(make(1.0, 2 * np.eye(2)))
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(optax.adam(0.1)) == fingerprint(optax.adam(0.1))
    assert fingerprint(optax.adam(0.1)) != fingerprint(optax.adam(0.2))
    assert fingerprint(sf.SVGD()) != fingerprint(sf.SVGD(kernel=sf.kernels.IMQ(bandwidth=3.0)))
    assert is_fingerprint(fingerprint(1.0))
    assert not is_fingerprint("20 in 2 dimensions")
    before = fingerprint(scaled)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(scaled) != before


class Model:
    """As users write them, with what they hold beside their functions."""

    def __init__(self, value):
        self.value = value

    def log_density(self, x):
        return self.value * x


@pytest.mark.parametrize(
    "of",
    [
        lambda value: functools.partial(scaled, value),
        lambda value: Model(value).log_density,
        lambda value: {"a", value},
        lambda value: jax.jit(make(value)),
        lambda value: sf.data.Mapped(np.full(3, value)),
        lambda value: jax.random.key(int(value)),
        lambda value: {"data": [Model(value)]},
    ],
    ids=["partial", "method", "set", "compiled", "mapped", "key", "object"],
)
def test_fingerprints_see_into(of):
    assert fingerprint(of(1.0)) == fingerprint(of(1.0))
    assert fingerprint(of(1.0)) != fingerprint(of(2.0))


@pytest.mark.slow
def test_fingerprints_hold_in_another_process():
    code = (
        "import optax, numpy as np, jax, jax.numpy as jnp, steinflow as sf\n"
        "from steinflow.inference.fingerprints import fingerprint\n"
        "f = jax.jit(lambda x: jnp.sum(x ** 2) * len({'a', 'b'}))\n"
        "target = sf.Posterior(f, lambda x, r: r @ x, np.eye(3), batch_size=2)\n"
        "print(fingerprint((target, sf.SVGD(optimizer=optax.adam(0.1)), sf.SVGD())))"
    )
    prints = {
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, text=True)
        for seed in ("1", "2")
    }
    assert len(prints) == 1
