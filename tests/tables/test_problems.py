"""Which model, which method, which estimator."""

import example_tables as tables
import pytest

import steinflow as sf
from steinflow.estimators import SteinPoissonRegressor
from steinflow.tables.fitting import prepare
from steinflow.tables.problems import Problem


@pytest.mark.parametrize(
    ("frame", "model", "title", "estimator"),
    [
        (tables.numbers(), None, "linear regression", sf.SteinRegressor),
        (tables.two_classes(), None, "logistic regression", sf.SteinClassifier),
        (tables.three_classes(), None, "softmax regression, 3 classes", sf.SteinClassifier),
        (tables.counts(), "poisson", "Poisson regression", SteinPoissonRegressor),
        (tables.numbers(), "network", "neural network (50 units) for regression", sf.SteinRegressor),
    ],
)
def test_problems(frame, model, title, estimator):
    problem = prepare(frame, "y", model=model).problem
    assert problem.title == title
    assert isinstance(problem.estimator(), estimator)
    assert problem.estimator().hidden == problem.hidden == ((50,) if model == "network" else ())
    assert problem.default_method == ("ensemble" if model == "network" else "svgd")
    assert Problem.from_json(problem.to_json()).title == title
