"""What columns say about residuals."""

import numpy as np
import pandas
from scipy import stats

from steinflow.tables.alternatives import Model
from steinflow.tables.residuals import MOST_ROWS, Drawn, Look, _explained, as_often, chosen_rows, levels_of

RNG = np.random.default_rng(0)


def _look(y, frame, used=(), *, kind="numbers", sd=1.0, pooled=False):
    model = Model("formula", "gaussian", ("y ~ x",), float(y.min()), are_whole=False, amounts=frozenset(used))
    mean = np.zeros(len(y))
    return Look.at(Drawn(kind, y, mean, np.full(len(y), sd), None, frame, frozenset(used), model, pooled))


def test_what_levels_explain_is_an_analysis_of_variance():
    codes, residuals = RNG.integers(0, 4, 100), RNG.normal(size=100)
    expected = stats.f_oneway(*(residuals[codes == k] for k in range(4)))
    _, chance = _explained(residuals, codes)
    np.testing.assert_allclose(chance, expected.pvalue)
    share, _ = _explained(codes + 0.1 * residuals, codes)
    assert 0.9 < share < 1
    assert _explained(residuals, np.zeros(100, int)) == (0.0, 1.0)


def test_a_line_is_taken_out_and_small_residuals_are_none():
    x = np.linspace(-1, 1, 200)
    codes = np.digitize(x, [-0.5, 0, 0.5])
    assert _explained(x, codes)[1] < 1e-10
    assert _explained(x + 0.1 * RNG.normal(size=200), codes, x)[1] > 1e-3
    assert _explained(x**2, codes, x)[1] < 1e-10
    assert _explained(0.01 * codes + 0.001 * RNG.normal(size=200), codes, least=1.0)[1] > 0.5


def test_levels_in_order_with_what_is_missing():
    codes, levels = levels_of(pandas.Series([2.0, 1.0, np.nan, 2.0]))
    assert levels == ["1", "2", "missing"]
    assert codes.tolist() == [1, 0, 2, 1]
    codes, levels = levels_of(pandas.Series(["b", None, "a"]))
    assert [levels[code] for code in codes] == ["b", "missing", "a"]


def test_the_column_by_which_noise_differs():
    x = np.linspace(-1, 1, 400)
    frame = pandas.DataFrame({"x": x, "z": RNG.normal(size=400)})
    assert _look(RNG.normal(0, np.exp(2 * x)), frame).noisy == "x"
    assert _look(RNG.normal(size=400), frame).noisy is None


def test_amounts_have_no_levels():
    frame = pandas.DataFrame({"x": RNG.normal(size=60), "g": RNG.integers(0, 4, 60), "id": np.arange(60)})
    look = _look(RNG.normal(size=60), frame, ["x"])
    assert [look.levels(name) for name in frame] == [None, 4, None]
    assert None not in _look(RNG.normal(size=60), frame, pooled=True).found


def test_the_same_rows_are_drawn_anew():
    rows = chosen_rows(5000)
    assert len(np.unique(rows)) == 2000
    np.testing.assert_array_equal(rows, chosen_rows(5000))
    np.testing.assert_array_equal(chosen_rows(10), np.arange(10))


def test_rows_count_as_often_as_their_weights_say():
    np.testing.assert_array_equal(as_often(np.array([2.0, 1.0, 3.0])), [0, 0, 1, 2, 2, 2])
    np.testing.assert_array_equal(chosen_rows(2, np.array([1.0, 2.0])), [0, 1, 1])
    many = as_often(np.array([3e6, 1e6]))
    assert len(many) == MOST_ROWS
    np.testing.assert_allclose(np.mean(many == 0), 0.75, atol=0.03)
    fractions = as_often(np.array([0.5, 1.5] * 500))
    assert len(fractions) == 1000
    np.testing.assert_allclose(np.mean(fractions % 2), 0.75, atol=0.05)
