"""Calibration of posteriors that are known to be right, and of others that are wrong in known ways."""

import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.results.calibration import Calibration, band
from steinflow.results.outcome import Ending

LEVELS = (np.arange(50) + 0.5) / 50


def calibration(shift=0.0, scale=1.0, number=300, seed=0):
    """Calibrate posteriors of a normal mean, prior N(0, 1), one observation with unit noise; b is always right."""
    rng = np.random.default_rng(seed)
    truth = {name: rng.normal(size=number) for name in "ab"}
    y = {name: values + rng.normal(size=number) for name, values in truth.items()}
    normals = stats.norm.ppf(LEVELS)

    def posterior(k):
        particles = {"a": y["a"][k] / 2 + shift + scale * 0.5**0.5 * normals, "b": y["b"][k] / 2 + 0.5**0.5 * normals}
        x = rng.permuted(np.tile(normals, (2, 1)), axis=1).T.astype(np.float32)
        return sf.Result(
            particles, None, {}, Ending(sf.Outcome.STEP_LIMIT, ""), x, -x, -0.5 * (x**2).sum(axis=1), 1, {}
        )

    return Calibration.of(truth, sf.Many(tuple(map(posterior, range(number))), tuple(map(str, range(number)))))


def test_right_posteriors_pass():
    assert sum(calibration(seed=seed).passed for seed in range(5)) >= 4
    found = calibration()
    assert found.passed
    assert "calibrated" in str(found)
    np.testing.assert_allclose(found.contractions, 0.5, atol=0.1)
    np.testing.assert_allclose(found.z_scores.std(axis=0), 1, atol=0.1)


@pytest.mark.parametrize(
    ("shift", "scale", "words"),
    [(0.4, 1, "posteriors of a are too high"), (0, 0.6, "too narrow"), (0, 2, "too wide"), (-0.4, 1, "too low")],
)
def test_wrong_posteriors_fail_by_name_and_in_words(shift, scale, words):
    found = calibration(shift, scale)
    assert found.failing == ["a"]
    assert words in found.verdict
    assert "look at the model" in found.verdict


@pytest.mark.parametrize(("good", "words"), [(0.9, "look at the model"), (0.3, "inference fails")])
def test_where_most_runs_are_doubtful_they_are_not_called_good(good, words):
    found = calibration(scale=0.6)
    found.posteriors.__dict__["levels"] = np.where(np.arange(300) < 300 * good, "good", "doubtful")
    assert words in found.verdict


@pytest.mark.parametrize("number", [100, 1000])
def test_bands_hold_uniform_numbers_as_often_as_they_say(number):
    lower, upper = band(number, 0.05)
    points, rng, inside = np.arange(1, 100) / 100, np.random.default_rng(1), []
    for _ in range(1000):
        curve = np.searchsorted(np.sort(rng.uniform(size=number)), points, side="right") / number
        inside.append(np.all((curve >= lower) & (curve <= upper)))
    assert 0.93 < np.mean(inside) < 0.975


def test_the_plot_shows_every_parameter():
    figure = calibration(0.4).plot()
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]
    assert "1 not calibrated" in figure.get_suptitle()
