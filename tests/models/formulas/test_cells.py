"""Cells of predictors that no regression can use as they are."""

import numpy as np
import pytest

import steinflow as sf


def test_text_of_many_values_may_be_groups_and_dates_levels(table):
    with pytest.warns(UserWarning, match=r"25 different values.*\(1 \| town\)"):
        sf.formula("y ~ town", table.assign(town=[f"t{k % 25}" for k in range(60)]))
    table = table.assign(day=[f"2020-01-{k % 28 + 1:02}" for k in range(60)])
    assert sf.formula("y ~ C(day)", table).notes == sf.formula("y ~ x + (1 | day)", table).notes == ()
    own = {"day_of": lambda days: np.array([int(day[-2:]) for day in days])}
    assert sf.formula("y ~ day_of(day)", table, functions=own).notes == ()
