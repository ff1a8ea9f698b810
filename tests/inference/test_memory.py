"""Runs beyond memory: what is said before it is too late."""

import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.inference import memory

METHOD = sf.SVGD.paper()


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def fit(num_steps=90):
    target = sf.Posterior(log_prior, lambda w, rows: -0.5 * (rows @ w) ** 2, np.ones((103, 2)))
    return sf.fit(target, METHOD, particles=np.ones((10, 2)), num_steps=num_steps, progress=False)


def test_too_little_memory_is_said_before_the_run(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    with pytest.raises(
        MemoryError, match=r"needs about .* and 0 MB is available.*batch_size .*now all 103 rows.*now 10"
    ):
        fit()
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    fit(num_steps=1)


def test_a_run_that_cannot_fit_is_refused():
    """10^5 particles times 10^6 rows of likelihoods: 400 GB."""
    data = jnp.zeros((1_000_000, 1))
    target = sf.Posterior(log_prior, lambda w, rows: jnp.sin(rows @ w) ** 2, data)
    with pytest.raises(MemoryError, match=r"needs about \d{3,}\.\d GB of working memory.*a smaller batch_size"):
        sf.fit(target, METHOD, particles=np.ones((100_000, 1)), num_steps=1, progress=False)


def test_available_memory_is_plausible():
    available = memory.available_memory()
    assert available is None or 2**26 < available < 2**50
