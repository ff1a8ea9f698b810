import dataclasses

import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import steinflow as sf


@pytest.fixture(autouse=True)
def closed_figures(monkeypatch):
    mpl.use("agg")
    yield
    plt.close("all")


def drawn(figure):
    """Render, so that what fails when drawing fails here; return all text in the figure."""
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(mpl.text.Text)]


def xlabels(figure):
    return [axis.get_xlabel() for axis in figure.axes if axis.get_xlabel()]


def test_marginals_show_every_parameter_with_mean_and_sd(named):
    figure = sf.plots.marginals(named)
    assert xlabels(figure) == ["scale", *(f"w[{k}]" for k in range(9))]
    scale = np.asarray(named.particles["scale"])
    assert f"mean {scale.mean():.3g}, sd {scale.std():.2g}" in drawn(figure)


def test_one_parameter(line):
    assert xlabels(sf.plots.marginals(line)) == ["x"]
    assert xlabels(sf.plots.pairs(line)) == ["x"]


def test_many_parameters_are_capped_and_the_figure_says_so(named):
    figure = sf.plots.marginals(named, max_parameters=3)
    assert xlabels(figure) == ["scale", "w[0]", "w[1]"]
    assert "Marginals of 20 particles, 3 of 10 parameters" in drawn(figure)
    assert any("6 of 10 parameters" in text for text in drawn(sf.plots.pairs(named)))


def test_parameters_by_name(named):
    figure = sf.plots.pairs(named, parameters=["w[8]", "scale"])
    assert xlabels(figure) == ["w[8]", "scale"]
    assert len(xlabels(sf.plots.marginals(named, parameters=["w"]))) == 9
    with pytest.raises(ValueError, match=r"no parameter 'v'; there are scale, w\[0\]"):
        sf.plots.marginals(named, parameters=["v"])


def test_density_integrates_to_the_mass_in_range(line):
    axis = sf.plots.marginals(line).axes[0]
    grid, density = axis.lines[0].get_data()
    assert np.trapezoid(density, grid) == pytest.approx(0.9, abs=0.1)


def test_weights_move_the_mean_and_the_area(line):
    weights = jnp.zeros(12).at[3].set(1.0)
    weighted = dataclasses.replace(line, weights=0.9 * weights + 0.1 / 12)
    expected = np.asarray(weighted.weights) @ np.asarray(line.particles)
    assert any(text.startswith(f"mean {expected:.3g}") for text in drawn(sf.plots.marginals(weighted)))


def test_areas_of_points_follow_weights(named):
    weights = jnp.arange(1.0, 21.0) / 210
    figure = sf.plots.pairs(dataclasses.replace(named, weights=weights), parameters=["w[0]", "w[1]"])
    points = figure.axes[1].collections[0]
    np.testing.assert_allclose(points.get_sizes() / points.get_sizes().sum(), weights, rtol=1e-5)


def test_no_spread(line):
    still = dataclasses.replace(line, particles=jnp.full(12, 2.0))
    assert any("no spread" in text for text in drawn(sf.plots.marginals(still)))
    drawn(sf.plots.pairs(still))


def test_particles_that_are_not_finite_are_left_out(line):
    some = dataclasses.replace(line, particles=line.particles.at[0].set(jnp.nan))
    none = dataclasses.replace(line, particles=jnp.full(12, jnp.nan))
    drawn(sf.plots.marginals(some))
    assert "not finite" in drawn(sf.plots.marginals(none))


def test_trace_has_a_point_for_every_record(line):
    figure = sf.plots.trace(line)
    ksd, spread = figure.axes
    np.testing.assert_allclose(ksd.lines[0].get_ydata(), line.history["ksd"], rtol=1e-6)
    np.testing.assert_allclose(spread.lines[-1].get_ydata(), line.history["dispersion"], rtol=1e-6)
    assert ksd.get_ylabel() == "KSD"
    assert spread.get_xlabel() == "step"
    drawn(figure)


def test_trace_without_history(line):
    with pytest.raises(ValueError, match="no history to draw"):
        sf.plots.trace(dataclasses.replace(line, history={}))


def test_trace_of_nothing_finite(line):
    nowhere = {name: np.full_like(values, np.nan) for name, values in line.history.items() if name != "step"}
    drawn(sf.plots.trace(dataclasses.replace(line, history={**line.history, **nowhere})))


def test_motion_on_the_line_draws_a_path_for_every_particle(line):
    figure = sf.plots.motion(line)
    paths = figure.axes[0].lines
    assert len(paths) == 12
    np.testing.assert_allclose(paths[5].get_ydata(), line.history["particles"][:, 5], rtol=1e-6)
    drawn(figure)


def test_motion_in_the_plane_is_a_film_strip(named):
    figure = sf.plots.motion(named, parameters=["w[0]", "w[1]"], num_frames=3)
    steps = [int(step) for step in named.history["step"]]
    shown = [axis.get_title() for axis in figure.axes]
    assert shown[0] == f"step {steps[0]}"
    assert shown[-1] == f"step {steps[-1]}"
    assert len(shown) == 3
    drawn(figure)


def test_motion_needs_a_record(line):
    with pytest.raises(ValueError, match=r"has no 'particles', only .*record=\{\"particles\""):
        sf.plots.motion(dataclasses.replace(line, history={"step": np.arange(3)}))


@pytest.mark.parametrize("parameters", [["w[0]"], ["w[0]", "scale"]])
def test_animation(named, tmp_path, parameters):
    path = sf.plots.animate(named, tmp_path / "film.gif", parameters=parameters, seconds=1)
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.n_frames == len(named.history["step"])
    assert not plt.get_fignums()


def test_style_does_not_leak(line):
    before = dict(mpl.rcParams)
    sf.plots.marginals(line)
    assert dict(mpl.rcParams) == before
