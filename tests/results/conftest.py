import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_results import result_at
from scenarios import normal_log_density

import steinflow as sf


@pytest.fixture(scope="session")
def good_run():
    """The default in 30 dimensions."""
    return sf.fit(normal_log_density, particles=_start(), num_steps=300, progress=False)


@pytest.fixture(scope="session")
def collapsed_run():
    """The paper's kernel in 30 dimensions."""
    return sf.fit(normal_log_density, sf.SVGD.paper(1.0), particles=_start(), num_steps=300, progress=False)


@pytest.fixture(scope="session")
def named():
    """Two named parameters, one of them a vector; the particles recorded on their way."""
    rng = np.random.default_rng(0)
    return _recorded({"scale": 1 + np.arange(20.0) / 20, "w": rng.normal(size=(20, 9))}, _named_log_density)


@pytest.fixture(scope="session")
def line():
    """One parameter, a bare array."""
    return _recorded(np.linspace(3.0, 5.0, 12), normal_log_density)


def _start():
    return np.random.default_rng(0).standard_normal((100, 30)).astype(np.float32)


def _named_log_density(params):
    return -0.5 * (jnp.sum(params["w"] ** 2) + params["scale"] ** 2)


def _recorded(particles, log_density):
    """Particles that come closer to zero in four records."""
    recorded = jax.tree.map(lambda leaf: np.multiply.outer([2.0, 1.5, 1.2, 1.0], leaf).astype(np.float32), particles)
    history = {
        "step": np.array([2, 4, 6, 8]),
        "ksd": np.array([2.0, 1.0, 0.5, 0.4], np.float32),
        "dispersion": np.array([3.0, 2.0, 1.2, 1.0], np.float32),
        "particles": recorded,
    }
    return result_at(jax.tree.map(lambda leaf: jnp.asarray(leaf[-1]), recorded), log_density, history=history)
