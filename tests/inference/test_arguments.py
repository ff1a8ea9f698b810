import numpy as np
import pytest

import steinflow as sf
from steinflow.inference.arguments import checked_count, checked_method, checked_record, checked_stop


@pytest.mark.parametrize("value", [10_000, 1e4, np.int64(10_000), np.float32(10_000)])
def test_whole_numbers_of_any_type_count(value):
    found = checked_count("num_steps", value)
    assert found == 10_000
    assert type(found) is int


@pytest.mark.parametrize("value", [30.5, "30", True, np.nan, np.inf, [30], 0, -1, 0.0])
def test_other_numbers_do_not(value):
    """Half a step made a run that never ended."""
    with pytest.raises(ValueError, match="num_steps must be"):
        checked_count("num_steps", value)


@pytest.mark.parametrize("record", [lambda x: x, {"x": 3}, ["x"]])
def test_what_is_recorded_is_functions_with_names(record):
    with pytest.raises(TypeError, match=r'as \{"mean": lambda x'):
        checked_record(record)


@pytest.mark.parametrize("stop", [sf.Converged, True, "converged"])
def test_a_stopping_rule_is_a_function(stop):
    with pytest.raises(TypeError, match=r"as sf\.Converged\(\)"):
        checked_stop(stop)


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [({"checkpoint": 3}, r"checkpoint must be a folder"), ({"mesh": 2}, r"as returned by sf\.mesh\(\); got 2")],
)
def test_folders_and_devices(wrong, fix):
    with pytest.raises(TypeError, match=fix):
        sf.fit(lambda x: -0.5 * x @ x, particles=np.zeros((3, 2), np.float32), progress=False, **wrong)


def test_nothing_said():
    assert checked_count("num_steps", None) is None
    assert checked_method(None) is None
    assert checked_record(None) == {}
    assert checked_stop(None) is None
