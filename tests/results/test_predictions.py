"""The verdict on predictions: its metrics for members of known spread, its levels, and where it is used."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.results.predictions import judge_predictions, prediction_findings
from steinflow.targets.forecasts import calibration_of_positions
from steinflow.targets.observations import Observations, Predictions

RNG = np.random.default_rng(0)
CALM = {"members": 10.0, "error": 0.05, "drift": 0.02, "between": 0.2, "surprise": 0.9}


class Known(Observations):
    """Particles are their own predictions of 200 numbers, with a noise of sd 1."""

    observed_values: np.ndarray

    def observed(self):
        return {"y": jnp.asarray(self.observed_values)}

    def predictions(self, particles, max_rows):
        means = particles[:, :max_rows]
        return Predictions(means, np.ones_like(means), self.observed_values[:max_rows])


@pytest.fixture
def members():
    """Ten members of 40 networks: an sd of 0.3 between members, 0.1 within."""
    return 0.3 * RNG.normal(size=(10, 1, 200)) + 0.1 * RNG.normal(size=(10, 40, 200))


def test_metrics_of_members_of_known_spread(members):
    found = prediction_findings(Known(RNG.normal(size=200)), members.reshape(400, 200), 10)
    total = 1 + 0.3**2 + 0.1**2
    assert found["error"] == pytest.approx(0.3 / np.sqrt(10 * total), rel=0.1)
    assert found["drift"] == pytest.approx(0.1 / np.sqrt(100 * total), rel=0.3)  # of 200 against 200 networks
    assert found["between"] == pytest.approx(1.0, abs=0.15)
    assert found["surprise"] == pytest.approx(1 / total, rel=0.25)


def test_drift_and_surprise_are_seen(members):
    members[:, 20:] += 1.0
    found = prediction_findings(Known(3 * RNG.normal(size=200)), members.reshape(400, 200), 10)
    assert found["drift"] == pytest.approx(1 / np.sqrt(1 + 0.3**2 + 0.1**2 + 0.25), rel=0.1)
    assert found["surprise"] > 5


def test_every_particle_is_a_member_where_there_are_no_chains():
    found = prediction_findings(Known(np.zeros(200)), 0.5 * RNG.normal(size=(25, 200)), 1)
    assert found["members"] == 25
    assert found["drift"] == 0
    assert found["error"] == pytest.approx(0.5 / np.sqrt(25 * 1.25), rel=0.1)
    assert prediction_findings(None, np.zeros((2, 2)), 1) == {}


@pytest.mark.parametrize(
    ("changes", "level", "reason"),
    [
        ({}, "good", "10 members agree"),
        ({"members": 2.0}, "doubtful", "2 members are too few"),
        ({"error": 0.3}, "doubtful", "another ensemble"),
        ({"error": 0.8}, "bad", "another ensemble"),
        ({"drift": 0.4}, "bad", "still move"),
        ({"surprise": 4.0}, "bad", "2.0 times as large"),
    ],
)
def test_levels(changes, level, reason):
    verdict = judge_predictions({**CALM, **changes}, {})
    assert verdict.level == level
    assert reason in str(verdict)


@pytest.mark.parametrize(
    ("width", "level"),
    [(1.0, "good"), (2.0, "doubtful"), (4.0, "bad"), (0.8, "doubtful"), (0.4, "bad")],
    ids="{}".format,
)
def test_promises_that_are_not_kept(width, level):
    """Normal predictions whose sd is so many times the true one."""
    held_out = calibration_of_positions(stats.norm.cdf(RNG.normal(size=400) / width))
    verdict = judge_predictions(CALM, held_out)
    assert verdict.level == level
    if width > 1:
        assert "too cautious" in str(verdict)
    else:
        assert "promise 90% came true for" in str(verdict)
        assert "of 400 held-out rows (± 3% by chance)" in str(verdict)  # 2 sqrt(0.9 * 0.1 / 400)
    assert verdict.metrics == {**CALM, **held_out}


@pytest.mark.parametrize(
    ("family", "y"),
    [
        (sf.models.VaryingGaussian(), np.linspace(-1, 1, 30)),
        pytest.param(sf.models.Bernoulli(), np.arange(30) % 2, marks=pytest.mark.slow),
        (sf.models.Categorical(3), np.arange(30) % 3),
    ],
    ids=["numbers", "two classes", "three classes"],
)
def test_networks_are_judged_by_their_predictions(family, y):
    X = np.linspace(-2, 2, 30)[:, None]
    model = sf.models.NeuralNetwork(X, y, hidden=(3,), activation="tanh", prior_scale=4.0, family=family)
    result = sf.fit(model, sf.SVGD.paper(), num_particles=4, num_steps=2, key=0, progress=False)
    found = result.info["predictions"]
    assert result.verdict.metrics == found
    # By hand: the errors of the averaged prediction over what all particles expect.
    if model.family.real_valued:
        mean, _, _, total = map(np.asarray, sf.models.uncertainty(model, result.particles, X))
        expected = np.mean((y - mean) ** 2) / np.mean(total**2)
        assert found["surprise"] == pytest.approx(expected, rel=1e-3)
    assert 0 < found["error"] < 1
