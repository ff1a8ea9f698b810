"""Runs on disk: they come back as they were, or not at all."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from steinflow.tables.runs import RunError, check_writable, free_folder, load_run


@pytest.fixture(scope="module")
def saved(of_numbers, tmp_path_factory):
    return of_numbers.save(tmp_path_factory.mktemp("runs") / "run")


def test_a_run_comes_back_and_predicts_without_a_fit(of_numbers, saved):
    back = load_run(saved)
    X = np.random.default_rng(0).normal(size=(5, 2)) * [1, 5] + [0, 100]
    for name in ("predict", "predict_interval"):
        np.testing.assert_array_equal(getattr(back.estimator, name)(X), getattr(of_numbers.estimator, name)(X))
    np.testing.assert_array_equal(back.parameters().values, of_numbers.parameters().values)
    np.testing.assert_array_equal(back.start, of_numbers.start)
    for field in ("settings", "data", "evaluation", "notes", "command", "versions", "created"):
        assert getattr(back, field) == getattr(of_numbers, field), field
    assert back.problem.to_json() == of_numbers.problem.to_json()
    assert back.result.ending == of_numbers.result.ending


def edited_json(path):
    details = json.loads(path.read_text())
    details["settings"] = {"method": "svgd"}
    path.write_text(json.dumps(details))


EDITS = {
    "settings": ("run.json", edited_json),
    "not JSON": ("run.json", lambda path: path.write_text("{")),
    "a list": ("run.json", lambda path: path.write_text("[1]")),
    "held-out rows": ("held_out.csv", lambda path: path.write_text("row,truth\n1,2\n")),
    "no start": ("start.npy", lambda path: path.unlink()),
    "another start": ("start.npy", lambda path: np.save(path, np.zeros(3))),
    "result": ("result.nc", lambda path: path.write_bytes(path.read_bytes()[:-100])),
}


@pytest.mark.parametrize("edit", EDITS)
def test_files_edited_by_hand(saved, tmp_path, edit):
    name, change = EDITS[edit]
    copy = shutil.copytree(saved, tmp_path / "copy")
    assert load_run(copy).command
    change(copy / name)
    with pytest.raises(RunError, match=r"is damaged.*fit again"):
        load_run(copy)


def test_a_run_of_another_version(saved, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    details = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**details, "format": 1}))
    with pytest.raises(RunError, match="another version"):
        load_run(copy)


def test_other_files_in_the_folder_do_not_matter(saved, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    (copy / "report.html").write_text("a report")
    assert load_run(copy).command


def test_metrics_that_are_not_numbers_are_null(of_numbers, tmp_path):
    evaluation = {**of_numbers.evaluation, "metrics": {"rmse": float("nan"), "r2": float("-inf")}}
    dataclasses.replace(of_numbers, evaluation=evaluation).save(tmp_path / "run")
    assert load_run(tmp_path / "run").evaluation["metrics"] == {"rmse": None, "r2": None}


def test_only_runs_are_replaced(of_numbers, saved, tmp_path):
    with pytest.raises(RunError, match="already exists"):
        of_numbers.save(saved)
    (tmp_path / "mine").mkdir()
    with pytest.raises(RunError, match="It was not replaced"):
        of_numbers.save(tmp_path / "mine", overwrite=True)


def test_folders_that_cannot_be_written(tmp_path):
    check_writable(tmp_path / "a" / "b" / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "run", tmp_path / "file" / "deep" / "run"):
        with pytest.raises(RunError, match="choose another folder with --output"):
            check_writable(folder)


def test_free_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = free_folder("a/../b c")
    assert first.parts == ("runs", "a-..-b-c")
    first.mkdir(parents=True)
    assert free_folder("a/../b c").name == "a-..-b-c-2"
