"""What a column says about residuals; `test_checks.py` has what follows from it."""

import numpy as np
import pandas
import pytest

from steinflow.tables.residuals import MOST_ROWS, _explained, chosen_rows, levels_of


def test_the_same_rows_for_every_run():
    assert chosen_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = chosen_rows(10 * MOST_ROWS)
    assert len(np.unique(rows)) == MOST_ROWS
    np.testing.assert_array_equal(rows, chosen_rows(10 * MOST_ROWS))


def test_a_missing_value_is_a_level():
    codes, levels = levels_of(pandas.Series(["b", None, "a", "b"]))
    assert [levels[code] for code in codes] == ["b", "missing", "a", "b"]
    assert levels_of(pandas.Series([1.0, np.nan, 3.0]))[1] == ["1", "3", "missing"]


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_levels_explain_what_they_move(shift):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 2000)
    residuals = rng.normal(size=2000) + shift * (codes == 0)
    share, chance = _explained(residuals, codes)
    between = shift**2 * 0.2 * 0.8
    assert share == pytest.approx(between / (1 + between), abs=0.03)
    assert (chance < 1e-6) == (shift > 0)


def test_a_line_along_the_levels_is_no_finding():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 500)
    residuals = 0.5 * codes + rng.normal(size=500)
    assert _explained(residuals, codes)[0] > 0.2
    assert _explained(residuals, codes, along=codes.astype(float))[0] < 0.05
