"""Whether the model fits the table, which no verdict on the inference can say: the posterior of a wrong model is wrong.

Some of the fitted rows are drawn anew from the posterior predictive distribution, once for each of some particles, and
compared with what was observed: mean, spread, zeros, extremes, values below zero. Residuals are looked at by every
column of the table, used or not, and along the prediction. Where times are censored, it counts the events instead: how
many happened, and how many the model expects until then. On held-out rows it counts how many lie in their intervals, or
how often probabilities come true. Each finding says what to try (`alternatives`).
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import stats

from steinflow.models.columns import counted, shown
from steinflow.results.summary import number
from steinflow.results.verdict import Level
from steinflow.tables.alternatives import FEW_LEVELS
from steinflow.tables.remarks import are_codes
from steinflow.tables.residuals import MOST_COLUMNS, SURE, Drawn, Look

_LEAST_ROWS = 20
_NAMED = 3  # columns, the worst of them
_SHARE_BAD = 0.2  # of the variance of the residuals that a column explains
_COVERAGE, _COVERAGE_OFF, _COVERAGE_BAD = 0.9, 0.03, 0.1
_MEAN_OFF = 0.05  # sds
_SPREAD_OFF, _SPREAD_BAD = 1.1, 1.5  # ratios of sds
_SURELY, _SPREAD_SURELY = 6.0, 1.2  # sds of what the model expects, and the ratio that is bad if it is as sure as that
_ZEROS_OFF, _ZEROS_BAD = 0.02, 0.1  # of the rows
_NEGATIVE = 0.01  # of the draws
_EVENTS_PER_PART, _MOST_PARTS = 10, 5


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
        checks += [*(_on_draws(looks) if looks.drawn.events is None else [_on_events(looks)]), *_on_structure(looks)]
    order = ("bad", "doubtful", "good")
    return sorted(filter(None, checks), key=lambda check: order.index(check.level))


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


def _on_events(look):
    """Compare how many events happened with how many the model expects, in parts of the time that they take.

    Under the model the cumulative hazard at the end of each row is where a Poisson process of rate one ends, or is cut
    off (Cox and Snell 1968): the same number of events is expected in each stretch that all rows spend there.
    """
    events = look.drawn.events
    num_events = int(np.sum(events.happened))
    num_parts = int(np.clip(num_events // _EVENTS_PER_PART, 2, _MOST_PARTS))
    ends = np.quantile(events.expected, np.arange(1, num_parts + 1) / num_parts)
    expected = np.minimum(events.expected, ends[:, None]).sum(axis=1)
    observed = np.array([np.sum(events.happened & (events.expected <= end)) for end in ends])
    each, seen = np.diff(expected, prepend=0.0), np.diff(observed, prepend=0)
    chance = stats.chi2.sf(np.sum((seen - each) ** 2 / np.maximum(each, 1e-9)), num_parts - 1)
    if chance > SURE:
        return Check("events", "good", "events happen when the model expects them")
    k = int(np.argmax(np.abs(observed - expected)))
    how = "sooner" if observed[k] > expected[k] else "later"
    text = f"events come {how} than the model expects: {observed[k]:,} of {num_events:,} by the time it expects "
    text += number(expected[k], 3)
    apart = max(observed[k], 1.0) / max(expected[k], 1.0)
    level = "bad" if max(apart, 1 / apart) > _SPREAD_BAD else "doubtful"
    return Check("events", level, text, look.drawn.model.families("events"))


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
    values = drawn.frame[name]
    how = "is in the model" if name in drawn.used else "is not in the model"
    text = f"residuals depend on '{shown(name, 40)}', which {how}: it explains {share:.0%} of their variance"
    if name in drawn.used:
        codes = drawn.model.curve(name, values.nunique()) if num_levels is None else ()
        return Check("residuals", level, text, codes or drawn.model.codes(name, num_levels or values.nunique()))
    is_number = values.dtype.kind in "iuf"
    if is_number and (num_levels or 0) > FEW_LEVELS:
        residuals = drawn.frame.assign(residual=drawn.residuals)["residual"]
        num_levels = num_levels if are_codes(str(name), values, residuals) else None
    # Without a predictor a model says less, but that is not wrong; rows that depend on each other make it wrong.
    level = level if num_levels is not None and num_levels > FEW_LEVELS else "doubtful"
    return Check("residuals", level, text, drawn.model.predictor(name, num_levels, is_number=is_number))


def _over_rows(function):
    return lambda values: function(values, axis=-1)
