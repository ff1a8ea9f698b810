"""Which rows are held out: the same ones for every model of a column."""

import numpy as np
import pandas
import pytest

from steinflow.tables.fitting import prepare
from steinflow.tables.formula_problems import FormulaProblem
from steinflow.tables.formulas import _held_out
from steinflow.tables.splits import MOST_KEPT, split

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "a": RNG.normal(size=300),
        "b": RNG.normal(size=300),
        "y": RNG.normal(size=300),
        "class": RNG.choice(["p", "q"], 300, p=[0.9, 0.1]),
    }
)


def _of_formula(formula, frame, family="gaussian"):
    whole = FormulaProblem((formula,), family).target(frame)
    test, _ = _held_out(whole, frame, 0.2, 0)
    return whole.about.row_numbers[test] + 1


@pytest.mark.parametrize(("target", "family"), [("y", "gaussian"), ("class", "bernoulli")])
def test_a_formula_and_a_target_hold_out_the_same_rows(target, family):
    rows = prepare(FRAME[["a", "b", target]], target).held_out[2]
    np.testing.assert_array_equal(_of_formula(f"{target} ~ a", FRAME, family), rows)
    assert len(rows) == 60


def test_rows_that_are_left_out_do_not_move_others():
    gaps = FRAME.copy()
    gaps.loc[:40, "b"] = np.nan
    np.testing.assert_array_equal(
        _of_formula("y ~ a + b", gaps), [row for row in _of_formula("y ~ a", gaps) if row > 41]
    )
    usable = np.setdiff1d(np.arange(300), [7, 50, 51])
    learn, test, kept = split(300, usable, 0.2, 3)
    whole = split(300, np.arange(300), 0.2, 3)
    np.testing.assert_array_equal(test, np.intersect1d(whole[1], usable))
    np.testing.assert_array_equal(learn, np.intersect1d(whole[0], usable))
    np.testing.assert_array_equal(kept, test)


def test_a_class_of_which_rows_cannot_be_used_is_fitted():
    labels = pandas.Series(["rare"] * 5 + ["often"] * 95)
    for seed in range(20):
        test = split(100, np.arange(100), 0.4, seed, labels)[1]
        usable = np.union1d(test, np.arange(5, 100))  # of the rare ones those that would be held out
        learn, _, _ = split(100, usable, 0.4, seed, labels)
        assert set(labels[learn]) == {"rare", "often"}


def test_of_many_rows_the_same_predictions_are_kept():
    rows = np.arange(40_000)
    _, test, kept = split(len(rows), rows, 0.25, 0)
    assert len(test) == 10_000
    assert len(kept) == MOST_KEPT
    again = split(len(rows), rows[100:], 0.25, 0)[2]
    assert len(np.intersect1d(kept, again)) > 0.98 * MOST_KEPT
