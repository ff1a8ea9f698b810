"""Runs side by side."""

from types import SimpleNamespace

import numpy as np
import pandas

from steinflow.tables.comparison import are_comparable, behind_the_best, rows_in_common


def _run(logs, rows=None, **data):
    rows = np.arange(len(logs)) if rows is None else rows
    table = pandas.DataFrame({"row": rows, "log_likelihood": logs}).astype(str)
    return SimpleNamespace(held_out=table, data={"num_held_out": len(rows), **data})


def test_rows_are_compared_in_pairs():
    rng = np.random.default_rng(0)
    hard, worse = 5 * rng.normal(size=100), rng.normal(0.3, 0.1, size=100)
    best, other = behind_the_best([_run(hard), _run(hard - worse)])
    assert best == {"mean": 0.0, "standard_error": 0.0}
    np.testing.assert_allclose(other["mean"], -worse.mean())
    np.testing.assert_allclose(other["standard_error"], worse.std(ddof=1) / 10)


def test_only_rows_that_all_held_out_are_compared():
    logs = np.arange(5.0)
    runs = [_run(logs), _run(logs + 1, np.arange(1, 6))]  # rows 1 to 4 are in both, and of the same likelihood
    assert not are_comparable(runs)
    assert rows_in_common(runs).tolist() == [1, 2, 3, 4]
    assert behind_the_best(runs) == [{"mean": 0.0, "standard_error": 0.0}] * 2
    assert are_comparable([_run(logs), _run(logs)])
    assert not are_comparable([_run(logs), _run(logs, num_held_out=9)])
    for other in (_run(logs, target="z"), SimpleNamespace(held_out=None, data={"num_held_out": 0})):
        assert not are_comparable([_run(logs), other])
        assert behind_the_best([_run(logs), other]) is None
    assert behind_the_best([_run(logs[:1]), _run(logs[:1])]) is None
