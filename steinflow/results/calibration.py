r"""Simulation-based calibration: does inference find what was put in, as often as it claims?

Parameters drawn from the prior, data simulated with them, posteriors fitted to the data: over many such rounds a
parameter's true value lies at a uniformly distributed quantile u of its own posterior, whatever the model (Talts et
al., arXiv:1804.06788). The empirical distribution of the u is compared with the uniform one in bands that hold for the
whole curve (Säilynoja et al., arXiv:2103.10522): with $R_i$ of N values below $z_i$,

$$\gamma = 2 \min_i \min\bigl(P(B_i \le R_i),\, P(B_i \ge R_i)\bigr), \qquad B_i \sim \mathrm{Bin}(N, z_i),$$

is compared with the same of simulated uniform numbers. Beside it are the z-score of the posterior mean and how far
the posterior variance contracts from that of the prior (Schad et al., arXiv:1904.12765).
"""

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from steinflow.results.figures import BLUE, GREY, ORANGE, style
from steinflow.results.many import Many
from steinflow.results.summary import columns_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 100  # of the curve
_SIMULATIONS = 20_000  # of uniform numbers: enough for levels of one in a thousand
_LEVEL = 0.05  # of a false alarm, of all parameters together
_SHIFT, _WIDTH = 0.02, 0.1  # of the mean of u, and of its variance relative to 1/12, that are put into words


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """What simulation-based calibration found.

    Attributes:
        names: of the parameters.
        quantiles: where every true value lies in its posterior, from 0 to 1: simulations x parameters.
        z_scores: (posterior mean - true value) / posterior sd, of the same shape; their sd is 1 if posteriors are
            right.
        contractions: 1 - mean posterior variance / prior variance of every parameter: 0 if the data say nothing about
            it, near 1 if the data determine it.
        posteriors: the posteriors themselves, in the order of the simulations.
    """

    names: list[str]
    quantiles: np.ndarray
    z_scores: np.ndarray
    contractions: np.ndarray
    posteriors: Many

    @classmethod
    def of(cls, truths, posteriors: Many) -> "Calibration":
        """Compare posteriors with the values that their data were simulated from, a pytree with a leading axis."""
        names, true = columns_of(truths, posteriors[0].labels)
        found = np.stack([columns_of(result.with_equal_weights().particles)[1] for result in posteriors])
        mean, sd = found.mean(axis=1), np.maximum(found.std(axis=1), 1e-30)
        levels = (np.arange(found.shape[1]) + 0.5) / found.shape[1]
        quantiles = np.empty_like(true)
        for k, j in np.ndindex(true.shape):
            quantiles[k, j] = np.interp(true[k, j], np.sort(found[k, :, j]), levels)
        contractions = 1 - np.mean(sd**2, axis=0) / np.maximum(np.var(true, axis=0), 1e-30)
        return cls(names, quantiles, (mean - true) / sd, contractions, posteriors)

    @functools.cached_property
    def p_values(self) -> np.ndarray:
        """For every parameter, the probability that uniform quantiles are at least as uneven as these."""
        uniform = _uniform_statistics(len(self.quantiles))
        found = _statistics(_counts(self.quantiles), len(self.quantiles))
        return np.array([np.mean(uniform <= value) for value in found])

    @property
    def failing(self) -> list[str]:
        """The parameters whose quantiles are not uniform. In 5% of all calibrations there is a false alarm."""
        limit = _LEVEL / len(self.names)
        return [name for name, value in zip(self.names, self.p_values, strict=True) if value < limit]

    @property
    def passed(self) -> bool:
        """Whether no parameter fails."""
        return not self.failing

    def __str__(self):
        width = max(map(len, self.names)) + 2
        lines = [" " * width + f"{'mean z':>9}{'sd z':>9}{'contraction':>13}{'p':>9}"]
        for j, name in enumerate(self.names):
            z = self.z_scores[:, j]
            lines.append(
                f"{name:<{width}}{z.mean():>9.2f}{z.std():>9.2f}{self.contractions[j]:>13.2f}{self.p_values[j]:>9.2g}"
            )
        return "\n".join([*lines, "", self.verdict])

    __repr__ = __str__

    @property
    def verdict(self) -> str:
        """What this says, in words."""
        number, levels = len(self.quantiles), self.posteriors.levels
        bad, good = np.sum(levels == "bad"), np.mean(levels == "good")
        runs = f" {bad} of the {number} runs {'is' if bad == 1 else 'are'} bad by their own verdicts." if bad else ""
        if self.passed:
            return f"calibrated: in {number} simulations no parameter strays from what is right.{runs}"
        ways = "; ".join(self._words(name) for name in self.failing)
        likely = (
            "Most likely inference fails: look at calibration.posteriors.summary() and at the verdicts."
            if bad > 0.05 * number or good < 0.5
            else "Most runs are good by their own verdicts, so look at the model: is it the one that was simulated?"
        )
        return f"not calibrated: {ways}.{runs} {likely}"

    def _words(self, name: str) -> str:
        u = self.quantiles[:, self.names.index(name)]
        shift, width = np.mean(u) - 0.5, 12 * np.var(u) - 1
        words = []
        if abs(shift) > _SHIFT:
            words.append("too low" if shift > 0 else "too high")
        if abs(width) > _WIDTH:
            words.append("too narrow" if width > 0 else "too wide")
        return (
            f"posteriors of {name} are {' and '.join(words)}" if words else f"posteriors of {name} are of a wrong shape"
        )

    def plot(self, *, max_parameters: int = 12) -> "Figure":
        """Draw how far the distribution of quantiles is from uniform, for every parameter, with a band for chance.

        Parameters that fail come first, in orange. If a curve first rises and then falls, posteriors are too narrow.

        Args:
            max_parameters: how many to show at most.
        """
        number, failing = len(self.quantiles), set(self.failing)
        order = sorted(range(len(self.names)), key=lambda j: self.p_values[j])[:max_parameters]
        lower, upper = band(number, _LEVEL / len(self.names))
        points, counts = _grid(), _counts(self.quantiles)
        columns = min(4, len(order))
        rows = -(-len(order) // columns)
        with style() as plt:
            size = (max(4.0, 2.5 * columns), 2.0 * rows + 0.7)
            figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained")
            for axis in axes.flat[len(order) :]:
                axis.remove()
            for axis, j in zip(axes.flat, order, strict=False):
                axis.fill_between(points, lower - points, upper - points, color=GREY, alpha=0.3, linewidth=0)
                color = ORANGE if self.names[j] in failing else BLUE
                axis.plot(points, counts[j] / number - points, color=color)
                axis.set_title(self.names[j])
                axis.set_xlabel("quantile of the true value")
            for axis in axes[:, 0]:
                axis.set_ylabel("ECDF - uniform")
            shown = f"the worst {len(order)} of {len(self.names)} parameters, " if len(order) < len(self.names) else ""
            verdict = "calibrated" if self.passed else f"{len(failing)} not calibrated"
            figure.suptitle(f"{verdict}: {shown}{number} simulations, 95% bands for all together", fontsize=10)
        return figure


def band(number: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return between which values the distribution of so many uniform numbers stays, but for a share `level`."""
    from scipy.stats import binom

    gamma = np.quantile(_uniform_statistics(number), level)
    points = _grid()
    return binom.ppf(gamma / 2, number, points) / number, binom.ppf(1 - gamma / 2, number, points) / number


def _grid() -> np.ndarray:
    return np.arange(1, _POINTS) / _POINTS


def _counts(quantiles: np.ndarray) -> np.ndarray:
    """Return how many of the values are below every point of the grid, a row for each parameter."""
    return np.stack([np.searchsorted(np.sort(column), _grid(), side="right") for column in quantiles.T])


@functools.lru_cache(maxsize=8)
def _uniform_statistics(number: int) -> np.ndarray:
    """Return the statistic of simulated uniform numbers."""
    rng = np.random.default_rng(0)
    counts = np.cumsum(rng.multinomial(number, np.full(_POINTS, 1 / _POINTS), size=_SIMULATIONS), axis=1)[:, :-1]
    return _statistics(counts, number)


def _statistics(counts: np.ndarray, number: int) -> np.ndarray:
    """Return gamma of every row of counts: small where the distribution strays from uniform anywhere."""
    from scipy.stats import binom

    points, values = _grid(), np.arange(number + 1)
    below = binom.cdf(values[:, None], number, points)
    above = binom.sf(values[:, None] - 1, number, points)
    columns = np.arange(len(points))
    return 2 * np.min(np.minimum(below[counts, columns], above[counts, columns]), axis=1)
