"""Whether the model fits the table, which no verdict on the inference can say: the posterior of a wrong model is wrong.

Some of the fitted rows are drawn anew from the posterior predictive distribution, once for each of some particles, and
compared with what was observed: mean, spread, zeros, extremes, values below zero. Residuals are looked at by every
column of the table, used or not, and along the prediction. On held-out rows it counts how many lie in their intervals,
or how often probabilities come true. Each finding says what to try.
"""

import dataclasses
from typing import Any, Literal

import numpy as np
from scipy import stats

from steinflow.models.columns import Frame, counted, in_formula, shown
from steinflow.results.summary import number
from steinflow.results.verdict import Level
from steinflow.tables.remedies import formula_option

Kind = Literal["numbers", "counts", "classes"]
MOST_ROWS, MOST_DRAWS = 2000, 400  # that are drawn anew
_SURE = 1e-3  # the chance of a false alarm for each kind of check
_LEAST_ROWS = 20
_BINS = 10  # of an amount
_MOST_COLUMNS = 200  # whose residuals are looked at
_NAMED = 3  # columns, the worst of them
_SHARE_BAD = 0.2  # of the variance of the residuals that a column explains
_COVERAGE, _COVERAGE_OFF, _COVERAGE_BAD = 0.9, 0.03, 0.1
_MEAN_OFF = 0.05  # sds
_SPREAD_OFF, _SPREAD_BAD = 1.1, 1.5  # ratios of sds
_ZEROS_OFF, _ZEROS_BAD = 0.02, 0.1  # of the rows
_MOST_BARS = 60  # of a plot of counts
_NEGATIVE = 0.01  # of the draws


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a model: its level, what was found in words, and what to try."""

    name: str
    level: Level
    text: str
    remedies: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"name": self.name, "level": self.level, "text": self.text, "try": list(self.remedies)}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Fitted rows beside rows drawn anew.

    Attributes:
        kind: numbers, counts or classes.
        y: what was observed; for classes, whether the expected class came true.
        mean: what was expected; for classes, the probability.
        sd: of the predictive distribution.
        draws: one data set per row of this matrix; None for classes.
        frame: all columns of the table, for these rows.
        used: the columns that the model uses.
        family: of the response.
        pooled: whether effects of groups are pulled towards their mean. Then residuals of fitted rows grow with the
            prediction even if the model is right.
    """

    kind: Kind
    y: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    draws: np.ndarray | None
    frame: Frame
    used: frozenset[str]
    family: str
    pooled: bool = False


def model_checks(drawn: Drawn | None, evaluation: dict[str, Any] | None) -> list[Check]:
    """Return all checks, the worst first; checks that found nothing are included."""
    checks = [_on_held_out(evaluation, drawn.family if drawn else "")]
    if drawn is not None and len(drawn.y) >= _LEAST_ROWS:
        checks += [*_on_draws(drawn), *_on_structure(drawn)]
    order = ("bad", "doubtful", "good")
    return sorted(filter(None, checks), key=lambda check: order.index(check.level))


def predictive_shape(drawn: Drawn | None) -> dict[str, Any] | None:
    """Return how many rows have each count, or lie in each interval of numbers: observed, and drawn from the model.

    Plain values for a plot: `edges` of the bars, `observed`, and `low`, `middle` and `high` of the central 90%.
    """
    if drawn is None or drawn.draws is None or len(drawn.y) < 2:
        return None
    y, draws = drawn.y, drawn.draws
    # What few of the draws reach would squeeze all the rest.
    low, high = min(np.min(y), np.quantile(draws, 0.002)), max(np.max(y), np.quantile(draws, 0.998))
    if drawn.kind == "counts" and high - low <= _MOST_BARS:
        edges = np.arange(low, high + 2) - 0.5
    else:
        edges = np.linspace(low, high, _MOST_BARS // 2 + 1) if high > low else np.array([low - 0.5, low + 0.5])
    observed = np.histogram(y, edges)[0]
    limits = np.quantile([np.histogram(row, edges)[0] for row in draws], (0.05, 0.5, 0.95), axis=0)
    names = ("edges", "observed", "low", "middle", "high")
    columns = dict(zip(names, (edges, observed, *limits), strict=True))
    return {"kind": drawn.kind, **{name: np.asarray(values, float).tolist() for name, values in columns.items()}}


def chosen_rows(num_rows: int) -> np.ndarray:
    """Return the fitted rows that are drawn anew, the same for every run."""
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:MOST_ROWS])


def worst(checks: list[dict[str, Any]]) -> Level | None:
    """Return the worst level of saved checks; None where nothing was checked."""
    levels = [check["level"] for check in checks]
    return next((level for level in ("bad", "doubtful", "good") if level in levels), None)


def _on_held_out(evaluation, family):
    if evaluation is None or evaluation["num_rows"] < _LEAST_ROWS:
        return None
    rows, metrics = evaluation["num_rows"], evaluation["metrics"]
    if "coverage_90" in metrics:
        return _on_coverage(metrics["coverage_90"], rows, family)
    return _on_calibration(evaluation["calibration"], rows) if "confusion" in evaluation else None


def _on_coverage(coverage, rows, family):
    text = f"90% intervals contain {coverage:.0%} of {rows:,} held-out rows"
    chance = stats.binomtest(round(coverage * rows), rows, _COVERAGE).pvalue
    if chance > _SURE or abs(coverage - _COVERAGE) < _COVERAGE_OFF:
        return Check("coverage", "good", text)
    if coverage > _COVERAGE:
        return Check("coverage", "doubtful", f"{text}: they are wider than necessary", _NOISE)
    level = "bad" if _COVERAGE - coverage > _COVERAGE_BAD else "doubtful"
    remedies = _COUNTS if family == "poisson" else (*_TAILS, *_NOISE)
    return Check("coverage", level, f"{text}: they are too narrow", remedies)


def _on_calibration(bins, rows):
    expected, seen, counts = (np.array(column, float) for column in zip(*bins, strict=True))
    variance = np.clip(expected * (1 - expected), 1e-3, None)
    chance = stats.chi2.sf(np.sum(counts * (seen - expected) ** 2 / variance), len(counts))
    if chance > _SURE:
        return Check("calibration", "good", f"probabilities come true as often as they say, on {rows:,} held-out rows")
    k = np.argmax(counts * (seen - expected) ** 2 / variance)
    text = (
        f"of {counts[k]:.0f} held-out rows predicted with a probability of {expected[k]:.0%}, {seen[k]:.0%} came true"
    )
    return Check("calibration", "bad" if np.abs(seen - expected)[k] > _SHARE_BAD else "doubtful", text, _CURVE)


def _on_draws(drawn):
    """Compare mean, spread, zeros and extremes with those of data drawn anew."""
    if drawn.draws is None:
        return []
    y, draws = drawn.y, drawn.draws
    scale = max(float(np.std(y)), 1e-300)
    found = []

    def compare(name, statistic, words, judge, remedies):
        observed, new = float(statistic(y)), statistic(draws)
        typical = float(np.median(new))
        # Beyond all of 400 draws: by chance that happens in one of two hundred models.
        level = judge(observed, typical) if observed < np.min(new) or observed > np.max(new) else "good"
        text = f"{words} {number(observed, 3)}; in data drawn from the model it is {number(typical, 3)}"
        found.append(Check(name, level, text, remedies if level != "good" else ()))

    def spread(observed, typical):
        ratio = max(observed, 1e-300) / max(typical, 1e-300)
        off = max(ratio, 1 / ratio)
        return "bad" if off > _SPREAD_BAD else "doubtful" if off > _SPREAD_OFF else "good"

    def zeros(observed, typical):
        off = abs(observed - typical)
        return "bad" if off > _ZEROS_BAD else "doubtful" if off > _ZEROS_OFF else "good"

    is_poisson = drawn.family == "poisson"
    # Counts that were taken for numbers: one remedy for all that follows from it.
    are_counts = drawn.kind == "numbers" and np.min(y) >= 0 and np.array_equal(y, np.round(y)) and np.min(y) <= 1
    tails = _COUNT_FAMILY if are_counts else _COUNTS if is_poisson else _TAILS
    compare("mean", _over_rows(np.mean), "the mean is", lambda o, t: _grade(abs(o - t) / scale, _MEAN_OFF), _CURVE)
    compare("spread", _over_rows(np.std), "the sd is", spread, tails if tails is not _TAILS else (*_TAILS, *_NOISE))
    if drawn.kind == "counts" or np.mean(y == 0) > _ZEROS_OFF:
        share = _over_rows(lambda values, axis: np.mean(values == 0, axis=axis))
        compare("zeros", share, "the share of zeros is", zeros, tails if are_counts else _ZEROS)
    for name, of, words in (("smallest", np.min, "the smallest is"), ("largest", np.max, "the largest is")):
        compare(name, _over_rows(of), words, lambda o, t: _grade(abs(o - t) / scale, 1.0), tails)
    below = float(np.mean(draws < 0))
    if np.min(y) >= 0 and below > _NEGATIVE:
        text = f"{below:.0%} of the values drawn from the model are below zero, but none in the table are"
        found.append(Check("below zero", "doubtful", text, tails if are_counts else _LOG))
    return found


def _on_structure(drawn):
    """Look for columns, or predictions, by which the mean of the residuals varies."""
    residuals = (drawn.y - drawn.mean) / np.maximum(drawn.sd, 1e-12 * max(np.std(drawn.y), 1e-300))
    names = list(drawn.frame.columns)[:_MOST_COLUMNS]
    candidates = [
        *((name, _levels(drawn.frame[name])) for name in names),
        (None, None if drawn.pooled else _bins(drawn.mean)),
    ]
    candidates = [(name, codes) for name, codes in candidates if codes is not None]
    found = []
    for name, codes in candidates:
        share, chance = _explained(residuals, codes)
        if chance < _SURE / len(candidates):
            found.append((share, name))
    if not found:
        text = f"residuals do not depend on any of {counted(len(names), 'column')}"
        text += "" if drawn.pooled else " or on the prediction"
        return [Check("residuals", "good", text)]
    return [_structure(drawn, name, share) for share, name in sorted(found, key=lambda pair: -pair[0])[:_NAMED]]


def _structure(drawn, name, share):
    level: Level = "bad" if share > _SHARE_BAD else "doubtful"
    if name is None:
        return Check(
            "residuals", level, "residuals depend on the prediction: the form of the mean is not right", _CURVE
        )
    quoted, is_amount = f"'{shown(name, 40)}'", _is_amount(drawn.frame[name])
    how = "is in the model" if name in drawn.used else "is not in the model"
    text = f"residuals depend on {quoted}, which {how}: it explains {share:.0%} of their variance"
    own = f"an effect for each value of {quoted}: {formula_option(f'... + (1 | {in_formula(name)})')}"
    if drawn.frame[name].dtype.kind in "iuf":  # text is taken as categories without being told
        own += ", or --categorical"
    curve = f"a curve in {quoted}: {formula_option(f'... + bs({in_formula(name)}, df=5)')}"
    if not is_amount:
        return Check("residuals", level, text, (own,))
    if name in drawn.used:
        return Check("residuals", level, text, (curve, f"an interaction with {quoted}"))
    # Without a predictor a model says less, but that is not wrong; rows that depend on each other make it wrong.
    return Check("residuals", "doubtful", text, (f"{quoted} as a predictor",))


def _explained(residuals, codes) -> tuple[float, float]:
    """Return the share of the variance that levels explain beyond chance, and the chance of so much by itself."""
    counts = np.bincount(codes)
    sums = np.bincount(codes, residuals - residuals.mean())
    total = np.sum((residuals - residuals.mean()) ** 2)
    between = np.sum(sums**2 / np.maximum(counts, 1))
    free = np.count_nonzero(counts) - 1, len(codes) - np.count_nonzero(counts)
    if min(free) < 1 or not total > between:
        return 0.0, 1.0
    within = (total - between) / free[1]
    chance = stats.f.sf(between / free[0] / within, *free)
    return max(0.0, float((between - free[0] * within) / total)), float(chance)


def _levels(values):
    """Return the level of every row: values that come several times, or bins of an amount; None if there is nothing."""
    if _is_amount(values):
        numbers = values.to_numpy(float, na_value=np.nan)
        return _bins(np.where(np.isfinite(numbers), numbers, np.nanmedian(numbers)))
    codes, levels = values.astype(str).factorize()
    return codes if 1 < len(levels) <= len(values) / 2 else None


def _is_amount(values) -> bool:
    """Whether values are taken in bins: numbers with many of them, most of which do not come again and again."""
    return values.dtype.kind in "iuf" and (values.dtype.kind == "f" or values.nunique() > len(values) / 5)


def _bins(values):
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
    codes = np.searchsorted(edges, values)
    return codes if np.ptp(codes) else None if np.ptp(values) == 0 else (values > edges[0]).astype(int)


def _over_rows(function):
    return lambda values: function(values, axis=-1)


def _grade(off, limit) -> Level:
    return "doubtful" if off > limit else "good"


_COUNT_FAMILY = ('a family of counts: --model poisson, or --formula "..." --family negbinomial',)
_COUNTS = ('counts that vary more than Poisson counts: --formula "..." --family negbinomial',)
_ZEROS = ('zeros with a separate cause: --formula "..." --family zero_inflated_poisson or hurdle_negbinomial',)
_TAILS = (
    'heavier tails: --formula "..." --family t',
    'the logarithm of the target: --formula "..." --family lognormal, where it is positive',
)
_NOISE = ('noise that depends on a column: a second --formula "sigma ~ x"',)
_LOG = (
    'a family of positive numbers: --formula "..." --family lognormal or gamma',
    'the logarithm: --formula "log(y) ~ ..."',
)
_CURVE = ('a curve or an interaction: --formula "y ~ bs(x, df=5) + x * z", or --model network',)
