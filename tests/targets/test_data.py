"""How steps see the data: batches, all rows, and rows that stay on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.data import HostRows, Rows, as_data

VALUES = {"x": np.arange(12.0).reshape(6, 2), "y": np.arange(6)}
KEY = jax.random.key(0)


def test_minibatches_are_rows_of_all_arrays():
    data = Rows(VALUES, 2)
    assert (data.num_rows, data.batch_size, data.batches_per_epoch, data.host) == (6, 2, 3.0, None)
    epoch = [data.minibatch(KEY, jnp.asarray(step)) for step in range(3)]
    assert sorted(np.concatenate([batch["y"] for batch in epoch])) == list(range(6))
    for batch in epoch:
        np.testing.assert_array_equal(batch["x"][:, 0], 2 * batch["y"])
    assert data.rows(None) is data.values
    assert data.rows(epoch[0]) is epoch[0]


@pytest.mark.parametrize("batch_size", [None, 6, np.int64(6)])
def test_a_batch_of_all_rows_is_all_rows(batch_size):
    data = Rows(VALUES, batch_size)
    assert data.batch_size is None
    assert data.batches_per_epoch is None
    assert data.minibatch(KEY, jnp.asarray(0)) is None


def test_rows_on_the_host():
    data = as_data(sf.data.Mapped(VALUES), 2)
    assert isinstance(data, HostRows)
    assert (data.num_rows, data.batch_size, data.batches_per_epoch) == (6, 2, 3.0)
    assert data.minibatch(KEY, jnp.asarray(0)) is None
    assert jax.tree.map(lambda leaf: leaf.shape, data.batch_shape()) == {"x": (2, 2), "y": (2,)}
    with pytest.raises(ValueError, match="needs a batch"):
        data.rows(None)
    assert as_data(sf.data.Mapped(VALUES), 6).batches_per_epoch is None, "every step sees all of them"
    stream = as_data(sf.data.Stream([VALUES], num_rows=18))
    assert (stream.batch_size, stream.batches_per_epoch) == (6, 3.0), "a stream decides by itself"


def test_files_stay_where_they_are(tmp_path):
    np.save(tmp_path / "x.npy", VALUES["x"])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert as_data(mapped, 2).host is not None
    with pytest.raises(ValueError, match=r"read by batches: pass Posterior\(..., batch_size=256\)"):
        as_data(mapped)

    class Lazy:
        shape, dtype = (6,), np.dtype(float)

        def __getitem__(self, index):
            return np.arange(6.0)[index]

    assert as_data(Lazy(), 2).host is not None
