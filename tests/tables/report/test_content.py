"""What the charts of a report show."""

import numpy as np
import pytest

from steinflow.tables.report.content import _evenly, charts_of, kind_and_labels, response_name


@pytest.fixture(scope="module")
def charts(of_numbers, of_classes, of_formula):
    return {"numbers": charts_of(of_numbers), "classes": charts_of(of_classes), "formula": charts_of(of_formula)}


def test_parameters_are_those_of_the_run(charts, of_numbers):
    shown, parameters = charts["numbers"]["parameters"], of_numbers.parameters().clearest_first()
    assert shown["names"] == parameters.names[: len(shown["names"])]
    np.testing.assert_allclose(shown["mean"], parameters.mean[: len(shown["names"])], rtol=1e-4)
    np.testing.assert_allclose(np.shape(shown["values"]), (len(shown["names"]), 20))
    assert max(shown["weights"]) == 1


def test_the_motion_begins_at_the_start_and_ends_at_the_end(charts, of_numbers):
    motion = charts["numbers"]["motion"]
    assert motion["steps"][0] == 0
    assert motion["steps"][-1] == of_numbers.result.history["step"][-1]
    assert np.shape(motion["frames"]) == (len(motion["steps"]), len(motion["names"]), 20)
    assert charts["formula"]["motion"]["steps"][0] > 0  # a formula records only on its way


def test_held_out_rows(charts, of_numbers, of_classes):
    numbers, classes = charts["numbers"]["heldOut"], charts["classes"]["heldOut"]
    assert numbers["rows"] == of_numbers.held_out["row"].tolist()
    np.testing.assert_allclose(numbers["mean"], of_numbers.held_out["prediction"], rtol=1e-4)
    assert classes["kind"] == "classes"
    column = of_classes.held_out[f"P({classes['labels'][1]})"]
    np.testing.assert_allclose(classes["probability"], column, rtol=1e-4)


def test_what_is_predicted(of_formula, of_numbers, of_classes):
    assert response_name(of_formula) == "count"
    assert kind_and_labels(of_formula) == ("numbers", [])
    assert kind_and_labels(of_numbers) == ("numbers", [])
    assert kind_and_labels(of_classes)[0] == "classes"


def test_some_of_many():
    np.testing.assert_array_equal(_evenly(3, 5), [0, 1, 2])
    np.testing.assert_array_equal(_evenly(9, 3), [0, 4, 8])


def test_zero_and_one_are_drawn_as_classes(of_flags):
    held_out = charts_of(of_flags)["heldOut"]
    assert (held_out["kind"], held_out["labels"]) == ("classes", ["0", "1"])
    assert len(held_out["probability"]) == len(of_flags.held_out)
