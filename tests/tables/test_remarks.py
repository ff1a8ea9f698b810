"""Remarks about codes that became slopes, and about collinear columns."""

import re
import shlex

import numpy as np
import pandas
import pytest

from steinflow.models.columns import TableError
from steinflow.tables.remarks import about_codes, about_collinear, about_dates, refuse_dates

RNG = np.random.default_rng(0)
CODES = RNG.integers(300, 320, 200)
EFFECTS = RNG.normal(size=400)[CODES]


@pytest.mark.parametrize(
    ("name", "values", "y", "expected"),
    [
        ("subject", RNG.integers(1, 20, 200), RNG.normal(size=200), True),
        ("ZipCode", RNG.integers(10_000, 10_020, 200), None, True),
        ("zip code", RNG.integers(10_000, 10_020, 200), None, True),
        ("provider", CODES, EFFECTS + 0.5 * RNG.normal(size=200), True),
        ("clinic", RNG.integers(0, 9, 200), RNG.normal(size=200), True),
        ("v7", CODES - 299, EFFECTS + 0.5 * RNG.normal(size=200), True),  # small codes are codes as well
        ("v7", CODES - 299, EFFECTS + 0.5 * RNG.normal(size=200) > 0, True),
        ("hour", CODES - 299, np.sin(0.3 * CODES) + 0.5 * RNG.normal(size=200), False),  # a curve
        ("tax", CODES, EFFECTS - CODES, False),
        ("height", CODES, 0.1 * CODES + RNG.normal(size=200), False),  # a slope is right
        ("year", CODES + 1700, EFFECTS, False),
        ("age", RNG.integers(20, 60, 200), RNG.normal(size=200), False),
        ("subject", RNG.normal(size=200), RNG.normal(size=200), False),
        ("group", RNG.integers(0, 2, 200), RNG.normal(size=200), False),
    ],
)
def test_codes_are_noticed_by_name_or_by_what_they_do(name, values, y, expected):
    remarks = about_codes(pandas.DataFrame({name: values}), None if y is None else pandas.Series(y))
    assert bool(remarks) == expected
    if expected:
        assert f"--categorical {shlex.quote(name)}," in remarks[0]


def test_a_network_has_no_slopes():
    assert "score ~ ... + (1 |" in about_codes(pandas.DataFrame({"subject no": CODES}), None, "score")[0]
    [remark] = about_codes(pandas.DataFrame({"subject no": CODES}), is_network=True)
    assert "--categorical 'subject no'." in remark
    assert not re.search("slope|formula", remark)


def test_collinear_features():
    a, b = RNG.normal(size=(2, 50))
    assert about_collinear(np.stack([a, b], axis=1), ["a", "b"]) == []
    [remark] = about_collinear(np.stack([a, 2 * a + 1, b], axis=1), ["a", "twice a", "b"])
    assert "'a', 'twice a'" in remark
    assert "'b'" not in remark
    assert "60 features for 50 rows" in about_collinear(RNG.normal(size=(50, 60)), ["x"] * 60)[0]


def test_dates_that_are_written_as_numbers():
    days = pandas.Series(pandas.date_range("2020-01-01", periods=60).strftime("%Y%m%d").astype(int))
    assert "'day' looks like dates" in about_dates(pandas.DataFrame({"day": days, "a": days / 7}))[0]
    assert about_dates(pandas.DataFrame({"price": days + 50, "constant": 20200101})) == []
    with pytest.raises(TableError, match="such as 20200101"):
        refuse_dates("day", days, "name another --target")
