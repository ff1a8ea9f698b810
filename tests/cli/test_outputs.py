"""What `steinflow fit` prints, for people and for scripts."""

import re

import numpy as np


def test_json_of_a_classification(runs):
    summary = runs.json
    assert summary["model"] == "logistic"
    assert summary["outcome"] in ("step limit", "stopped")
    assert summary["ending"].endswith(".")
    assert summary["held_out"]["metrics"]["accuracy"] > summary["held_out"]["metrics"]["accuracy_of_guessing"]
    assert 0 <= summary["held_out"]["metrics"]["calibration_error"] < 0.3
    assert np.sum(summary["held_out"]["confusion"]) == summary["held_out"]["num_rows"] == 24
    assert summary["parameters"]["a"]["mean"] > 1
    assert "color = green" in summary["parameters"]


def test_what_a_person_sees(runs):
    assert "Logistic regression: 'y' has two different values" in runs.text.stderr
    expected = ("Effects on the log-odds of 'y' being 'yes'", "inference", "model:", "On 24 held-out rows", "accuracy")
    for words in (*expected, f"steinflow report {runs.other}"):
        assert words in runs.text.stdout
    assert re.search("good|doubtful|bad", runs.text.stdout)
    assert "\x1b" not in runs.text.stdout


def test_json_with_numbers_that_are_none(one_row):
    assert one_row.json["held_out"]["num_rows"] == 1
    assert one_row.json["held_out"]["metrics"]["r2"] is None
