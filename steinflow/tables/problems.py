"""A regression on a table: features, response and model, from which posteriors and named parameters come."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.supervised import Supervised
from steinflow.tables.features import Features
from steinflow.tables.responses import ModelName, Response
from steinflow.typing import Array, Params

MethodName = Literal["svgd", "svgd-paper", "svgd-network", "nuts", "sgld", "parallel-sgld", "dsvi", "npv", "map"]
_FOLLOWED = 60  # parameters to follow through a run
_SHOWN_UNITS = 8  # of a network


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is predicted from what, and by which model.

    Attributes:
        features: how columns become features.
        response: how the target column is encoded.
        hidden: units of the hidden layers of a network; () is a generalised linear model.
        activation: of a network.
        prior_scale: of a network's weights.
    """

    features: Features
    response: Response
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    prior_scale: float = 1.0

    @property
    def model(self) -> ModelName:
        """The name of the model on the command line."""
        if self.hidden:
            return "network"
        names: dict[str, ModelName] = {"classes": "logistic", "numbers": "linear", "counts": "poisson"}
        return names[self.response.kind]

    @property
    def default_method(self) -> MethodName:
        """The name of the method that a run takes where none was asked for."""
        return "svgd-network" if self.hidden else "svgd"

    @property
    def title(self) -> str:
        """The model in words."""
        kinds = {"classes": "classification", "numbers": "regression", "counts": "counts"}
        if self.hidden:
            return f"neural network ({' + '.join(map(str, self.hidden))} units) for {kinds[self.response.kind]}"
        names = {"classes": "logistic regression", "numbers": "linear regression", "counts": "Poisson regression"}
        several = self.response.kind == "classes" and len(self.response.labels) > 2
        return f"softmax regression, {len(self.response.labels)} classes" if several else names[self.response.kind]

    def posterior(self, X: np.ndarray, y: np.ndarray, batch_size: int | None = None) -> Supervised:
        """Return the posterior given encoded rows."""
        if self.hidden:
            return NeuralNetwork(
                X,
                y,
                self.hidden,
                self.activation,
                family=self.response.family,
                batch_size=batch_size,
                prior_scale=self.prior_scale,
                standardize=False,
            )
        return GeneralizedLinear(X, y, self.response.family, batch_size=batch_size)

    def without_data(self) -> Supervised:
        """Return the model for predictions, which need none of the rows it was fitted to."""
        return self.posterior(np.zeros((1, len(self.features.labels))), np.zeros(1))

    @property
    def parameters(self) -> "Columns":
        """A function from particles to the parameters that are worth a look."""
        return Columns(is_network=bool(self.hidden))

    @property
    def followed(self) -> "Columns":
        """A function from particles to the first of the parameters, few enough to be recorded all along a run."""
        return dataclasses.replace(self.parameters, most=_FOLLOWED)

    def parameter_names(self) -> list[str]:
        """Return the names of the columns of `parameters`."""
        noise = ["noise sd"] if self.response.family.noisy else []
        if self.hidden:
            weights = [f"last layer, weight {k + 1}" for k in range(self.num_coefficients)]
            return [*weights, *noise]
        names = [*self.features.labels, "intercept"]
        if len(self.response.labels) > 2:
            names = [f"{name} → {label}" for name in names for label in self.response.labels]
        return [*names, "prior sd of weights", *noise]

    @property
    def num_coefficients(self) -> int:
        """How many of the parameters, the first ones, are weights; the others are about the model as a whole."""
        outputs = self.response.family.num_outputs
        return min(_SHOWN_UNITS, self.hidden[-1] * outputs) if self.hidden else len(self.features.labels) * outputs

    def in_units(self, parameters: np.ndarray) -> np.ndarray:
        """Return columns of `parameters` (the last axis) in the units of the target: per sd of a feature."""
        scale, shift = self.response.scale, self.response.shift
        # Weights, intercepts and the prior's sd of a linear model, the noise; only numbers have units.
        if self.hidden:
            factors, shifts = [1.0] * self.num_coefficients + [scale], [0.0] * (self.num_coefficients + 1)
        else:
            num_intercepts = self.response.family.num_outputs
            factors = [scale] * (self.num_coefficients + num_intercepts) + [1.0, scale]
            shifts = [0.0] * self.num_coefficients + [shift] * num_intercepts + [0.0, 0.0]
        count = parameters.shape[-1]
        return np.asarray(parameters, float) * np.array(factors)[:count] + np.array(shifts)[:count]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "features": self.features.to_json(),
            "response": self.response.to_json(),
            "hidden": list(self.hidden),
            "activation": self.activation,
            "prior_scale": self.prior_scale,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Problem":
        """Return what `to_json` described."""
        features, response = Features.from_json(values["features"]), Response.from_json(values["response"])
        hidden, prior_scale = tuple(values["hidden"]), values.get("prior_scale", 1.0)  # not in runs of old
        return cls(features, response, hidden, values["activation"], prior_scale)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Parameters as the columns of a matrix, on the scale of the model; equal ones share their compiled code.

    Attributes:
        is_network: whether the particles are those of a network.
        most: how many columns to return at most.
    """

    is_network: bool
    most: int | None = None

    def __call__(self, particles: Params) -> Array:
        """Return weights, the prior's sd of a linear model and the noise's sd, one row per particle."""
        weights = particles["weights"][-1] if self.is_network else particles["w"]
        weights = weights.reshape(len(weights), -1)
        columns = [weights[:, :_SHOWN_UNITS] if self.is_network else weights]
        precisions = ["log_gamma"] if self.is_network else ["log_alpha", "log_gamma"]
        columns += [jnp.exp(-0.5 * particles[name])[:, None] for name in precisions if name in particles]
        return jnp.concatenate(columns, axis=1)[:, : self.most]


def start(model: Supervised, num_particles: int, key: int) -> Params:
    """Draw starting particles from the prior."""
    return jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(key), num_particles))
