"""The parameters that are worth a look, by name: how they are recorded, and what the posterior says about them."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from steinflow.results.summary import weighted_quantiles
from steinflow.tables.problems import Estimator, Problem
from steinflow.typing import Array, Params

FOLLOWED = 60  # parameters to follow through a run
_SHOWN_UNITS = 8  # of a network
_PRECISIONS = ("log_alpha", "log_gamma")  # of a linear model: of its weights, and of its noise


@dataclasses.dataclass(frozen=True)
class Recorder:
    """Parameters as the columns of a matrix, on the scale of the model; equal recorders share their compiled code.

    Attributes:
        is_network: whether the particles are those of a network.
        most: how many columns to return at most.
    """

    is_network: bool
    most: int | None = FOLLOWED

    def __call__(self, particles: Params) -> Array:
        """Return weights, the prior's sd of a linear model and the noise's sd, one row per particle."""
        weights = particles["weights"][-1] if self.is_network else particles["w"]
        weights = jnp.reshape(weights, (len(weights), -1))
        columns = [weights[:, :_SHOWN_UNITS] if self.is_network else weights]
        columns += [jnp.exp(-0.5 * particles[name])[:, None] for name in _PRECISIONS if name in particles]
        return jnp.concatenate(columns, axis=1)[:, : self.most]


def parameter_names(problem: Problem) -> list[str]:
    """Return the names of the columns of a `Recorder`."""
    if problem.hidden:
        return [f"last layer, weight {k + 1}" for k in range(num_coefficients(problem))]
    features, intercepts = problem.features.labels, ["intercept"]
    if _num_outputs(problem) > 1:
        features, intercepts = (
            [f"{name} → {label}" for name in names for label in problem.response.labels]
            for names in (features, intercepts)
        )
    noise = ["noise sd"] if problem.response.kind == "numbers" else []
    others = [*intercepts, "prior sd of weights", *noise]
    return [*_apart_from(features, others), *others]


def _apart_from(names, others) -> list[str]:
    """Return names of which none is among others, and none comes twice; a column may be called as it likes."""
    found, taken = [], set(others)
    for name in names:
        while name in taken:
            name += " (column)"
        found.append(name)
        taken.add(name)
    return found


def num_coefficients(problem: Problem) -> int:
    """Return how many of the parameters, the first ones, are weights; the others are about the model as a whole."""
    outputs = _num_outputs(problem)
    if problem.hidden:
        outputs = 2 if problem.response.kind == "numbers" else outputs  # its mean and its noise
        return min(_SHOWN_UNITS, problem.hidden[-1] * outputs)
    return len(problem.features.labels) * outputs


def in_units(problem: Problem, estimator: Estimator, columns: np.ndarray) -> np.ndarray:
    """Return the columns of a `Recorder` (the last axis) in the units of the target.

    Coefficients are per standard deviation of a number, per category, or for going from 0 to 1; intercepts are for the
    average row.
    """
    scale, shift, outputs = estimator.response_scale_, estimator.response_shift_, _num_outputs(problem)
    if problem.hidden:
        factors, shifts = [1.0] * num_coefficients(problem), [0.0]
    else:
        slopes = scale / np.where(problem.features.are_amounts, 1.0, estimator.scale_)
        factors = [*np.repeat(slopes, outputs), *[scale] * outputs, 1.0, scale]  # the prior's sd, and the noise's
        shifts = [0.0] * num_coefficients(problem) + [shift] * outputs
    count = columns.shape[-1]
    shifts = np.pad(shifts, (0, len(factors) - len(shifts)))
    return np.asarray(columns, float) * np.array(factors)[:count] + shifts[:count]


def _num_outputs(problem) -> int:
    return max(1, len(problem.response.labels)) if len(problem.response.labels) != 2 else 1


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Draws of named parameters.

    Attributes:
        names: one per column of values.
        values: one row per particle.
        weights: of the particles, summing to one.
        num_coefficients: how many of them, the first ones, are about features and not about the model as a whole.
        per_unit: what brings each of them to one unit of its column in the table.
    """

    names: list[str]
    values: np.ndarray
    weights: np.ndarray
    num_coefficients: int
    per_unit: np.ndarray

    @classmethod
    def of(cls, problem: Problem, estimator: Estimator) -> "Parameters":
        """Return the named parameters of a fitted model in the units of the target."""
        columns = np.asarray(Recorder(bool(problem.hidden), most=None)(estimator.result_.particles))
        values, weights = in_units(problem, estimator, columns), estimator.result_.probabilities
        per_unit = np.ones(values.shape[1])
        if not problem.hidden:
            scales = np.where(problem.features.are_amounts, estimator.scale_, 1.0)
            per_unit[: num_coefficients(problem)] = np.repeat(1 / scales, _num_outputs(problem))
        return cls(parameter_names(problem), values, weights, num_coefficients(problem), per_unit)

    @property
    def mean(self) -> np.ndarray:
        """The posterior mean of each."""
        return self.weights @ self.values

    @property
    def sd(self) -> np.ndarray:
        """The posterior standard deviation of each."""
        centred = self.values - self.mean
        unit = np.maximum(np.max(np.abs(centred), axis=0), 1e-300)  # squares of huge numbers overflow
        return np.sqrt(self.weights @ (centred / unit) ** 2) * unit

    def quantiles(self, levels: tuple[float, ...]) -> np.ndarray:
        """Return quantiles of each, one row per level."""
        return weighted_quantiles(self.values, self.weights, levels)

    def clearest_first(self) -> "Parameters":
        """Return coefficients by how far they are from zero, in standard deviations, and then the others."""
        sd = self.sd[: self.num_coefficients]
        distance = np.abs(self.mean[: self.num_coefficients]) / np.where(sd > 0, sd, 1.0)
        others = np.arange(self.num_coefficients, len(self.names))
        return self._chosen(np.concatenate([np.argsort(-distance, kind="stable"), others]), self.num_coefficients)

    def coefficients(self, most: int) -> "Parameters":
        """Return the first coefficients alone."""
        count = min(most, self.num_coefficients)
        return self._chosen(np.arange(count), count)

    def others(self) -> "Parameters":
        """Return the parameters that are about the model as a whole."""
        return self._chosen(np.arange(self.num_coefficients, len(self.names)), 0)

    def _chosen(self, columns, num_coefficients):
        names = [self.names[k] for k in columns]
        return Parameters(names, self.values[:, columns], self.weights, num_coefficients, self.per_unit[columns])
