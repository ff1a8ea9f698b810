"""Tables on which effects can be seen."""

import numpy as np
import pandas

import steinflow as sf
from steinflow.models.formulas.effects import grid, shown_effects


def test_terms_that_interact_are_drawn_together(table):
    target = sf.formula("y ~ x * z + t + (1 | g)", table)
    assert shown_effects(target.about.designs["mu"]) == [("t",), ("x", "z")]
    rows = grid(table[["x", "z", "t", "g"]], ["x", "z"], 7)
    assert len(rows) == 21
    assert rows["t"].nunique() == 1
    np.testing.assert_allclose(rows["t"].iloc[0], table["t"].mean())
    assert rows["g"].iloc[0] in set(table["g"])


def test_usual_values_and_values_along_an_axis():
    table = pandas.DataFrame(
        {
            "number": np.linspace(0, 9, 40),
            "count": np.arange(40),
            "code": np.repeat([3, 1, 2, 7], 10),
            "text": ["a"] * 15 + ["b"] * 25,
        }
    )
    rows = grid(table, ["number"], 4)
    np.testing.assert_allclose(rows["number"], [0, 3, 6, 9])
    assert set(rows["count"]) == {20}  # whole numbers at their median, text at its most frequent value
    assert set(rows["text"]) == {"b"}
    assert rows["code"].dtype.kind == "i"
    np.testing.assert_allclose(grid(table, ["count"], 5)["count"], np.linspace(0, 39, 5))  # many
    assert grid(table, ["code"], 5)["code"].tolist() == [1, 2, 3, 7]  # few
    assert grid(table, ["text"], 5)["text"].tolist() == ["a", "b"]


def test_the_second_of_two_takes_a_few_values():
    table = pandas.DataFrame({"a": np.linspace(0, 1, 50), "b": np.linspace(-1, 1, 50), "code": np.tile(range(5), 10)})
    mean, sd = table["b"].mean(), table["b"].std()
    np.testing.assert_allclose(sorted(set(grid(table, ["a", "b"], 3)["b"])), [mean - sd, mean, mean + sd], atol=1e-12)
    assert sorted(set(grid(table, ["a", "code"], 3)["code"])) == [0, 2, 4]
