"""What a run does where nothing was said."""

import jax
import numpy as np
import pytest
from runs import X0, run
from scenarios import normal_log_density

import steinflow as sf
from steinflow.inference.defaults import default_limits, default_num_particles, default_num_steps


class Network(sf.Target):
    """Of unidentified weights."""

    @property
    def identified(self):
        return False

    def log_density(self, params, batch=None):
        return normal_log_density(params)


def test_a_hundred_particles_from_the_prior():
    target = sf.Density(normal_log_density, prior=lambda key: jax.random.normal(key, (2,)))
    assert len(run(target, particles=None)) == 100


@pytest.mark.parametrize(
    ("target", "shape", "method"),
    [
        (sf.Density(normal_log_density), (2, 20), sf.SVGD()),
        (Network(), (20, 2), sf.SVGD()),
        (Network(), (2, 20), sf.Ensemble()),
    ],
    ids=["identified", "more particles than weights", "network"],
)
def test_the_default_method(target, shape, method):
    particles = X0.reshape(shape)
    found, expected = (run(target, chosen, particles=particles, num_steps=2) for chosen in (None, method))
    np.testing.assert_array_equal(found.particles, expected.particles)


def test_how_many_particles_and_steps():
    assert default_num_particles(sf.Density(normal_log_density)) == 100
    assert default_num_particles(Network()) == 10
    assert default_num_steps(sf.SVGD()) == default_num_steps(sf.NUTS(), num_layers=3) == 1000
    assert default_num_steps(sf.Ensemble(), num_layers=2) == 20_000
    assert default_limits(sf.SVGD()) == (1000, 5000)
    assert default_limits(sf.Ensemble()) == (10_000, 10_000)
