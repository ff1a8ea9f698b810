"""Models in words."""

import dataclasses

from steinflow.tables.report import report_html
from steinflow.tables.report.sections import _way
from steinflow.tables.report.words import in_words


def test_models_in_words(of_numbers, of_classes, of_formula):
    [about_y, priors] = in_words(of_numbers)
    assert about_y.endswith("The mean is the sum of an intercept and of effects of 2 features.")
    assert "1/s² ~ Gamma(1, 0.01)" in priors
    assert "the noise has 1/sd² ~ Gamma(1, 0.1)" in priors
    assert "The log-odds of" in in_words(of_classes)[0]
    assert "family poisson" in in_words(of_formula)[0]
    network = dataclasses.replace(of_numbers.problem, hidden=(50, 20))
    of_network = dataclasses.replace(of_numbers, problem=network)
    assert "hidden layers of 50 units and 20 units (tanh) gives the mean of 'y'" in in_words(of_network)[0]
    assert _way(of_network) == ""  # KSD of weights judges nothing
    assert "The model in words" in report_html(of_numbers)
