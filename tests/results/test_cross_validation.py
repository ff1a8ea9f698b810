"""What cross-validation found, by hand."""

import numpy as np
import pytest
from known_results import result_at
from scenarios import normal_log_density

import steinflow as sf
from steinflow.results.cross_validation import CrossValidation


def found(log_densities):
    posteriors = tuple(result_at(np.zeros((3, 1), np.float32), normal_log_density) for _ in range(2))
    return CrossValidation(np.asarray(log_densities), np.array([0, 1, 0]), sf.Many(posteriors, ("left", "right")))


def test_sums_and_their_errors():
    one, other = found([-1.0, -2.0, -6.0]), found([-2.0, -2.0, -5.0])
    assert one.elpd == -9
    np.testing.assert_allclose(one.error, np.sqrt(3 * np.var([1, 2, 6])))
    difference, error = one.minus(other)
    assert difference == 0
    np.testing.assert_allclose(error, np.sqrt(3 * np.var([1, 0, -1])))


def test_it_prints_the_mean_of_every_part():
    assert "elpd -9.0 ± 3.7 (3 rows in 2 parts)" in str(found([-1.0, -2.0, -6.0]))
    assert "left: -3.5, right: -2" in str(found([-1.0, -2.0, -6.0]))


def test_other_rows_cannot_be_compared():
    few = CrossValidation(np.zeros(2), np.array([0, 1]), found([0.0, 0.0, 0.0]).posteriors)
    with pytest.raises(ValueError, match="of 3 and 2 rows"):
        found([-1.0, -2.0, -6.0]).minus(few)
