"""How many threads NumPy's products take."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from steinflow.devices.threads import threads_for

BLAS = [library for library in ThreadpoolController().info() if library["user_api"] == "blas"]


def num_threads():
    return {each["num_threads"] for each in ThreadpoolController().info() if each["user_api"] == "blas"}


@pytest.mark.skipif(not BLAS, reason="NumPy's products come from a library without threads of its own")
def test_small_products_take_one_thread_and_large_ones_as_many_as_before():
    before = num_threads()
    with threads_for(1e5):
        assert num_threads() == {1}
        np.testing.assert_array_equal(np.ones((2, 3)) @ np.ones((3, 2)), np.full((2, 2), 3.0))
    assert num_threads() == before
    with threads_for(1e9):
        assert num_threads() == before


def test_who_fails_meanwhile_leaves_the_threads_as_they_were():
    before = num_threads()
    with pytest.raises(ZeroDivisionError), threads_for(1.0):
        raise ZeroDivisionError
    assert num_threads() == before
