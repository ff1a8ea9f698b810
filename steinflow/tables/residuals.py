"""Fitted rows beside rows drawn anew, and what the columns of a table say about their residuals."""

import dataclasses
from typing import Literal

import numpy as np
from scipy import stats

from steinflow.models.columns import Column, Frame, label_of, shown
from steinflow.tables.alternatives import Model

Kind = Literal["numbers", "counts", "classes", "times"]
MOST_ROWS, MOST_DRAWS = 2000, 400  # that are drawn anew
MOST_COLUMNS = 200  # whose residuals are looked at
SURE = 1e-3  # the chance of a false alarm for each kind of check
_BINS = 10  # of an amount


@dataclasses.dataclass(frozen=True)
class Events:
    """Whether each row has had its event, and how many events the model expects until then: the cumulative hazard."""

    happened: np.ndarray
    expected: np.ndarray


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Fitted rows beside rows drawn anew.

    Attributes:
        kind: numbers, counts, classes, or times of which some are censored.
        y: what was observed; for classes, whether the expected class came true.
        mean: what was expected; for classes, the probability.
        sd: of the predictive distribution.
        draws: one data set per row of this matrix; None for classes.
        frame: all columns of the table, for these rows.
        used: the columns that the model uses.
        model: what advice depends on.
        pooled: whether effects of groups are pulled towards their mean. Then residuals of fitted rows grow with the
            prediction even if the model is right.
        events: of times, which alone say how far the model is from what was observed.
    """

    kind: Kind
    y: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    draws: np.ndarray | None
    frame: Frame
    used: frozenset[str]
    model: Model
    pooled: bool = False
    events: Events | None = None

    @property
    def residuals(self) -> np.ndarray:
        """What was observed beyond what was expected, in sds; of times the martingale residuals, in events."""
        if self.events is not None:
            happened, expected = self.events.happened, self.events.expected
            return (happened - expected) / np.sqrt(max(np.mean(expected), 1e-12))
        return (self.y - self.mean) / np.maximum(self.sd, 1e-12 * max(np.std(self.y), 1e-300))


def chosen_rows(num_rows: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the fitted rows that are drawn anew, the same for every run; each as often as it counts."""
    if weights is not None:
        return as_often(weights)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:MOST_ROWS])


def as_often(weights: np.ndarray) -> np.ndarray:
    """Return numbers of rows, each as often as its weight says; a sample of them where they are many, or fractions."""
    total = np.sum(weights)
    if total <= MOST_ROWS and np.array_equal(weights, np.round(weights)):
        return np.repeat(np.arange(len(weights)), weights.astype(int))
    size = int(np.clip(np.round(total), 1, MOST_ROWS))
    return np.sort(np.random.default_rng(0).choice(len(weights), size, p=weights / total))


@dataclasses.dataclass(frozen=True)
class Look:
    """Fitted rows, with what every column says about their residuals.

    Attributes:
        drawn: the rows.
        found: by column (None is the prediction), the share of the variance of residuals that it explains, and the
            chance of so much by itself.
        noisy: the column by which the size of residuals differs most, where that is no chance.
    """

    drawn: Drawn
    found: dict[str | None, tuple[float, float]]
    noisy: str | None

    @classmethod
    def at(cls, drawn: Drawn) -> "Look":
        """Look at the first columns."""
        residuals = drawn.residuals
        # Of these families the mean says how large residuals are; where they are smaller, classes are separated.
        least = 1.0 if drawn.kind != "numbers" else 0.0
        found, noise = {}, {}
        for name in list(drawn.frame.columns)[:MOST_COLUMNS]:
            codes = _levels(drawn.frame[name])
            if codes is not None:
                along = _numbers(drawn.frame[name]) if name in drawn.used and _is_amount(drawn.frame[name]) else None
                found[name] = _explained(residuals, codes, along, least)
                noise[name] = _explained(np.abs(residuals), codes)
        codes = None if drawn.pooled else _bins(drawn.mean)
        if codes is not None:
            found[None] = _explained(residuals, codes, drawn.mean, least)
        noisy = max(noise, key=lambda name: noise[name][0], default=None)
        is_chance = noisy is None or noise[noisy][1] > SURE / len(noise)
        return cls(drawn, found, None if is_chance else noisy)

    def levels(self, name: str) -> int | None:
        """Return how many levels a column has; None for an amount."""
        values = self.drawn.frame[name]
        return None if _is_amount(values) else int(values.nunique(dropna=False))

    @property
    def noise(self) -> tuple[str, ...]:
        """Noise that depends on a column, where it seems to."""
        return () if self.noisy is None else self.drawn.model.noise(self.noisy, self.levels(self.noisy))

    @property
    def curve(self) -> tuple[str, ...]:
        """A curve in the amount that explains most of the residuals."""
        amounts = [name for name in self.found if name in self.drawn.model.amounts and self.levels(name) is None]
        name = max(amounts, key=lambda name: self.found[name][0], default=None)
        return self.drawn.model.curve(name, 0 if name is None else self.drawn.frame[name].nunique())


def _explained(residuals, codes, along=None, least=0.0) -> tuple[float, float]:
    """Return the share of the variance that levels explain beyond chance, and the chance of so much by itself.

    Args:
        residuals: of every row.
        codes: the level of every row.
        along: numbers along which a line is taken out first. A prior that pulls slopes towards zero leaves it in the
            residuals of fitted rows, even if the model is right.
        least: the variance within levels that the model expects at least.
    """
    line = np.ones((len(codes), 1)) if along is None else np.stack([np.ones(len(codes)), along - along.mean()], axis=1)
    residuals = residuals - line @ np.linalg.lstsq(line, residuals)[0]
    counts = np.bincount(codes)
    sums = np.bincount(codes, residuals)
    total = np.sum(residuals**2)
    between = np.sum(sums**2 / np.maximum(counts, 1))
    free = np.count_nonzero(counts) - line.shape[1], len(codes) - np.count_nonzero(counts)
    if min(free) < 1 or not total > between:
        return 0.0, 1.0
    within = max((total - between) / free[1], least)
    chance = stats.f.sf(between / free[0] / within, *free)
    return max(0.0, float((between - free[0] * within) / total)), float(chance)


def _levels(values):
    """Return the level of every row: values that come several times, or bins of an amount; None if there is nothing."""
    if _is_amount(values):
        return _bins(_numbers(values))
    codes, levels = levels_of(values)
    return codes if 1 < len(levels) <= len(values) / 2 else None


def levels_of(values: Column) -> tuple[np.ndarray, list[str]]:
    """Return the number of the level of every row, and the levels in order; a missing value is a level."""
    cells = values if values.dtype.kind in "iufb" else values.astype(object).map(str).where(values.notna(), "missing")
    codes, levels = cells.factorize(sort=True, use_na_sentinel=False)
    return codes, ["missing" if level != level else shown(label_of(level), 30) for level in levels]


def _numbers(values):
    """Return numbers, with the median where they are missing."""
    numbers = values.to_numpy(float, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nanmedian(numbers))


def _is_amount(values) -> bool:
    """Whether values are taken in bins: numbers with many of them, most of which do not come again and again."""
    return values.dtype.kind in "iuf" and (values.dtype.kind == "f" or values.nunique() > len(values) / 5)


def _bins(values):
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
    codes = np.searchsorted(edges, values)
    return codes if np.ptp(codes) else None if np.ptp(values) == 0 else (values > edges[0]).astype(int)
