"""Tables of any library as pandas, and the rows that can be used."""

import decimal

import numpy as np
import pytest

import steinflow as sf


def test_a_table_is_a_table():
    with pytest.raises(TypeError, match="table of pandas, Polars or Arrow"):
        sf.formula("y ~ x", np.zeros((3, 2)))


def test_missing_rows_are_dropped_and_said(table):
    gaps = table.assign(x=table["x"].where(table.index != 3), t=table["t"].where(table.index > 10, np.inf))
    with pytest.warns(UserWarning, match=r"Dropped 1 of 60 rows with missing or infinite values: 'x' \(1\)"):
        target = sf.formula("y ~ x", gaps)
    assert target.observations.labels().coords["row"] == [i for i in range(60) if i != 3]


def test_decimals_are_numbers(table):
    prices = table.assign(x=[decimal.Decimal(f"{value:.2f}") for value in table["x"]])
    target = sf.formula("y ~ x", prices)
    assert target.rows(prices[:2])["predictors"]["mu"]["X"].shape == (2, 1)
