"""The look of all plots."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INK, BLUE, ORANGE, GREY = "#26323f", "#2a6fbb", "#e0702b", "#8a949e"
_STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "axes.titlecolor": INK,
    "axes.grid": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
}


@contextmanager
def style() -> Iterator[Any]:
    """Lend pyplot with the settings of these plots for the length of a `with` block.

    Raises:
        ImportError: where matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'steinflow[plot]'.") from error
    with plt.rc_context(_STYLE):
        yield plt
