"""Models of target columns in words; those of formulas are in test_formulas.py."""

import dataclasses

from steinflow.tables.report import report_html
from steinflow.tables.report.sections import _way
from steinflow.tables.report.words import model_in_words


def test_linear_models(of_numbers, of_classes):
    [about_y, priors] = model_in_words(of_numbers)
    assert about_y.endswith("The mean is the sum of an intercept and of effects of 2 features.")
    assert "1/s² ~ Gamma(1, 0.01)" in priors
    assert "the noise has 1/sd² ~ Gamma(1, 0.1)" in priors
    assert "The log-odds of" in model_in_words(of_classes)[0]
    assert "Text is compared with" in model_in_words(of_classes)[1]
    assert "The model in words" in report_html(of_numbers)


def test_formulas(of_formula):
    assert "family poisson" in model_in_words(of_formula)[0]


def test_networks(of_numbers, of_classes):
    network = dataclasses.replace(of_numbers.problem, hidden=(50, 20))
    run = dataclasses.replace(of_numbers, problem=network)
    assert "hidden layers of 50 units and 20 units (tanh) gives the mean of 'y'" in model_in_words(run)[0]
    assert "weights are Normal(0, 4 / √inputs of the unit)" in model_in_words(run)[-1]
    assert _way(run) == ""  # KSD of weights judges nothing
    network = dataclasses.replace(of_classes.problem, hidden=(50,))
    settings = {**of_classes.settings, "method": "ensemble"}
    run = dataclasses.replace(of_classes, problem=network, settings=settings)
    assert "or a quarter of that for some members" in model_in_words(run)[-1]
