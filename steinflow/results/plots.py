"""Plots of a result: marginals, pairs, the diagnostics over the steps, particles in motion, and what a model says.

Every function takes a `Result` and returns a matplotlib figure, to be shown, changed or saved:

    sf.plots.marginals(result).savefig("marginals.png")
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from steinflow.results.figures import BLUE, GREY, INK, ORANGE, style
from steinflow.results.many_plots import posteriors
from steinflow.results.model_plots import conditional_effects, group_effects, predictive_check, prior_check
from steinflow.results.result import Result
from steinflow.results.summary import columns_of, number, weighted_quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "animate",
    "conditional_effects",
    "group_effects",
    "marginals",
    "motion",
    "pairs",
    "posteriors",
    "predictive_check",
    "prior_check",
    "style",
    "trace",
]

_MAX_PATHS = 300  # more lines than this are a blot


def marginals(result: Result, *, parameters: Sequence[str] | None = None, max_parameters: int = 12) -> "Figure":
    """Draw the density of each parameter, its mean and, darker, the middle 90%.

    Args:
        result: what `fit` returned.
        parameters: names as in the summary, `"w[0]"`, or `"w"` for all of w; the first ones if not given.
        max_parameters: how many to show at most; the figure says how many there are.
    """
    names, values, note = _choose(*columns_of(result.particles, result.labels), parameters, max_parameters)
    num_columns = min(4, len(names))
    num_rows = -(-len(names) // num_columns)
    with style() as plt:
        size = (max(4.0, 2.5 * num_columns), 2.1 * num_rows + 0.6)
        figure, axes = plt.subplots(num_rows, num_columns, figsize=size, squeeze=False, layout="constrained")
        for axis in axes.flat[len(names) :]:
            axis.remove()
        for axis, name, column in zip(axes.flat, names, values.T, strict=False):
            _draw_density(axis, column, result.probabilities, smoothing=_smoothing(result))
            mean = result.probabilities @ column
            sd = np.sqrt(result.probabilities @ (column - mean) ** 2)
            axis.set_title(f"mean {number(mean, 3)}, sd {number(sd, 2)}")
            axis.set_xlabel(name)
        figure.suptitle(f"Marginals of {len(result)} particles{note}", fontsize=11)
    return figure


def pairs(result: Result, *, parameters: Sequence[str] | None = None, max_parameters: int = 6) -> "Figure":
    """Draw every two parameters against each other, with their densities on the diagonal.

    Where particles have weights, their area shows it. The arguments are those of `marginals`.
    """
    names, values, note = _choose(*columns_of(result.particles, result.labels), parameters, max_parameters)
    num = len(names)
    with style() as plt:
        side = max(4.0, 1.5 * num + 0.8)
        figure, axes = plt.subplots(num, num, figsize=(side, side), squeeze=False, layout="constrained")
        for row, column in np.ndindex(num, num):
            axis, x, y = axes[row, column], values[:, column], values[:, row]
            if column > row:
                axis.remove()
                continue
            if column == row:
                _draw_density(axis, x, result.probabilities, smoothing=_smoothing(result))
            else:
                _draw_points(axis, x, y, result.probabilities)
                axis.set_ylim(*_limits(y))
            axis.set_xlim(*_limits(x))
            axis.locator_params(nbins=3)
            axis.tick_params(labelbottom=row == num - 1, labelleft=column == 0 < row)
            axis.set_xlabel(names[column] if row == num - 1 else "")
            axis.set_ylabel(names[row] if column == 0 < row else "")
        figure.suptitle(f"Pairs of parameters, {len(result)} particles{note}", fontsize=11)
    return figure


def trace(result: Result) -> "Figure":
    """Draw KSD and the dispersion over the steps.

    KSD falls while the particles approach the target and levels off at what this number of particles can reach. The
    dispersion should end at 1: 0 to 1 is too narrow, more is too wide.

    Raises:
        ValueError: if the run ended before its first record.
    """
    steps = np.asarray(result.history.get("step", ()))
    if not len(steps):
        raise ValueError("The result has no history to draw: the run ended before its first record.")
    marker = "o" if len(steps) == 1 else None
    with style() as plt:
        figure, (above, below) = plt.subplots(2, 1, figsize=(6, 4.2), sharex=True, layout="constrained")
        above.plot(steps, _visible(result.history["ksd"]), color=BLUE, marker=marker)
        above.set(yscale="log", ylabel="KSD")
        above.yaxis.set_major_locator(plt.LogLocator(subs=(1, 2, 5)))
        above.yaxis.set_major_formatter("{x:g}")
        above.yaxis.set_minor_formatter(plt.NullFormatter())
        below.axhspan(0.9, 1.1, color=GREY, alpha=0.15, linewidth=0)
        below.axhline(1, color=GREY, linewidth=1, linestyle="--")
        spread = _visible(result.history["dispersion"])
        below.plot(steps, spread, color=ORANGE, marker=marker)
        # Far from the target the dispersion takes any size; what matters is how it comes to 1.
        low, high = np.nanmin([0.0, *spread]), np.nanmax([1.2, *spread])
        below.set_ylim(max(low, -1.0), min(1.05 * high, 3.0))
        below.set(xlabel="step", ylabel="dispersion (1 is right)")
        for axis in (above, below):
            axis.grid(axis="y", color=GREY, alpha=0.2, linewidth=0.6)
        figure.suptitle(f"{len(result)} particles: {result.outcome}", fontsize=11)
    return figure


def motion(
    result: Result, *, parameters: Sequence[str] | None = None, recorded: str = "particles", num_frames: int = 5
) -> "Figure":
    """Draw how the particles moved: paths over time for one parameter, a film strip for two.

    Args:
        result: of `fit(..., record={"particles": lambda particles: particles})`.
        parameters: the names of one or two; the first two if not given.
        recorded: the name under which the particles were recorded.
        num_frames: the number of pictures in a film strip.
    """
    steps, names, frames = _recorded(result, parameters, recorded)
    with style() as plt:
        if len(names) == 1:
            return _paths(plt, result, steps, names[0], frames[:, :, 0])
        chosen = np.unique(np.linspace(0, len(steps) - 1, num_frames).round().astype(int))
        figure, axes = plt.subplots(
            1,
            len(chosen),
            figsize=(2.2 * len(chosen), 2.7),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axis, index in zip(axes.flat, chosen, strict=True):
            _draw_points(axis, frames[index, :, 0], frames[index, :, 1], result.probabilities)
            axis.set(title=f"step {steps[index]}", xlabel=names[0])
            axis.set(xlim=_limits(frames[:, :, 0]), ylim=_limits(frames[:, :, 1]))
        axes[0, 0].set_ylabel(names[1])
        return figure


def animate(
    result: Result,
    path: str | Path,
    *,
    parameters: Sequence[str] | None = None,
    recorded: str = "particles",
    seconds: float = 5.0,
    decorate: Callable[["Axes"], Any] | None = None,
) -> Path:
    """Write the particles in motion as an animated GIF.

    Args:
        result: of `fit(..., record={"particles": lambda particles: particles})`.
        path: where to write; should end in `.gif`.
        parameters: the names of one or two; the first two if not given.
        recorded: the name under which the particles were recorded.
        seconds: how long one round takes.
        decorate: a function that adds to every frame, for example the true density.
    """
    steps, names, frames = _recorded(result, parameters, recorded)
    with style() as plt:
        from matplotlib.animation import PillowWriter

        figure, axis = plt.subplots(figsize=(5, 3.4))
        figure.subplots_adjust(left=0.13, right=0.97, bottom=0.15, top=0.91)  # a layout engine would run at every frame

        def draw(index):
            axis.clear()
            axis.set_title(f"step {steps[index]}")
            axis.set_xlabel(names[0])
            if len(names) == 1:
                _draw_density(axis, frames[index, :, 0], result.probabilities, smoothing=_smoothing(result))
            else:
                _draw_points(axis, frames[index, :, 0], frames[index, :, 1], result.probabilities)
                axis.set(ylabel=names[1], ylim=_limits(frames[:, :, 1]))
            axis.set_xlim(*_limits(frames[:, :, 0]))
            if decorate is not None:
                decorate(axis)

        writer = PillowWriter(fps=max(1, round(len(steps) / seconds)))
        with writer.saving(figure, str(path), dpi=100):
            for index in range(len(steps)):
                draw(index)
                writer.grab_frame()  # FuncAnimation would draw every frame twice
        plt.close(figure)
    return Path(path)


def _smoothing(result) -> float:
    """How much of Scott's bandwidth to take: on the line, particles of SVGD lie far more evenly than draws."""
    return 0.5 if result.unconstrained.shape[1] == 1 else 0.8


def _choose(names, values, parameters, max_parameters):
    """Return the chosen names with their columns, and what to say about those left out."""
    if parameters is None:
        chosen = list(range(len(names)))
    else:
        chosen = [i for p in parameters for i, name in enumerate(names) if name == p or name.startswith(f"{p}[")]
        unknown = [p for p in parameters if not any(n == p or n.startswith(f"{p}[") for n in names)]
        if unknown:
            raise ValueError(f"There is no parameter {unknown[0]!r}; there are {', '.join(names[:10])}.")
    note = f", {max_parameters} of {len(chosen)} parameters" if len(chosen) > max_parameters else ""
    chosen = chosen[:max_parameters]
    return [names[i] for i in chosen], values[..., chosen], note


def _recorded(result, parameters, recorded):
    """Return the recorded steps, one or two names, and the particles as an array of records, particles, parameters."""
    if recorded not in result.history:
        raise ValueError(
            f"The history has no {recorded!r}, only {', '.join(result.history)}. Record the particles during the run: "
            f'fit(..., record={{"{recorded}": lambda particles: particles}}).'
        )
    tree = result.history[recorded]
    num_records = len(result.history["step"])
    rows = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *np.shape(leaf)[2:]), tree)
    names, values = columns_of(rows)
    names, values, _ = _choose(names, values, parameters, 2)
    return np.asarray(result.history["step"]), names, values.reshape(num_records, -1, len(names))


def _paths(plt, result, steps, name, positions):
    num = positions.shape[1]
    shown = np.unique(np.linspace(0, num - 1, min(num, _MAX_PATHS)).round().astype(int))
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True, width_ratios=(4, 1), layout="constrained")
    left.plot(steps, positions[:, shown], color=BLUE, alpha=0.3, linewidth=0.7)
    left.set(xlabel="step", ylabel=name, xlim=(steps[0], max(steps[-1], steps[0] + 1)), ylim=_limits(positions))
    _draw_density(right, positions[-1], result.probabilities, smoothing=_smoothing(result), upright=True)
    right.set_xlabel("at the end")
    said = f" ({len(shown)} of {num} shown)" if len(shown) < num else ""
    figure.suptitle(f"Particles in motion{said}", fontsize=11)
    return figure


def _draw_density(axis, values, weights, *, smoothing=0.8, upright=False):
    """A density over the range of the particles, the middle 90% darker, a tick for every particle."""
    fill = axis.fill_betweenx if upright else axis.fill_between
    mean_line = axis.axhline if upright else axis.axvline
    (axis.xaxis if upright else axis.yaxis).set_visible(upright)
    axis.spines["bottom" if upright else "left"].set_visible(False)
    if upright:
        axis.set_xticks([])
    finite = np.isfinite(values)
    values, weights = values[finite], weights[finite] / max(weights[finite].sum(), 1e-300)
    if not len(values):
        axis.text(0.5, 0.5, "not finite", transform=axis.transAxes, ha="center", color=ORANGE)
        return
    mean = weights @ values
    if np.ptp(values) <= 1e-9 * max(abs(mean), 1e-30):  # nothing but rounding
        mean_line(mean, color=BLUE, linewidth=2)
        axis.text(0.5, 0.5, " no spread", transform=axis.transAxes, color=GREY, fontsize=8)
        return
    grid = np.linspace(values.min(), values.max(), 256)
    density = _density(grid, values, weights, smoothing)
    low, high = weighted_quantiles(values, weights, (0.05, 0.95))
    middle = (grid >= low) & (grid <= high)
    fill(grid, 0, density, color=BLUE, alpha=0.2, linewidth=0)
    fill(grid, 0, density, where=middle, color=BLUE, alpha=0.35, linewidth=0)
    axis.plot(*((density, grid) if upright else (grid, density)), color=BLUE)
    mean_line(mean, color=ORANGE, linewidth=1.2)
    ticks = np.full(len(values), -0.04 * density.max())
    axis.scatter(
        *((ticks, values) if upright else (values, ticks)),
        marker="_" if upright else "|", s=18, color=INK, alpha=0.35, linewidth=0.7,
    )  # fmt: skip
    (axis.set_xlim if upright else axis.set_ylim)(-0.1 * density.max(), 1.08 * density.max())


def _density(grid, values, weights, smoothing):
    """A kernel density estimate with a multiple of Scott's bandwidth."""
    sd = np.sqrt(weights @ (values - weights @ values) ** 2)
    width = smoothing * sd * np.sum(weights**2) ** 0.2
    total = np.zeros_like(grid)
    for start in range(0, len(values), 4096):
        part = slice(start, start + 4096)
        total += np.exp(-0.5 * ((grid[:, None] - values[part]) / width) ** 2) @ weights[part]
    return total / (width * np.sqrt(2 * np.pi))


def _draw_points(axis, x, y, weights):
    area = 14 * weights * len(weights)
    axis.scatter(
        x, y, s=area, color=BLUE, alpha=min(0.7, max(0.05, 100 / len(x))), linewidth=0, rasterized=len(x) > 2000
    )


def _limits(values):
    """The range of the finite values with a margin; a margin around a single value."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return -1.0, 1.0
    low, high = finite.min(), finite.max()
    margin = 0.05 * (high - low) or 0.5 * max(abs(high), 1.0)
    return low - margin, high + margin


def _visible(values):
    """Values as floats, with gaps where they are not finite."""
    values = np.asarray(values, float)
    return np.where(np.isfinite(values), values, np.nan)
