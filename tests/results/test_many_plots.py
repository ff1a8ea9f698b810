"""Many posteriors in one figure."""

import numpy as np
import pytest
from known_results import normal_around
from matplotlib import pyplot

import steinflow as sf


@pytest.fixture
def many():
    pyplot.switch_backend("Agg")
    yield sf.Many(tuple(map(normal_around, range(3))), ("one", "two", "three"))
    pyplot.close("all")


def test_the_figure_shows_every_posterior(many):
    figure = sf.plots.posteriors(many)
    assert [axis.get_ylabel() for axis in figure.axes] == ["a", "b[0]", "b[1]"]
    drawn = np.concatenate([line.get_ydata() for line in figure.axes[0].lines if line.get_marker() == "."])
    np.testing.assert_allclose(np.sort(drawn), np.sort(many.mean()["a"]), rtol=1e-5)
    assert [label.get_text() for label in figure.axes[-1].get_xticklabels()] == ["one", "two", "three"]
    assert len(sf.plots.posteriors(many, parameters=["b[1]"], by_mean=True).axes) == 1
    with pytest.raises(ValueError, match="no parameter 'c'"):
        sf.plots.posteriors(many, parameters=["c"])


def test_sorted_by_their_means(many):
    axis = sf.plots.posteriors(many[::-1], parameters=["a"], by_mean=True).axes[0]
    means = np.array([result.mean()["a"] for result in many])
    drawn = {x: y for line in axis.lines if line.get_marker() == "." for x, y in zip(*line.get_data(), strict=True)}
    np.testing.assert_allclose([drawn[k] for k in range(3)], np.sort(means), rtol=1e-5)


def test_parameters_that_are_not_shown_are_counted(many):
    figure = sf.plots.posteriors(many.summary(), max_parameters=2)
    assert len(figure.axes) == 2
    assert figure.get_suptitle() == "3 posteriors, 2 of 3 parameters: mean and middle 90%"
