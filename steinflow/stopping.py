"""When to stop: rules that look at the history so far."""

import abc
from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np


class StoppingRule(eqx.Module):
    """A rule that sees the history after every record."""

    @abc.abstractmethod
    def __call__(self, history: Mapping[str, Sequence]) -> bool:
        """Return True to stop now."""


class Converged(StoppingRule):
    """Stop when KSD no longer falls and the spread is right.

    Both matter: KSD alone settles on collapsed clouds too, and a far cloud on a plateau has a wrong dispersion.

    Args:
        patience: how many records KSD may go without falling by `improvement`.
        improvement: the relative fall of KSD that counts.
        dispersion_tolerance: how far the mean dispersion may be from 1.
    """

    patience: int = 10
    improvement: float = 0.05
    dispersion_tolerance: float = 0.1

    def __check_init__(self):
        if self.patience < 1:
            raise ValueError(f"patience is a number of records, at least 1; got {self.patience}.")

    def __call__(self, history):
        ksd = np.asarray(history["ksd"])
        if len(ksd) <= self.patience or not np.isfinite(ksd[-1]):
            return False
        settled = min(ksd[-self.patience :]) > (1 - self.improvement) * min(ksd[: -self.patience])
        spread = np.mean(history["dispersion"][-self.patience :])
        return bool(settled and abs(spread - 1) <= self.dispersion_tolerance)
