"""Many posteriors in one picture: every parameter of each, side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from steinflow.results.figures import BLUE, GREY, INK, ORANGE, style
from steinflow.results.many import Many, ManySummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RED = "#c23b3b"
_COLORS = {"good": BLUE, "doubtful": ORANGE, "bad": _RED}
_MOST_LABELS = 24  # on the axis of posteriors


def posteriors(
    many: Many | ManySummary,
    *,
    parameters: Sequence[str] | None = None,
    max_parameters: int = 6,
    by_mean: bool = False,
) -> "Figure":
    """Draw mean and 90% interval of every parameter, with the posteriors side by side.

    The colour is that of the verdict: blue is good, orange doubtful, red bad. The line is the median of the means.

    Args:
        many: what `sf.fit_many` or `sf.fit_groups` returned, or its summary.
        parameters: names as in the summary; the first ones if not given.
        max_parameters: how many to show at most; the figure says how many there are.
        by_mean: sort the posteriors by their means, separately in every panel, instead of keeping their order.

    Raises:
        ValueError: if there is no such parameter.
    """
    summary = many.summary() if isinstance(many, Many) else many
    chosen = _chosen(summary.parameters, parameters, max_parameters)
    columns, number = summary.columns, len(summary.names)
    with style() as plt:
        size = (max(5.0, min(11.0, 0.045 * number + 3.5)), 1.5 * len(chosen) + 0.9)
        figure, axes = plt.subplots(
            len(chosen), 1, figsize=size, squeeze=False, sharex=not by_mean, layout="constrained"
        )
        for axis, column in zip(axes[:, 0], chosen, strict=True):
            mean, low, high = (columns[name][:, column] for name in ("mean", "5%", "95%"))
            order = np.argsort(mean, kind="stable") if by_mean else np.arange(number)
            for level, color in _COLORS.items():
                own = np.flatnonzero(summary.levels[order] == level)
                rows = order[own]
                axis.vlines(own, low[rows], high[rows], color=color, alpha=0.45, linewidth=1.2)
                axis.plot(own, mean[rows], ".", color=color, markersize=4)
            axis.axhline(np.nanmedian(mean), color=GREY, linewidth=0.8, linestyle="--")
            axis.set_ylabel(summary.parameters[column])
            axis.grid(axis="y", color=GREY, alpha=0.2, linewidth=0.6)
            axis.margins(x=0.01)
            if by_mean:
                axis.set_xticks([])
        if not by_mean:
            shown = np.arange(0, number, -(-number // _MOST_LABELS))
            axes[-1, 0].set_xticks(shown, [summary.names[k] for k in shown], rotation=60, ha="right", color=INK)
        more = (
            f", {len(chosen)} of {len(summary.parameters)} parameters" if len(chosen) < len(summary.parameters) else ""
        )
        figure.suptitle(f"{number} posteriors{more}: mean and middle 90%", fontsize=11)
    return figure


def _chosen(names: Sequence[str], wanted: Sequence[str] | None, most: int) -> list[int]:
    unknown = [name for name in wanted or () if name not in names]
    if unknown:
        raise ValueError(f"There is no parameter {unknown[0]!r}; there are {', '.join(names[:10])}.")
    return [names.index(name) for name in (names if wanted is None else wanted)][:most]
