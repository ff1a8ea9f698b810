"""Whether the model fits the table, which no verdict on the inference can say: the posterior of a wrong model is wrong.

Some of the fitted rows are drawn anew from the posterior predictive distribution, once for each of some particles, and
compared with what was observed: mean, spread, zeros, extremes, values below zero. Residuals are looked at by every
column of the table, used or not, and along the prediction. On held-out rows it counts how many lie in their intervals,
or how often probabilities come true. Each finding says what to try (`alternatives`).
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import stats

from steinflow.models.columns import counted, shown
from steinflow.results.summary import number
from steinflow.results.verdict import Level
from steinflow.tables.alternatives import FEW_LEVELS
from steinflow.tables.residuals import MOST_COLUMNS, SURE, Drawn, Look, levels_of

_LEAST_ROWS = 20
_NAMED = 3  # columns, the worst of them
_SHARE_BAD = 0.2  # of the variance of the residuals that a column explains
_COVERAGE, _COVERAGE_OFF, _COVERAGE_BAD = 0.9, 0.03, 0.1
_MEAN_OFF = 0.05  # sds
_SPREAD_OFF, _SPREAD_BAD = 1.1, 1.5  # ratios of sds
_SURELY, _SPREAD_SURELY = 6.0, 1.2  # sds of what the model expects, and the ratio that is bad if it is as sure as that
_ZEROS_OFF, _ZEROS_BAD = 0.02, 0.1  # of the rows
_MOST_BARS = 60  # of a plot of counts
_NEGATIVE = 0.01  # of the draws
_MOST_GROUPED, _MOST_GROUPS, _ROWS_PER_GROUP = 4, 20, 3  # columns, levels, and rows of a level on average


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


def model_checks(drawn: Drawn | None, evaluation: dict[str, Any] | None) -> list[Check]:
    """Return all checks, the worst first; checks that found nothing are included."""
    looks = None if drawn is None or len(drawn.y) < _LEAST_ROWS else Look.at(drawn)
    checks = [_on_held_out(evaluation, looks)]
    if looks is not None:
        checks += [*_on_draws(looks), *_on_structure(looks)]
    order = ("bad", "doubtful", "good")
    return sorted(filter(None, checks), key=lambda check: order.index(check.level))


def predictive_shape(drawn: Drawn | None) -> dict[str, Any] | None:
    """Return how many rows have each count, or lie in each interval of numbers: observed, and drawn from the model.

    Plain values for a plot: `edges` of the bars, `observed`, and `low`, `middle` and `high` of the central 90%; and in
    `groups` the same about means by the levels of some columns.
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
    plain = {name: np.asarray(values, float).tolist() for name, values in columns.items()}
    return {"kind": drawn.kind, **plain, "groups": _grouped_means(drawn)}


def _grouped_means(drawn) -> list[dict[str, Any]]:
    """Return the mean of the rows by the levels of some columns, those of the model first: observed, and drawn."""
    found = []
    for name in sorted(drawn.frame.columns, key=lambda name: name not in drawn.used):
        codes, levels = levels_of(drawn.frame[name])
        if not 1 < len(levels) <= _MOST_GROUPS or len(levels) > len(codes) / _ROWS_PER_GROUP:
            continue
        each = np.eye(len(levels))[codes] / np.bincount(codes)
        low, middle, high = np.quantile(drawn.draws @ each, (0.05, 0.5, 0.95), axis=0)
        values = {"observed": drawn.y @ each, "low": low, "middle": middle, "high": high}
        found.append({"column": str(name), "levels": levels, **{key: means.tolist() for key, means in values.items()}})
    return found[:_MOST_GROUPED]


def worst(checks: list[dict[str, Any]]) -> Level | None:
    """Return the worst level of saved checks; None where nothing was checked."""
    levels = [check["level"] for check in checks]
    return next((level for level in ("bad", "doubtful", "good") if level in levels), None)


def _on_held_out(evaluation, look):
    if evaluation is None or evaluation["num_rows"] < _LEAST_ROWS:
        return None
    rows, metrics = evaluation["num_rows"], evaluation["metrics"]
    if "coverage_90" in metrics:
        return _on_coverage(metrics["coverage_90"], rows, look)
    return _on_calibration(evaluation["calibration"], rows, look) if "confusion" in evaluation else None


def _on_coverage(coverage, rows, look):
    text = f"90% intervals contain {coverage:.0%} of {rows:,} held-out rows"
    chance = stats.binomtest(round(coverage * rows), rows, _COVERAGE).pvalue
    if chance > SURE or abs(coverage - _COVERAGE) < _COVERAGE_OFF:
        return Check("coverage", "good", text)
    misfit = "narrower" if coverage > _COVERAGE else "wider"
    remedies = () if look is None else (*_families(look.drawn.model, misfit), *look.noise)
    if coverage > _COVERAGE:
        return Check("coverage", "doubtful", f"{text}: they are wider than necessary", remedies)
    level = "bad" if _COVERAGE - coverage > _COVERAGE_BAD else "doubtful"
    return Check("coverage", level, f"{text}: they are too narrow", remedies)


def _on_calibration(bins, rows, look):
    expected, seen, counts = (np.array(column, float) for column in zip(*bins, strict=True))
    variance = np.clip(expected * (1 - expected), 1e-3, None)
    chance = stats.chi2.sf(np.sum(counts * (seen - expected) ** 2 / variance), len(counts))
    if chance > SURE:
        return Check("calibration", "good", f"probabilities come true as often as they say, on {rows:,} held-out rows")
    k = np.argmax(counts * (seen - expected) ** 2 / variance)
    text = (
        f"of {counts[k]:.0f} held-out rows predicted with a probability of {expected[k]:.0%}, {seen[k]:.0%} came true"
    )
    level = "bad" if np.abs(seen - expected)[k] > _SHARE_BAD else "doubtful"
    return Check("calibration", level, text, () if look is None else look.curve)


def _on_draws(look):
    """Compare mean, spread, zeros and extremes with those of data drawn anew."""
    drawn, model = look.drawn, look.drawn.model
    if drawn.draws is None:
        return []
    y, draws = drawn.y, drawn.draws
    scale = max(float(np.std(y)), 1e-300)
    found = []

    def compare(name, statistic, words, judge, less, more):
        """`less` and `more` say what to try where less, or more, was observed than the model expects."""
        observed, new = float(statistic(y)), statistic(draws)
        typical = float(np.median(new))
        # Beyond all of 400 draws: by chance that happens in one of two hundred models.
        level = judge(observed, new) if observed < np.min(new) or observed > np.max(new) else "good"
        text = f"{words} {number(observed, 3)}; in data drawn from the model it is {number(typical, 3)}"
        remedies = () if level == "good" else more if observed > typical else less
        found.append(Check(name, level, text, tuple(remedies)))

    def spread(observed, new):
        typical = float(np.median(new))
        ratio = max(observed, 1e-300) / max(typical, 1e-300)
        off, surely = max(ratio, 1 / ratio), abs(observed - typical) > _SURELY * np.std(new)
        bad = off > _SPREAD_BAD or (off > _SPREAD_SURELY and surely)
        return "bad" if bad else "doubtful" if off > _SPREAD_OFF else "good"

    def zeros(observed, new):
        off = abs(observed - np.median(new))
        return "bad" if off > _ZEROS_BAD else "doubtful" if off > _ZEROS_OFF else "good"

    def beyond(limit):
        return lambda observed, new: "doubtful" if abs(observed - np.median(new)) / scale > limit else "good"

    wider, narrower, lower, positive = (
        (*_families(model, misfit), *look.noise) for misfit in ("wider", "narrower", "lower", "positive")
    )
    compare("mean", _over_rows(np.mean), "the mean is", beyond(_MEAN_OFF), look.curve, look.curve)
    if drawn.kind == "counts":  # their families say how far they are from their means
        apart = _over_rows(lambda values, axis: np.sqrt(np.mean((values - drawn.mean) ** 2, axis=axis)))
        compare("spread", apart, "the sd around the expected counts is", spread, narrower, wider)
    else:
        compare("spread", _over_rows(np.std), "the sd is", spread, narrower, wider)
    if drawn.kind == "counts" or np.mean(y == 0) > _ZEROS_OFF:
        share = _over_rows(lambda values, axis: np.mean(values == 0, axis=axis))
        fewer, more = (_families(model, misfit) for misfit in ("fewer zeros", "more zeros"))
        compare("zeros", share, "the share of zeros is", zeros, fewer, more)
    compare("smallest", _over_rows(np.min), "the smallest is", beyond(1.0), lower, positive)
    compare("largest", _over_rows(np.max), "the largest is", beyond(1.0), narrower, wider)
    below = float(np.mean(draws < 0))
    if np.min(y) >= 0 and below > _NEGATIVE:
        text = f"{below:.0%} of the values drawn from the model are below zero, but none in the table are"
        found.append(Check("below zero", "doubtful", text, _families(model, "positive")))
    return found


def _families(model, misfit) -> tuple[str, ...]:
    """Return other families; where counts were taken for numbers, this is the remedy for all that follows from it."""
    return model.families("counts" if model.looks_like_counts else misfit)


def _on_structure(look):
    """Name columns, or predictions, by which the mean of the residuals varies."""
    found = [(share, name) for name, (share, chance) in look.found.items() if chance < SURE / len(look.found)]
    if not found:
        num_columns = min(len(look.drawn.frame.columns), MOST_COLUMNS)
        text = f"residuals do not depend on any of {counted(num_columns, 'column')}"
        text += "" if look.drawn.pooled else " or on the prediction"
        return [Check("residuals", "good", text)]
    return [_structure(look, name, share) for share, name in sorted(found, key=lambda pair: -pair[0])[:_NAMED]]


def _structure(look, name, share):
    level: Level = "bad" if share > _SHARE_BAD else "doubtful"
    if name is None:
        text = "residuals depend on the prediction: the form of the mean is not right"
        return Check("residuals", level, text, look.curve)
    drawn, num_levels = look.drawn, look.levels(name)
    how = "is in the model" if name in drawn.used else "is not in the model"
    text = f"residuals depend on '{shown(name, 40)}', which {how}: it explains {share:.0%} of their variance"
    if name in drawn.used:
        codes = drawn.model.curve(name, drawn.frame[name].nunique()) if num_levels is None else ()
        return Check("residuals", level, text, codes or drawn.model.codes(name, num_levels or 0))
    # Without a predictor a model says less, but that is not wrong; rows that depend on each other make it wrong.
    level = level if num_levels is not None and num_levels > FEW_LEVELS else "doubtful"
    is_number = drawn.frame[name].dtype.kind in "iuf"
    return Check("residuals", level, text, drawn.model.predictor(name, num_levels, is_number=is_number))


def _over_rows(function):
    return lambda values: function(values, axis=-1)
