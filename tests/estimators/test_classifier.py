"""Classification: probabilities, labels, and more rows."""

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

import steinflow as sf


def test_classes_and_probabilities(iris):
    X, y, estimator = iris
    assert list(estimator.classes_) == ["setosa", "versicolor", "virginica"]
    assert estimator.score(X, y) > 0.93
    probabilities = estimator.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.exp(estimator.predict_log_proba(X)), probabilities)
    own = probabilities[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
    np.testing.assert_allclose(estimator.log_predictive(X, y), np.log(own))
    assert estimator.coefficients().loc[("x2", "virginica"), "mean"] > 0


@pytest.mark.parametrize("label", ["aardvark", "sunflower", "zebra", "", 7, np.nan])
def test_labels_that_were_never_seen(iris, label):
    X, _, estimator = iris
    with pytest.raises(ValueError, match="not among the classes"):
        estimator.log_predictive(X[:2], np.array(["setosa", label], dtype=object))


def test_as_many_labels_as_rows(iris):
    X, y, estimator = iris
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.log_predictive(X, y[:-1])


def test_predictions_are_those_of_the_model(iris):
    X, y, estimator = iris
    model = estimator.result_.target
    np.testing.assert_allclose(model.predict(estimator.result_.particles, X), estimator.predict_proba(X), atol=1e-4)
    data = estimator.result_.to_arviz()
    assert data["log_likelihood"]["y"].shape == (1, 20, 150)
    np.testing.assert_array_equal(data["observed_data"]["y"], np.searchsorted(estimator.classes_, y))


@pytest.mark.slow
def test_partial_fit_agrees_with_fit():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    whole = sf.SteinClassifier(random_state=0).fit(X, y)
    parts = sf.SteinClassifier(random_state=0)
    order = np.random.default_rng(0).permutation(len(X))
    for rows in np.array_split(order, 2):
        parts.partial_fit(X[rows], y[rows], classes=[0, 1])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=0.05)
    with pytest.raises(ValueError, match="not among the classes"):
        parts.partial_fit(X, y + 1)


def test_errors():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="at least two classes"):
        sf.SteinClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="needs classes"):
        sf.SteinClassifier().partial_fit(X, y)
    assert not hasattr(sf.SteinClassifier(hidden=(5,)), "partial_fit")


def test_the_only_class_is_named_plainly():
    with pytest.raises(ValueError, match=r"one class, 1\.0\."):
        sf.SteinClassifier().fit(np.zeros((9, 1)), np.ones(9))


@pytest.mark.parametrize("as_table", [False, True])
def test_features_that_separate_the_classes_are_said(monkeypatch, as_table):
    monkeypatch.setattr(sf.SteinClassifier, "_run", lambda self, *rest: self)
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"a": rng.normal(size=60), "b": 5 + rng.normal(size=60)})
    apart, mixed = table["a"] + table["b"] > 5, table["a"] + rng.normal(size=60) > 0
    X, names = (table.assign(c=["u", "v"] * 30), "'a', 'b'") if as_table else (table.to_numpy(), "'x0', 'x1'")
    with pytest.warns(UserWarning, match=f"{names} together separate the two values") as said:
        sf.SteinClassifier().fit(X, apart)
    assert said[0].filename == __file__
    sf.SteinClassifier().fit(X, mixed)  # a warning would be an error
    sf.SteinClassifier(hidden=(3,)).fit(X, apart)
