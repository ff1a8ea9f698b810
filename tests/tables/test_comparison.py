"""Runs side by side."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas

from steinflow.results.comparison import leave_one_out
from steinflow.tables.comparison import are_comparable, behind_the_best, by_leave_one_out, rows_in_common
from steinflow.tables.fitting import _to_compare
from steinflow.tables.runs import load_run


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


def test_leave_one_out_from_saved_runs(of_numbers, of_formula, tmp_path):
    for run in (of_numbers, of_formula):  # too short to have kept states: the particles are the draws
        back = load_run(run.save(tmp_path / run.problem.model))
        [found, same] = by_leave_one_out([back, back])
        elpd, k = leave_one_out(run.result)
        assert found == same
        assert found["num_rows"] == len(elpd) == run.data["num_rows"]
        np.testing.assert_allclose(found["elpd"], elpd.sum(), rtol=1e-4)
        np.testing.assert_allclose(found["pareto_k"], k.max(), rtol=1e-2)
        assert bool(found["reason"]) == (k.max() > 0.7)


def test_why_rows_are_not_left_out(of_numbers):
    other = dataclasses.replace(of_numbers, data={**of_numbers.data, "sha256": "other"})
    assert all("same rows" in each["reason"] for each in by_leave_one_out([of_numbers, other]))
    early = dataclasses.replace(of_numbers, fitted={})
    known, unknown = by_leave_one_out([of_numbers, early])
    assert known["difference"] == 0.0
    assert unknown["elpd"] is None
    assert "has not kept the rows" in unknown["reason"]


def test_states_are_kept_in_part():
    states = np.zeros((300, 20, 3))
    found = _to_compare({"row": np.arange(9), "X": np.zeros((3000, 3000))}, states)
    assert {name: values.shape for name, values in found.items()} == {"row": (9,), "states": (100, 20, 3)}
