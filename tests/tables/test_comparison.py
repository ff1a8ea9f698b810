"""Runs side by side."""

from types import SimpleNamespace

import numpy as np
import pandas

from steinflow.tables.comparison import behind_the_best


def _run(logs, rows=None):
    rows = np.arange(len(logs)) if rows is None else rows
    return SimpleNamespace(held_out=pandas.DataFrame({"row": rows, "log_likelihood": logs}).astype(str))


def test_rows_are_compared_in_pairs():
    rng = np.random.default_rng(0)
    hard, worse = 5 * rng.normal(size=100), rng.normal(0.3, 0.1, size=100)
    best, other = behind_the_best([_run(hard), _run(hard - worse)])
    assert best == {"mean": 0.0, "standard_error": 0.0}
    np.testing.assert_allclose(other["mean"], -worse.mean())
    np.testing.assert_allclose(other["standard_error"], worse.std(ddof=1) / 10)


def test_other_rows_are_not_compared():
    logs = np.zeros(5)
    assert behind_the_best([_run(logs), _run(logs, np.arange(1, 6))]) is None
    assert behind_the_best([_run(logs), SimpleNamespace(held_out=None)]) is None
    assert behind_the_best([_run(logs[:1]), _run(logs[:1])]) is None
