"""The estimators: scikit-learn's own checks, and answers that agree with scikit-learn's."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

import steinflow as sf

ESTIMATORS = {
    "linear regression": sf.SteinRegressor(),
    "logistic regression": sf.SteinClassifier(),
    "neural regression": sf.SteinRegressor(hidden=(10,), num_particles=10),
    "neural classification": sf.SteinClassifier(hidden=(10,), num_particles=10),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn_checks(name):
    check_estimator(ESTIMATORS[name], on_skip=None)  # array API input, where SciPy is not set up for it


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X, y, sf.SteinRegressor(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return X, names, sf.SteinClassifier(random_state=0).fit(X, names)


def test_linear_regression_agrees_with_bayesian_ridge(diabetes):
    X, y, estimator = diabetes
    ridge = BayesianRidge().fit(X, y)
    mean, sd = estimator.predict(X, return_std=True)
    expected_mean, expected_sd = ridge.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, atol=0.1 * expected_sd.min())
    np.testing.assert_allclose(sd, expected_sd, rtol=0.05)
    np.testing.assert_allclose(estimator.predict(X), estimator.intercept_ + X.values @ estimator.coef_, rtol=1e-6)
    # The spread of the coefficients too: the posterior covariance of the ridge at its own precisions.
    X1 = np.column_stack([np.ones(len(X)), X])
    precision = ridge.alpha_ * X1.T @ X1 + np.diag([0, *[ridge.lambda_] * X.shape[1]])
    table = estimator.coefficients()
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diag(np.linalg.inv(precision))), rtol=0.15)


def test_log_predictive_of_regression(diabetes):
    X, y, estimator = diabetes
    mean, sd = estimator.predict(X, return_std=True)
    gaussian = -0.5 * ((y - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(estimator.log_predictive(X, y).mean(), gaussian.mean(), atol=0.01)


def test_names_and_frames(diabetes, iris):
    X, _, estimator = diabetes
    assert list(estimator.feature_names_in_) == list(X.columns)
    table = estimator.coefficients()
    assert isinstance(table, pd.DataFrame)
    assert list(table.index) == ["intercept", *X.columns]
    np.testing.assert_allclose(table["mean"].iloc[1:], estimator.coef_)
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(X.rename(columns={"age": "years"}))
    assert iris[2].coefficients().loc[("x2", "virginica"), "mean"] > 0


def test_classes_and_probabilities(iris):
    X, y, estimator = iris
    assert list(estimator.classes_) == ["setosa", "versicolor", "virginica"]
    assert estimator.score(X, y) > 0.93
    probabilities = estimator.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.exp(estimator.predict_log_proba(X)), probabilities)
    own = probabilities[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
    np.testing.assert_allclose(estimator.log_predictive(X, y), np.log(own))


def test_predictions_are_those_of_the_model(iris):
    X, y, estimator = iris
    model = estimator.result_.target
    np.testing.assert_allclose(model.predict(estimator.result_.particles, X), estimator.predict_proba(X), atol=1e-4)
    data = estimator.result_.to_arviz()
    assert data["log_likelihood"]["y"].shape == (1, 100, 150)
    np.testing.assert_array_equal(data["observed_data"]["y"], np.searchsorted(estimator.classes_, y))


def test_random_state_and_pickle(iris):
    X, y, estimator = iris
    same = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(same.predict_proba(X), estimator.predict_proba(X))
    other = clone(estimator).set_params(random_state=1).fit(X, y)
    assert np.any(other.predict_proba(X) != estimator.predict_proba(X))
    back = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(back.predict_proba(X), estimator.predict_proba(X))
    assert str(back.result_.summary()) == str(estimator.result_.summary())


def test_pipelines_grid_search_and_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(PolynomialFeatures(), sf.SteinRegressor(num_steps=200, num_particles=20, random_state=0))
    search = GridSearchCV(pipeline, {"polynomialfeatures__degree": [1, 2]}, cv=3).fit(X[:, 2:4], y)
    assert search.best_score_ > 0.3
    mean, sd = (
        search.predict(X[:2, 2:4]),
        search.best_estimator_[-1].predict(search.best_estimator_[:-1].transform(X[:2, 2:4]), return_std=True)[1],
    )
    assert mean.shape == sd.shape == (2,)
    scores = cross_val_score(sf.SteinClassifier(num_steps=200, num_particles=20), *load_iris(return_X_y=True), cv=3)
    assert scores.mean() > 0.9


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
    with pytest.raises(ValueError, match="not in classes"):
        parts.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="needs classes"):
        sf.SteinClassifier().partial_fit(X, y)
    assert not hasattr(sf.SteinClassifier(hidden=(5,)), "partial_fit")


def test_minibatches():
    X, y = load_diabetes(return_X_y=True)
    whole = sf.SteinRegressor(random_state=0).fit(X, y)
    small = sf.SteinRegressor(batch_size=100, random_state=0).fit(X, y)
    np.testing.assert_allclose(small.predict(X), whole.predict(X), atol=0.2 * np.std(y))


def test_networks_are_less_sure_where_there_are_no_data():
    X = np.linspace(-2, 2, 100)[:, None]
    y = np.sin(2 * X[:, 0])
    settings = {"activation": "tanh", "num_particles": 20, "num_steps": 1000, "random_state": 0}
    network = sf.SteinRegressor(hidden=(20,), **settings).fit(X, y)
    _, sd = network.predict([[0.0], [8.0]], return_std=True)
    assert sd[1] > sd[0]
    np.testing.assert_allclose(network.predict(X), y, atol=0.1)
    assert network.prior_scale_ in (1.0, 3.0, 9.0)
    narrow = clone(network).set_params(prior_scale=0.3).fit(X, y)
    assert narrow.prior_scale_ == 0.3
    assert narrow.score(X, y) < network.score(X, y)
    with pytest.raises(AttributeError, match="no coefficients"):
        network.coef_  # noqa: B018


def test_errors():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="activation is one of"):
        sf.SteinClassifier(activation="swish").fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        sf.SteinClassifier().fit(X, np.zeros(len(X)))
