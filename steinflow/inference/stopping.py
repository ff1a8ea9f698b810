"""When to stop: rules that look at the history so far."""

import abc
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import numpy as np

_WATCHED = ("dispersion", "dispersion_error", "mean_error")


class StoppingRule(eqx.Module):
    """A rule that sees the history after every record."""

    @abc.abstractmethod
    def __call__(self, history: Mapping[str, Sequence]) -> bool:
        """Return True to stop now."""


Stop = StoppingRule | Callable[[Mapping[str, Sequence]], bool]


class Converged(StoppingRule):
    """Stop when more steps no longer help: KSD has stopped falling, and both spread and mean are right.

    All three matter. KSD also settles on collapsed clouds and on plateaus far from the target, but there the dispersion
    is not 1, or the mean score is not 0. A run that settles while either is wrong goes on to its last step.

    The default SVGD needs no rule: it ends by itself when it knows enough. This rule is for methods that do not, such
    as `sf.SVGD.paper()`, and for minibatches. With minibatches the dispersion of a single record is noisy, so it is
    averaged over the records that `patience` covers, and a coordinate may be off by chance. If noise dominates the
    mean, the run never stops.

    Args:
        patience: how many records KSD may go without falling by `improvement`.
        improvement: the smallest relative fall of KSD that counts.
        dispersion_tolerance: how far the median dispersion may be from 1; any single coordinate may be off by 1.5 times
            as much.
        mean_tolerance: how far the mean may be off, in posterior sds, as estimated by `history["mean_error"]`.

    Raises:
        ValueError: if `patience` is less than 1.
    """

    patience: int = 5
    improvement: float = 0.05
    dispersion_tolerance: float = 0.1
    mean_tolerance: float = 0.05

    def __check_init__(self):
        if self.patience < 1:
            raise ValueError(f"patience must be a number of records, at least 1; got {self.patience}.")

    def __call__(self, history: Mapping[str, Sequence]) -> bool:
        ksd = np.asarray(history["ksd"])
        if len(ksd) <= self.patience or not np.isfinite(ksd[-1]):
            return False
        settled = min(ksd[-self.patience :]) > (1 - self.improvement) * min(ksd[: -self.patience])
        recent = {name: np.asarray(history[name][-self.patience :]) for name in _WATCHED}
        spread, chance = recent["dispersion"], 0.0
        if "dispersion_noise" in history:
            spread, chance = np.mean(spread), np.median(history["dispersion_noise"][-self.patience :])
        spread_is_right = (
            np.all(np.abs(spread - 1) <= self.dispersion_tolerance)
            and np.median(recent["dispersion_error"]) <= 1.5 * self.dispersion_tolerance + chance
        )
        mean_is_right = np.median(recent["mean_error"]) <= self.mean_tolerance
        return bool(settled and spread_is_right and mean_is_right)
