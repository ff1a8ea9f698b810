"""What a model says, in pictures: effects of predictors, effects of groups, and new data beside those observed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.results.curves import BAND, effect_of, formula_of, kaplan_meier
from steinflow.results.figures import BLUE, GREY, INK, ORANGE, style
from steinflow.results.result import Result
from steinflow.results.summary import weighted_quantiles
from steinflow.targets.base import Target
from steinflow.targets.flat import from_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = (BLUE, ORANGE, "#3c9d6b", "#8d5fb5", "#b3832f", "#5a6b7b", "#c2517c")
_MOST_LEVELS = 40
_MOST_COUNTS = 60  # different counts in a rootogram
_FEW_COUNTS = 20  # with more of them, the tail would leave no space for the rest
_OVERLAID = 30  # data sets over the observed one
_BINS = 10


def conditional_effects(result: Result, effects: Sequence[Sequence[str]] | None = None) -> "Figure":
    """Draw the mean of the response along each predictor, with 90% bands.

    Other predictors are held fixed: numbers at their mean, text at its most frequent value. Effects of groups are left
    out. Predictors that interact are drawn together: the first along the axis, the second in colours. With several
    classes there is a line for each.

    Args:
        result: of a model by formula.
        effects: columns, or pairs of them, such as `[["age"], ["age", "treated"]]`; by default those of all terms.

    Raises:
        ValueError: if the target is not a formula.
    """
    target = formula_of(result, "conditional_effects")
    chosen = [tuple(names) for names in (target.effects() if effects is None else effects)]
    if not chosen:
        raise ValueError("The formula has no predictors whose effects can be plotted.")
    num_columns = min(3, len(chosen))
    num_rows = -(-len(chosen) // num_columns)
    with style() as plt:
        size = (3.2 * num_columns + 0.8, 2.7 * num_rows + 0.4)
        figure, axes = plt.subplots(num_rows, num_columns, figsize=size, squeeze=False, layout="constrained")
        for axis in axes.flat[len(chosen) :]:
            axis.remove()
        for axis, names in zip(axes.flat, chosen, strict=False):
            _draw_effect(axis, effect_of(result, names))
        if target.regression.family.num_classes is not None:  # the same classes in all panels
            lines = axes.flat[0].get_legend_handles_labels()
            figure.legend(*lines, loc="outside right upper", title=target.about.response.name, title_fontsize=8)
        figure.suptitle("Conditional effects", fontsize=11)
    return figure


def group_effects(result: Result, term: str | None = None) -> "Figure":
    """Draw the effect of every group, sorted, with its 50% and 90% intervals.

    Args:
        result: of a model by formula.
        term: such as `"1|school"`; all terms with one effect per group if not given.

    Raises:
        ValueError: if the target is not a formula, or has no such term.
    """
    target = formula_of(result, "group_effects")
    terms = [name for name in target.regression.group_names() if np.ndim(result.particles[name]) == 2]
    if term is not None and term not in terms:
        raise ValueError(f"There is no group term {term!r} with one effect per group; there are {terms}.")
    if not terms:
        raise ValueError("The formula has no group terms with one effect per group.")
    terms = terms if term is None else [term]
    labels = result.labels
    with style() as plt:
        longest = min(_MOST_LEVELS, max(result.particles[name].shape[1] for name in terms))
        size = (3.6 * len(terms) + 0.6, 0.19 * longest + 1.2)
        figure, axes = plt.subplots(1, len(terms), figsize=size, squeeze=False, layout="constrained")
        for axis, name in zip(axes.flat, terms, strict=True):
            values = np.asarray(result.particles[name], float)
            _draw_forest(axis, values, result.probabilities, list(labels.coords[str(labels.dims[name][0])]))
            axis.set_title(name)
        figure.suptitle("Effects of groups", fontsize=11)
    return figure


def predictive_check(result: Result, *, key: int = 0) -> "Figure":
    """Draw data sets from the posterior predictive distribution beside the observed one.

    For real numbers it draws densities; for counts and classes, how often each value occurs, with 90% intervals, on a
    square-root scale; for two classes, how often the second class came true at each predicted probability. Where
    values are censored it draws the share of rows still without the event, the observed one by Kaplan and Meier.

    Args:
        result: of a target that knows its observations: a formula, a model of `sf.models`, NumPyro or PyMC.
        key: of the draws.

    Raises:
        ValueError: if the target cannot predict new data.
    """
    return _draw_check(result.target, result.predictive(key=key), "Posterior predictive check", calibrated=True)


def prior_check(target: Target, *, num_draws: int = 100, key: int = 0) -> "Figure":
    """Draw data sets from the prior predictive distribution beside the observed one, before anything is fitted.

    A prior is fine if the observed data look plausible under it, and if the data drawn from it are not absurd.

    Args:
        target: one that knows its prior and its observations: a formula, a model of `sf.models`, NumPyro or PyMC.
        num_draws: how many data sets.
        key: of the draws.

    Raises:
        ValueError: if the target cannot predict new data or has no prior.
    """
    observations = target.observations
    if observations is None:
        raise ValueError("This target cannot predict new data: prior_check needs a formula or a model with data.")
    prior_key, data_key = split_key(as_key(key), 2)
    flat, particles = from_prior(target, num_draws, key=prior_key)
    drawn = observations.predictive(flat.to_user(particles), key=data_key)
    return _draw_check(target, drawn, "Prior predictive check", calibrated=False)


def _draw_check(target, drawn, title, *, calibrated):
    observed = target.observations.observed()  # there are some, else there would be nothing predictive
    name = next(name for name in observed if name in drawn)
    y, new = np.asarray(observed[name], float).reshape(-1), np.asarray(drawn[name], float)
    new = new.reshape(len(new), -1)
    is_bound = getattr(getattr(getattr(target, "about", None), "response", None), "is_bound", None)
    with style() as plt:
        figure, axis = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
        if is_bound is not None:
            _draw_survival(axis, y, is_bound, new)
            axis.set_xlabel(name)
        elif calibrated and set(np.unique(y)) <= {0.0, 1.0}:
            _draw_calibration(axis, y, new.mean(axis=0))
        elif np.array_equal(y, np.round(y)) and len(np.unique(y)) <= _MOST_COUNTS:
            _draw_rootogram(axis, y, new)
            axis.set_xlabel(name)
        else:
            _draw_overlay(axis, y, new)
            axis.set_xlabel(name)
        axis.legend()
        figure.suptitle(title, fontsize=11)
    return figure


def _draw_effect(axis, effect):
    for number, curve in enumerate(effect.curves):
        color = _COLORS[number % len(_COLORS)]
        if effect.levels is None:
            axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.2, linewidth=0)
            axis.plot(curve.x, curve.middle, color=color, label=curve.label)
        else:
            x = curve.x + 0.12 * (number - (len(effect.curves) - 1) / 2)
            errors = [curve.middle - curve.low, curve.high - curve.middle]
            axis.errorbar(x, curve.middle, errors, fmt="o", color=color, label=curve.label, markersize=4)
    if effect.levels is not None:
        axis.set_xticks(range(len(effect.levels)), effect.levels)
        axis.set_xlim(-0.5, len(effect.levels) - 0.5)
    axis.set_xlabel(effect.names[0])
    axis.set_ylabel(effect.response)
    if len(effect.names) > 1 and not effect.of_classes:
        axis.legend(title=effect.names[1], title_fontsize=8)


def _draw_forest(axis, values, weights, names):
    limits = weighted_quantiles(values, weights, (0.05, 0.25, 0.75, 0.95))
    mean = weights @ values
    order = np.argsort(mean)
    if len(order) > _MOST_LEVELS:
        half = _MOST_LEVELS // 2
        axis.set_xlabel(f"the {half} smallest and {half} largest of {len(order)}")
        order = np.concatenate([order[:half], order[-half:]])
    y = np.arange(len(order))
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    axis.hlines(y, limits[0, order], limits[3, order], color=BLUE, linewidth=1)
    axis.hlines(y, limits[1, order], limits[2, order], color=BLUE, linewidth=3)
    axis.plot(mean[order], y, "o", color=INK, markersize=3)
    axis.set_yticks(y, [names[k] for k in order])
    axis.set_ylim(-0.8, len(order) - 0.2)


def _draw_overlay(axis, y, new):
    """Densities on a grid that the observed values and most of the new ones lie in."""
    low, high = np.quantile(new, (0.002, 0.998))
    grid = np.linspace(min(low, y.min()), max(high, y.max()), 200)
    _overlay(axis, grid, [_density(grid, row) for row in _some(new)], _density(grid, y))
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def _draw_survival(axis, y, is_bound, new):
    """The share of rows without the event by then; of new rows all events are known."""
    grid = np.linspace(min(0.0, y.min()), y.max(), 200)
    drawn = [kaplan_meier(grid, row, np.zeros(len(row), bool)) for row in _some(new)]
    _overlay(axis, grid, drawn, kaplan_meier(grid, y, is_bound), drawstyle="steps-post")
    axis.set(ylim=(0, 1.02), ylabel="share without the event")


def _overlay(axis, grid, drawn, observed, **options):
    for number, row in enumerate(drawn):
        label = "new data sets" if number == 0 else None
        axis.plot(grid, row, color=BLUE, alpha=0.25, linewidth=0.8, label=label, **options)
    axis.plot(grid, observed, color=INK, linewidth=2, label="observed", **options)


def _some(new):
    return new[np.linspace(0, len(new) - 1, min(len(new), _OVERLAID)).astype(int)]


def _density(grid, values):
    """A kernel density estimate with Silverman's bandwidth, which outliers do not widen."""
    spread = min(np.std(values), np.subtract(*np.quantile(values, (0.75, 0.25))) / 1.34) or np.std(values) or 1.0
    width = 0.9 * spread * len(values) ** -0.2
    total = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).sum(axis=1)
    return total / (len(values) * width * np.sqrt(2 * np.pi))


def _draw_rootogram(axis, y, new):
    counts = np.arange(min(0, y.min()), y.max() + 1)
    expected = np.stack([np.sum(new == count, axis=1) for count in counts], axis=1)
    low, middle, high = np.quantile(np.sqrt(expected), (BAND[0], 0.5, BAND[1]), axis=0)
    axis.bar(counts, np.sqrt([np.sum(y == count) for count in counts]), color=GREY, alpha=0.45, label="observed")
    axis.errorbar(
        counts, middle, [middle - low, high - middle], fmt="o", color=BLUE, markersize=3, label="new data sets"
    )
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("square root of the number of rows")


def _draw_calibration(axis, y, probabilities):
    edges = np.unique(np.quantile(probabilities, np.linspace(0, 1, _BINS + 1)))
    bins = np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, max(len(edges) - 2, 0))
    used = np.unique(bins)
    predicted = np.array([probabilities[bins == k].mean() for k in used])
    happened = np.array([y[bins == k].mean() for k in used])
    errors = np.array([1.645 * np.sqrt(p * (1 - p) / np.sum(bins == k)) for k, p in zip(used, predicted, strict=True)])
    axis.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    axis.fill_between(
        predicted,
        np.clip(predicted - errors, 0, 1),
        np.clip(predicted + errors, 0, 1),
        color=BLUE,
        alpha=0.15,
        linewidth=0,
        label="where 90% would lie",
    )
    axis.plot(predicted, happened, "o-", color=INK, markersize=4, label="observed")
    axis.set(xlabel="predicted probability", ylabel="how often it came true", xlim=(0, 1), ylim=(0, 1))
