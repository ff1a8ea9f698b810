"""Numbers for the page."""

import numpy as np

from steinflow.tables.report.numbers import plain_numbers


def test_few_digits_and_null():
    assert plain_numbers([1.23456789, np.nan, np.inf, -np.inf, 0, 1e-9]) == [1.2346, None, None, None, 0.0, 1e-9]
    assert plain_numbers(np.float32([1 / 3]), 2) == [0.33]
