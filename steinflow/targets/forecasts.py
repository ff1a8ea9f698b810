"""What models say about rows whose answers are known, and whether they keep what they promise.

Numbers have a position in their predictive distribution, uniform between 0 and 1 where that is right; classes have
probabilities. Of both the mean over particles is what the mixture of all particles says, so that sums are enough to
remember.
"""

import abc

import equinox as eqx
import numpy as np

from steinflow.typing import Array, Batch, Params

_LEVEL = 0.9  # of the intervals that are promised
_MIDDLE = 0.5  # of those that show best whether all are too wide
_LEVELS = np.arange(1, 10) / 10  # at which the calibration error of numbers is taken
_BINS = 10  # of the confidence in classes
_SURE = 2.0  # standard errors that a broken promise has to exceed


class Forecaster(eqx.Module):
    """A log likelihood of rows that can be held to its predictions."""

    @abc.abstractmethod
    def forecasts(self, params: Params, rows: Batch) -> Array | None:
        """Return what one particle says about every row, rows x numbers; None where it has nothing to say.

        The numbers are a position, or the probabilities of classes.
        """

    @abc.abstractmethod
    def calibration(self, forecasts: np.ndarray, rows: Batch) -> dict[str, float]:
        """Return how well forecasts, means over particles, were kept by these rows."""


def calibration_of_positions(positions: np.ndarray) -> dict[str, float]:
    """Return whether 90% intervals hold 90% of the numbers, given their positions in the predictive distributions.

    Returns:
        `held_out_rows`; `promised`, 0.9, and `kept`, the share in their 90% intervals; `overconfidence`, by how much
        that falls short, less two standard errors; `calibration_error`, how far the shares in the intervals of 10% to
        90% are from that, on average; `underconfidence`, by how much the share in their 50% intervals exceeds that,
        less two standard errors.
    """
    sizes = 2 * np.abs(positions - 0.5)  # of the central interval that just holds the number
    off = np.mean(np.abs(np.mean(sizes[:, None] <= _LEVELS, axis=0) - _LEVELS))
    chance = _SURE * (_MIDDLE * (1 - _MIDDLE) / len(sizes)) ** 0.5
    unsure = np.mean(sizes <= _MIDDLE) - _MIDDLE - chance
    return _kept(len(sizes), _LEVEL, np.mean(sizes <= _LEVEL), _LEVEL * (1 - _LEVEL), off, unsure)


def calibration_of_classes(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return whether the likeliest class is the right one as often as its probability says.

    Returns:
        As for positions; `promised` is the mean probability of the likeliest class, and `kept` its accuracy, from
        which `underconfidence` follows too; `calibration_error` is the expected one, in ten bins.
    """
    confidence, right = np.max(probabilities, axis=1), np.argmax(probabilities, axis=1) == labels
    bins = np.minimum((_BINS * confidence).astype(int), _BINS - 1)
    off = np.sum(np.abs(np.bincount(bins, weights=confidence - right))) / len(right)
    variance = np.mean(confidence * (1 - confidence))
    unsure = np.mean(right) - np.mean(confidence) - _SURE * (variance / len(right)) ** 0.5
    return _kept(len(right), np.mean(confidence), np.mean(right), variance, off, unsure)


def _kept(num_rows, promised, kept, variance, calibration_error, underconfidence):
    values = {
        "held_out_rows": num_rows,
        "promised": promised,
        "kept": kept,
        "overconfidence": max(0.0, promised - kept - _SURE * (variance / num_rows) ** 0.5),
        "underconfidence": max(0.0, underconfidence),
        "calibration_error": calibration_error,
    }
    return {name: float(value) for name, value in values.items()}
