"""Tables on which effects can be seen."""

import numpy as np

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
