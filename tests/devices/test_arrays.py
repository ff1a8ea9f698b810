import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices.arrays import as_array


@pytest.mark.parametrize("value", [1.5, 2, True, np.arange(3), np.ones((2, 1)), np.zeros(2, np.float16), jnp.ones(2)])
@pytest.mark.parametrize("target", [None, float])
def test_arrays_are_those_of_jax(value, target, dtype):
    array, expected = as_array(value, target), jnp.asarray(value, target)
    assert isinstance(array, jax.Array)
    assert (array.dtype, array.shape, array.weak_type) == (expected.dtype, expected.shape, False)
    np.testing.assert_array_equal(array, expected)


def test_changes_of_the_original_do_not_show():
    original = np.zeros(1000, np.float32)
    array = as_array(original)
    original[:] = 1
    assert not np.any(array)


def test_no_text():
    with pytest.raises(TypeError):
        as_array(np.array(["a"]))
