"""Named parameters and their units."""

from types import SimpleNamespace

import example_tables as tables
import numpy as np
import pytest

from steinflow.tables.fitting import prepare
from steinflow.tables.parameters import Parameters, Recorder, in_units, num_coefficients, parameter_names


def test_a_feature_may_have_any_name():
    frame = tables.numbers().rename(columns={"a": "intercept", "b": "noise sd"})
    problem = prepare(frame, "y").problem
    own = ["intercept", "prior sd of weights", "noise sd"]
    assert parameter_names(problem) == ["intercept (column)", "noise sd (column)", *own]
    estimator = SimpleNamespace(response_shift_=3.0, response_scale_=2.0, scale_=np.array([5.0, 7.0]))
    np.testing.assert_allclose(in_units(problem, estimator, np.ones((1, 5))), [[2.0, 2.0, 5.0, 1.0, 2.0]])
    # From 0 to 1 there is no standard deviation in between.
    problem = prepare(frame.assign(intercept=[0, 1] * 30), "y").problem
    np.testing.assert_allclose(in_units(problem, estimator, np.ones((1, 2))), [[2.0 / 5.0, 2.0]])


def test_coefficients_are_those_of_the_estimator(of_numbers, of_classes):
    parameters, estimator = of_numbers.parameters(), of_numbers.estimator
    np.testing.assert_allclose((parameters.mean * parameters.per_unit)[:2], estimator.coef_, rtol=1e-6)
    np.testing.assert_allclose(parameters.mean[:2], estimator.coef_ * estimator.scale_, rtol=1e-6)
    at_the_mean = estimator.predict(estimator.shift_[None])
    assert parameters.mean[2] == pytest.approx(at_the_mean[0], rel=1e-6)
    # Numbers per standard deviation, categories as they are.
    features, estimator = of_classes.problem.features, of_classes.estimator
    assert list(features.are_numbers) == [True, True, False, False]
    units = np.where(features.are_numbers, estimator.scale_, 1.0)
    np.testing.assert_allclose(of_classes.parameters().mean[:4], estimator.coef_[0] * units, rtol=1e-5)


def test_names_of_several_classes_and_networks():
    problem = prepare(tables.three_classes(), "y").problem
    assert parameter_names(problem)[:3] == ["a → 1", "a → 2", "a → 3"]
    assert num_coefficients(problem) == 6
    particles = {"w": np.arange(18.0).reshape(2, 3, 3), "log_alpha": np.zeros(2)}
    assert Recorder(is_network=False)(particles).shape == (2, len(parameter_names(problem)))
    problem = prepare(tables.numbers(), "y", model="network", hidden=(3,)).problem
    particles = {"weights": (np.zeros((2, 2, 3)), np.zeros((2, 3, 2)))}
    assert Recorder(is_network=True)(particles).shape == (2, len(parameter_names(problem)))
    estimator = SimpleNamespace(response_shift_=3.0, response_scale_=2.0)
    np.testing.assert_allclose(in_units(problem, estimator, np.ones((1, 6))), np.ones((1, 6)))


def test_parameters_in_numbers():
    values = np.array([[1.0, 1e300], [3.0, 3e300]])
    parameters = Parameters(["a", "b"], values, np.array([0.25, 0.75]), 2, np.ones(2))
    np.testing.assert_allclose(parameters.mean, [2.5, 2.5e300])
    np.testing.assert_allclose(parameters.sd, [np.sqrt(0.75), np.sqrt(0.75) * 1e300])
    np.testing.assert_allclose(parameters.quantiles((0.0, 1.0)), values)


def test_the_clearest_first():
    values = np.array([[0.9, 10.0, -5.0, 7.0], [1.1, -9.0, -5.1, 8.0]])
    parameters = Parameters(["a", "b", "c", "noise"], values, np.full(2, 0.5), 3, np.arange(4.0)).clearest_first()
    assert parameters.names == ["c", "a", "b", "noise"]
    assert parameters.per_unit.tolist() == [2.0, 0.0, 1.0, 3.0]
    assert parameters.coefficients(2).names == ["c", "a"]
    assert parameters.others().names == ["noise"]
    np.testing.assert_array_equal(parameters.others().values, values[:, 3:])
