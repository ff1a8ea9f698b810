"""A regression on a table: what is predicted from what, and by which model."""

import dataclasses
from typing import Any, Literal

from steinflow.estimators import SteinClassifier, SteinPoissonRegressor, SteinRegressor
from steinflow.estimators.features import Features
from steinflow.tables.responses import ModelName, Response

MethodName = Literal["svgd", "svgd-paper", "ensemble", "nuts", "sgld", "parallel-sgld", "dsvi", "npv", "map"]
Estimator = SteinClassifier | SteinRegressor | SteinPoissonRegressor


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is predicted from what, and by which model.

    Attributes:
        features: how columns become features.
        response: how the target column is encoded.
        hidden: units of the hidden layers of a network; () is a generalised linear model.
    """

    features: Features
    response: Response
    hidden: tuple[int, ...] = ()

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
        return "ensemble" if self.hidden else "svgd"

    @property
    def title(self) -> str:
        """The model in words."""
        kinds = {"classes": "classification", "numbers": "regression", "counts": "counts"}
        if self.hidden:
            return f"neural network ({' + '.join(map(str, self.hidden))} units) for {kinds[self.response.kind]}"
        names = {"classes": "logistic regression", "numbers": "linear regression", "counts": "Poisson regression"}
        several = self.response.kind == "classes" and len(self.response.labels) > 2
        return f"softmax regression, {len(self.response.labels)} classes" if several else names[self.response.kind]

    def estimator(self) -> Estimator:
        """Return the estimator of this model, not fitted; of classes it sees the codes."""
        estimators = {"classes": SteinClassifier, "numbers": SteinRegressor, "counts": SteinPoissonRegressor}
        return estimators[self.response.kind](hidden=self.hidden)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "features": self.features.to_json(),
            "response": self.response.to_json(),
            "hidden": list(self.hidden),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Problem":
        """Return what `to_json` described."""
        features, response = Features.from_json(values["features"]), Response.from_json(values["response"])
        return cls(features, response, tuple(values["hidden"]))
