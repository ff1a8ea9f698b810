import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd.modes import Modes, log_mass, split

RNG = np.random.default_rng(0)
CHAINS = np.arange(2000) % 50


def states(centers, dim=3):
    """Of unit Gaussians at these places on the first axis, one for every chain, and their log densities."""
    points = RNG.standard_normal((2000, dim))
    log_densities = -0.5 * np.sum(points**2, axis=1)
    points[:, 0] += np.asarray(centers)[CHAINS]
    return points, log_densities


@pytest.mark.parametrize(
    "points",
    [
        RNG.standard_normal((2000, 3)),
        RNG.random((2000, 3)),
        RNG.standard_t(3, (2000, 3)),
        np.linspace(-3, 3, 2000)[:, None] + 0.1 * RNG.standard_normal((2000, 2)),
    ],
    ids=["normal", "uniform", "heavy tails", "a ridge"],
)
def test_one_mode_is_not_split(points):
    assert not np.any(split(points, CHAINS))


def test_modes_are_found_though_some_chains_pass_between_them():
    centers = np.repeat([0.0, 10.0, 30.0], [20, 25, 5])
    points, _ = states(centers)
    passing = (CHAINS < 3) & (np.arange(2000) > 1000)  # in the second half of their way they are elsewhere
    points[passing, 0] += 10
    where = np.round((points[:, 0]) / 10).astype(int)
    modes = split(points, CHAINS)
    assert len(np.unique(modes)) == 3
    assert np.mean([len(np.unique(where[modes == k])) == 1 or np.ptp(points[modes == k, 0]) < 9 for k in range(3)]) == 1


@pytest.mark.parametrize("dim", [1, 5, 30])
def test_the_mass_of_a_gaussian(dim):
    sds = np.linspace(0.1, 10, dim)
    points = RNG.standard_normal((4000, dim)) * sds
    values = 7.0 - 0.5 * np.sum((points / sds) ** 2, axis=1)
    exact = 7.0 + 0.5 * dim * np.log(2 * np.pi) + np.sum(np.log(sds))
    assert log_mass(points, values) == pytest.approx(exact, abs=0.12)


def test_modes_have_the_weights_of_their_masses():
    points, log_densities = states(np.repeat([0.0, 10.0], [40, 10]))
    log_densities[CHAINS >= 40] += np.log(3)
    modes = Modes.of(points, log_densities, CHAINS)
    assert modes is not None
    assert modes.weights.sum() == pytest.approx(1.0)
    assert modes.weights[CHAINS >= 40].sum() == pytest.approx(0.75, abs=0.04)
    assert np.mean(modes.evenly()[:, 0] > 5) == pytest.approx(0.75, abs=0.04)
    assert modes.count == 2
    assert modes.mixing() < 1.05


def test_a_mode_without_mass_counts_for_nothing():
    points, log_densities = states(np.repeat([0.0, 10.0], [25, 25]))
    log_densities[CHAINS >= 25] -= 50
    modes = Modes.of(points, log_densities, CHAINS)
    assert modes is not None
    assert modes.count == 1
    assert np.all(modes.evenly()[:, 0] < 6)


@pytest.mark.parametrize("key", range(3))
def test_a_long_tail_is_no_mode(key):
    """The log of a scale that may be zero: few chains are far out, and each stays there for long."""
    rng = np.random.default_rng(key)
    tail = -rng.exponential(1.5, size=100)
    tail[:2] = -12.0, -10.0
    noise = rng.normal(size=(40, 100, 2))
    points = (noise + np.stack([tail, 0 * tail], axis=1)).reshape(-1, 2)
    assert not np.any(split(points, np.arange(len(points)) % 100))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 10])
def test_two_modes_eight_sds_apart(dim):
    """A third of the mass is on the left, where the start has more than half of the particles."""

    def log_density(x):
        rest = -0.5 * jnp.sum(x[1:] ** 2)
        left, right = jnp.log(1 / 3) - 0.5 * (x[0] + 4) ** 2, jnp.log(2 / 3) - 0.5 * (x[0] - 4) ** 2
        return rest + jnp.logaddexp(left, right)

    sd = np.sqrt(1 + 16 - (4 / 3) ** 2)
    for key in range(3):
        start = 4 * jax.random.normal(jax.random.key(key), (100, dim)) - 1.0
        result = sf.fit(log_density, particles=start, key=key, progress=False)
        x = np.asarray(result.particles[:, 0])
        assert abs(np.mean(x < 0) - 1 / 3) < 0.05
        assert abs(x.mean() - 4 / 3) < 0.1 * sd
        assert x.std() == pytest.approx(sd, rel=0.05)
        assert "2 modes" in str(result.verdict)
