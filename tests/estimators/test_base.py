"""What all estimators share: scikit-learn's own checks, keys, watching, restoring, networks."""

import json
import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

import steinflow as sf
from steinflow.estimators import Watch, base
from steinflow.models.generalized_linear import GeneralizedLinear

pytestmark = pytest.mark.filterwarnings("ignore:.*separates? the:UserWarning")  # of iris

ESTIMATORS = {
    "linear regression": sf.SteinRegressor(),
    "logistic regression": sf.SteinClassifier(),
    "neural regression": sf.SteinRegressor(hidden=(10,), num_particles=10, num_steps=200),
    "neural classification": sf.SteinClassifier(hidden=(10,), num_particles=10, num_steps=200),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn_checks(name):
    check_estimator(ESTIMATORS[name], on_skip=None)  # array API input, where SciPy is not set up for it


def test_random_state_and_pickle(iris):
    X, y, estimator = iris
    same = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(same.predict_proba(X), estimator.predict_proba(X))
    other = clone(estimator).set_params(random_state=1).fit(X, y)
    assert np.any(other.predict_proba(X) != estimator.predict_proba(X))
    back = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(back.predict_proba(X), estimator.predict_proba(X))
    assert str(back.result_.summary()) == str(estimator.result_.summary())


def test_start_and_run_have_keys_of_their_own(monkeypatch):
    """Starting particles that are made of the run's key are correlated with its moves."""
    seen = {}

    def fit(target, method, *, particles, key, **others):
        seen.update(particles=particles, key=key, method=method)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "fit", fit)
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(KeyboardInterrupt):
        sf.SteinRegressor(num_particles=5, random_state=0).fit(X, y)
    model = GeneralizedLinear(X, y, sf.models.Gaussian())
    from_the_key = jax.vmap(model.sample_prior)(jax.random.split(seen["key"], 5))
    # Of precisions alone, whose prior does not depend on where the estimator expects the intercept.
    assert not np.array_equal(from_the_key["log_alpha"], seen["particles"]["log_alpha"])
    assert isinstance(seen["method"], sf.SVGD)


@pytest.mark.parametrize(
    ("hidden", "method", "num_particles", "num_steps"),
    [((), sf.SVGD, 100, None), ((3,), sf.Ensemble, 10, 10_000), ((4, 4), sf.Ensemble, 10, 20_000)],
    ids=["linear", "one layer", "two layers"],
)
def test_the_defaults_of_networks(monkeypatch, hidden, method, num_particles, num_steps):
    seen = {}

    def fit(target, method, *, particles, num_steps, **others):
        seen.update(method=method, num_particles=len(jax.tree.leaves(particles)[0]), num_steps=num_steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "fit", fit)
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(KeyboardInterrupt):
        sf.SteinRegressor(hidden=hidden, random_state=0).fit(X, y)
    assert type(seen["method"]) is method
    assert (seen["num_particles"], seen["num_steps"]) == (num_particles, num_steps)


def test_watch(iris):
    X, y, estimator = iris
    watch = Watch(record={"alpha": lambda particles: particles["log_alpha"]}, num_records=4)
    watched = clone(estimator).set_params(num_steps=80).fit(X, y, watch=watch)
    assert list(watched.result_.history["step"]) == [20, 40, 60, 80]
    assert np.shape(watched.result_.history["alpha"]) == (4, 20)
    assert watched.num_steps_ == 80
    assert watched.n_iter_ == 80
    assert watched.batch_size_ is None
    assert watched.start_["log_alpha"].shape == (20,)


def test_restored_without_a_fit(diabetes, iris):
    for X, y, estimator in (diabetes, iris):
        learned = json.loads(json.dumps(estimator.learned()))
        back = clone(estimator).restore(estimator.result_, learned)
        np.testing.assert_array_equal(back.predict(X), estimator.predict(X))
        np.testing.assert_array_equal(back.log_predictive(X, y), estimator.log_predictive(X, y))
        assert not hasattr(clone(estimator).restore(estimator.result_, {**learned, "evil": 1}), "evil")


def test_predictions_by_blocks_of_rows(monkeypatch, diabetes):
    X, y, estimator = diabetes
    whole = estimator.predict(X, return_std=True), estimator.log_predictive(X, y)
    monkeypatch.setattr(base, "_NUMBERS_AT_ONCE", 100_000)
    np.testing.assert_allclose(estimator.predict(X, return_std=True), whole[0], rtol=1e-12)
    np.testing.assert_allclose(estimator.log_predictive(X, y), whole[1], rtol=1e-10)


@pytest.mark.slow
def test_pipelines_grid_search_and_cross_validation():
    X, y = (values[:441] for values in load_diabetes(return_X_y=True))  # folds of one size compile once
    pipeline = make_pipeline(PolynomialFeatures(), sf.SteinRegressor(num_steps=90, num_particles=20, random_state=0))
    search = GridSearchCV(pipeline, {"polynomialfeatures__degree": [1, 2]}, cv=3).fit(X[:, 2:4], y)
    assert search.best_score_ > 0.3
    features, regressor = search.best_estimator_[:-1].transform(X[:2, 2:4]), search.best_estimator_[-1]
    mean, sd = search.predict(X[:2, 2:4]), regressor.predict(features, return_std=True)[1]
    assert mean.shape == sd.shape == (2,)
    scores = cross_val_score(sf.SteinClassifier(num_steps=90, num_particles=20), *load_iris(return_X_y=True), cv=5)
    assert scores.mean() > 0.9


@pytest.mark.slow
def test_minibatches(diabetes):
    X, y, whole = diabetes
    small = sf.SteinRegressor(batch_size=100, random_state=0).fit(X, y)
    np.testing.assert_allclose(small.predict(X), whole.predict(X), atol=0.2 * np.std(y))
    assert small.batch_size_ == 100
    large = sf.SteinRegressor(batch_size=10_000, num_steps=5, random_state=0).fit(X, y)
    assert large.batch_size_ is None


@pytest.mark.slow
def test_networks_are_less_sure_where_there_are_no_data():
    X = np.linspace(-2, 2, 100)[:, None]
    y = np.sin(2 * X[:, 0])
    network = sf.SteinRegressor(hidden=(20,), num_steps=4000, random_state=0).fit(X, y)
    _, sd = network.predict([[0.0], [8.0]], return_std=True)
    assert sd[1] > sd[0]
    np.testing.assert_allclose(network.predict(X), y, atol=0.1)
    narrow = clone(network).set_params(prior_scale=0.1).fit(X, y)
    assert narrow.score(X, y) < network.score(X, y)
    with pytest.raises(AttributeError, match="no coefficients"):
        network.coef_  # noqa: B018


def test_unknown_activation():
    with pytest.raises(ValueError, match="activation must be one of"):
        sf.SteinClassifier(activation="swish").fit(*load_iris(return_X_y=True))


@pytest.mark.slow
def test_a_model_for_every_group_is_that_of_its_rows():
    rng = np.random.default_rng(0)
    X, by = rng.normal(size=(120, 2)) * [1, 100], np.tile([1, 2, 3], 40)
    slopes = np.array([[1, 0], [0, 0.02], [-1, 0.01]])
    y = np.sum(X * slopes[by - 1], axis=1) + 0.1 * rng.normal(size=120)
    estimator = sf.SteinRegressor(random_state=0)
    fitted = estimator.fit_groups(X, y, by)
    assert list(fitted) == ["1", "2", "3"]
    assert "result_" not in vars(estimator)
    for k, own in enumerate(fitted.values()):
        inside = by == k + 1
        expected = np.linalg.lstsq(np.column_stack([X[inside], np.ones(40)]), y[inside], rcond=None)[0]
        np.testing.assert_allclose(own.coef_ * [1, 100], expected[:2] * [1, 100], atol=0.02)
        np.testing.assert_allclose(own.predict(X[inside]), y[inside], atol=0.5)
    classes = sf.SteinClassifier(num_particles=20, num_steps=90, random_state=0).fit_groups(X, y > 0, by)
    assert classes["1"].predict_proba(X).shape == (120, 2)
    with pytest.raises(ValueError, match="hidden"):
        sf.SteinRegressor(hidden=(5,)).fit_groups(X, y, by)


def test_hidden_layers_are_a_list():
    X, y = np.zeros((9, 1)), np.arange(9.0)
    with pytest.raises(ValueError, match=r"such as \(50,\); got 50"):
        sf.SteinRegressor(hidden=50).fit(X, y)
