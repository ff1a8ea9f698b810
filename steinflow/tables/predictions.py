"""What a fitted model says about rows, as a table, and how well it does on rows with known answers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score, root_mean_squared_error

from steinflow.estimators import SteinClassifier, SteinPoissonRegressor
from steinflow.models.columns import Frame, shown
from steinflow.results.summary import number
from steinflow.tables.problems import Estimator
from steinflow.tables.responses import Response

_BINS = 10
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_INTERVAL = 0.9
_FAR = 0.5  # beyond the fitted values, in parts of their range


@dataclasses.dataclass(frozen=True)
class Metric:
    """How a metric is shown.

    Attributes:
        name: in a line of a table.
        heading: on a card of the report.
        hint: what it means.
        best: the best of several values: max, min, or None where neither is.
        is_part: whether it is a part of the rows, shown in percent.
    """

    name: str
    heading: str
    hint: str
    best: Any = None
    is_part: bool = False

    def text(self, value: float | None) -> str:
        """Return a value with sensible digits."""
        if value is None:
            return "–"
        return f"{100 * value:.1f}%" if self.is_part else number(value)


METRICS = {
    "accuracy": Metric("accuracy", "Accuracy", "of the held-out rows are predicted correctly", max, is_part=True),
    "accuracy_of_guessing": Metric(
        "accuracy of guessing", "Guessing", "accuracy of always predicting the most frequent class", is_part=True
    ),
    "calibration_error": Metric(
        "calibration error",
        "Calibration error",
        "0 is perfect: predictions made with a probability of 70% come true 70% of the time",
        min,
    ),
    "rmse": Metric("root mean square error", "Typical error", "root mean square, in units of the target", min),
    "r2": Metric(
        "variance explained (R²)", "R²", "variance explained: 1 is perfect, 0 is no better than the mean", max
    ),
    "coverage_90": Metric(
        "inside their 90% interval",
        "90% intervals",
        "of the held-out rows lie inside their interval; 90% is right",
        is_part=True,
    ),
    "log_likelihood": Metric("log-likelihood per row", "Log-likelihood", "per held-out row; higher is better", max),
}


def prediction_frame(response: Response, estimator: Estimator, X: np.ndarray) -> Frame:
    """Return a table with a row for every row of features: the prediction, and the probabilities or the interval."""
    import pandas

    if isinstance(estimator, SteinClassifier):
        probabilities = estimator.predict_proba(X)
        columns = {f"P({label})": probabilities[:, code] for code, label in enumerate(response.labels)}
        return pandas.DataFrame({"prediction": response.decode(np.argmax(probabilities, axis=1)), **columns})
    low, high = estimator.predict_interval(X, _INTERVAL)
    return pandas.DataFrame({"prediction": estimator.predict(X), "5%": low, "95%": high})


def about_far_rows(frame: Frame, limits: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a remark about rows that lie far outside of those that were fitted, with the column that is farthest.

    Args:
        frame: the rows to predict.
        limits: by column, the smallest and the largest value of the fitted rows.
    """
    limits = {name: pair for name, pair in limits.items() if frame[name].dtype.kind in "iufb"}
    beyond = np.zeros((len(frame), len(limits)))
    for k, (name, (low, high)) in enumerate(limits.items()):
        values = frame[name].to_numpy(float, na_value=np.nan)
        beyond[:, k] = np.fmax(low - values, values - high) / max(high - low, 1e-300)
    far = np.flatnonzero(np.any(beyond > _FAR, axis=1))
    if not len(far):
        return []
    row, column = np.unravel_index(np.nanargmax(beyond), beyond.shape)
    name, (low, high) = list(limits.items())[column]
    value = number(float(frame[name].iloc[row]))
    which = f"Row {row + 1:,} lies" if len(far) == 1 else f"{len(far):,} rows lie"
    where = (
        f"'{shown(name, 40)}' is {value}" if len(far) == 1 else f"in row {row + 1:,}, '{shown(name, 40)}' is {value}"
    )
    return [
        f"{which} far outside of the fitted rows: {where}, which was {number(low)} to {number(high)} there. Nothing "
        "tells whether the model holds so far out."
    ]


def evaluate(estimator: Estimator, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return metrics and calibration on encoded rows with known answers, as plain values.

    Classes: accuracy, the accuracy of always guessing the most frequent class, log-likelihood, and the expected
    calibration error. Numbers: root mean square error, R², log-likelihood, and how many lie in their 90% interval.
    """
    if isinstance(estimator, SteinClassifier):
        metrics, details = about_classes(estimator.predict_proba(X), y.astype(int))
    else:
        metrics, details = _about_numbers(estimator, X, y)
    log_likelihood = float(np.mean(estimator.log_predictive(X, y)))
    return {"num_rows": len(y), "metrics": {**metrics, "log_likelihood": log_likelihood}, **details}


def about_classes(probabilities: np.ndarray, codes: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metrics, calibration and confusion of the probabilities of classes."""
    from sklearn.calibration import calibration_curve  # it loads much of scikit-learn

    num_classes = probabilities.shape[1]
    guess = np.argmax(probabilities, axis=1)
    # Two classes: how often the second one comes true. More: how often the first guess does.
    confidence = probabilities[:, 1] if num_classes == 2 else np.max(probabilities, axis=1)
    confidence = np.clip(confidence, 0.0, 1.0)  # sums may be a rounding error above
    happened = (codes == 1) if num_classes == 2 else (guess == codes)
    frequency, mean = calibration_curve(happened, confidence, n_bins=_BINS)
    counts = np.bincount(np.digitize(confidence, np.linspace(0, 1, _BINS + 1)[1:-1], right=True))
    counts = counts[counts > 0]
    metrics = {
        "accuracy": float(accuracy_score(codes, guess)),
        "accuracy_of_guessing": float(np.max(np.bincount(codes)) / len(codes)),
        "calibration_error": float(np.average(np.abs(mean - frequency), weights=counts)),
    }
    curve = [[float(p), float(f), int(n)] for p, f, n in zip(mean, frequency, counts, strict=True)]
    confusion = confusion_matrix(codes, guess, labels=np.arange(num_classes))
    return metrics, {"calibration": curve, "confusion": confusion.tolist()}


def _about_numbers(estimator, X, y):
    shift, scale = estimator.response_shift_, estimator.response_scale_  # squares of huge numbers overflow
    truth, mean = (y - shift) / scale, (estimator.predict(X) - shift) / scale
    is_count = isinstance(estimator, SteinPoissonRegressor)
    chance = np.exp(estimator.log_predictive(X, y)) if is_count else np.zeros(len(y))
    coverage, details = about_intervals(estimator.pit(X, y), chance)
    metrics = {
        "rmse": float(root_mean_squared_error(truth, mean)) * scale,
        "r2": float(r2_score(truth, mean)) if np.ptp(truth) > 0 else None,
        "coverage_90": coverage,
    }
    return metrics, details


def about_intervals(position: np.ndarray, chance: np.ndarray) -> tuple[float, dict[str, Any]]:
    """Return how many rows lie in their central 90% interval, and in those of other sizes.

    Intervals of counts have more than 90%: they end at a count. So a count at an end is inside in part, as far as its
    probability is (Czado, Gneiting and Held 2009), and of a right model 90% are.

    Args:
        position: of every row in its predictive distribution, from 0 to 1: the middle of the jump there.
        chance: the probability of what was observed, which is this jump; zero of real numbers.
    """

    def inside(level):
        low, high = 0.5 - level / 2, 0.5 + level / 2
        common = np.minimum(position + chance / 2, high) - np.maximum(position - chance / 2, low)
        whole = (position >= low) & (position <= high)
        return np.mean(np.where(chance > 0, np.clip(common, 0, None) / np.where(chance > 0, chance, 1.0), whole))

    curve = [[level, float(inside(level)), len(position)] for level in _LEVELS]
    return float(inside(_INTERVAL)), {"calibration": curve}
