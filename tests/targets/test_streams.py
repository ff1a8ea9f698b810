"""Data beyond memory: mapped files and streams give the runs that arrays give."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.devices.compilation import split
from steinflow.targets.data import as_data
from steinflow.targets.feed import Feed

NUM_ROWS = 103
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_ROWS, 2)).astype(np.float32)
Y = (X @ np.array([1.0, -1.0]) + RNG.normal(size=NUM_ROWS)).astype(np.float32)
START = RNG.normal(size=(10, 2)).astype(np.float32)
METHOD = sf.SVGD.paper()


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, rows):
    return -0.5 * (rows[1] - rows[0] @ w) ** 2


def fit(data, batch_size=None, num_steps=90, **settings):
    target = sf.Posterior(log_prior, log_likelihood, data, batch_size=batch_size)
    return sf.fit(target, METHOD, particles=START, num_steps=num_steps, key=1, progress=False, **settings)


class Loader:
    """Epochs in fixed order, the last batch of each too short, as loaders do."""

    def __init__(self, batch_size=10):
        self.batch_size = batch_size

    def __iter__(self):
        for start in range(0, NUM_ROWS, self.batch_size):
            yield X[start : start + self.batch_size], Y[start : start + self.batch_size]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, array in (("x", X), ("y", Y)):
        np.save(folder / f"{name}.npy", array)
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))


@pytest.mark.slow
def test_mapped_data_give_the_same_run_as_arrays(mapped):
    reference, result = fit((X, Y), batch_size=8), fit(mapped, batch_size=8)
    np.testing.assert_array_equal(result.particles, reference.particles)
    jax.tree.map(np.testing.assert_array_equal, result.history, reference.history)


def test_mapped_data_are_read_by_batches(mapped):
    class Spy(np.memmap):
        asked = 0

        def __getitem__(self, index):
            if isinstance(index, np.ndarray):
                Spy.asked = max(Spy.asked, len(index))
            return super().__getitem__(index)

    spies = tuple(array.view(Spy) for array in mapped)
    target = sf.Posterior(log_prior, log_likelihood, spies, batch_size=1)
    assert isinstance(target.data.host, sf.data.Mapped)
    fit(spies, batch_size=1, num_steps=30)
    assert 0 < Spy.asked <= 64  # the rows of a block of steps, not all of them


@pytest.mark.slow
def test_stream_in_epochs_is_resumed(tmp_path):
    reference = fit(sf.data.Stream(Loader(), NUM_ROWS))

    def stop(history):
        if history["step"][-1] == 90:
            raise KeyboardInterrupt
        return False

    assert fit(sf.data.Stream(Loader(), NUM_ROWS), stop=stop, checkpoint=tmp_path).outcome is sf.Outcome.INTERRUPTED
    resumed = fit(sf.data.Stream(Loader(), NUM_ROWS), checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.particles, reference.particles)


def test_stream_from_a_step(tmp_path):
    full = [batch for batch in Loader() if len(batch[1]) == 10]
    asked = []

    def batches(step):
        asked.append(step)
        return (full[i % len(full)] for i in range(step, 10_000))

    reference = fit(sf.data.Stream(Loader(), NUM_ROWS))
    result = fit(sf.data.Stream(batches, NUM_ROWS, epoch=Loader()))
    np.testing.assert_array_equal(result.particles, reference.particles)
    with Feed(as_data(sf.data.Stream(batches, NUM_ROWS)), key=jax.random.key(0)) as feed:
        assert feed.seek(77)
        np.testing.assert_array_equal(feed.block.batch(77)[1], full[77 % len(full)][1])
    assert asked[-1] == 77


def test_data_of_the_same_shapes_share_compiled_code(mapped):
    first, second = (as_data(sf.data.Stream(Loader(), NUM_ROWS)) for _ in range(2))
    assert split(first)[0] != split(second)[0]
    assert split(first.placed())[0] == split(second.placed())[0]
    assert (first.placed().num_rows, first.placed().batch_size) == (NUM_ROWS, 10)
    assert split(as_data(mapped, 8).placed())[0] != split(as_data(mapped, 9).placed())[0]
    assert as_data(mapped, 8).placed().batch_shape()[0].shape == (8, 2)


def test_stream_that_ends():
    result = fit(sf.data.Stream(iter(list(Loader())), NUM_ROWS))
    assert result.outcome is sf.Outcome.DATA_ENDED
    assert "ended at step 10" in str(result.ending)


def test_wrong_streams_are_refused():
    def two_sizes():
        yield X[:10], Y[:10]
        yield X[:20], Y[:20]

    with pytest.raises(ValueError, match=r"All batches of a stream must have the same shapes: .* at step 1"):
        fit(sf.data.Stream(two_sizes(), NUM_ROWS))
    with pytest.raises(ValueError, match="have 10 rows: leave it out"):
        fit(sf.data.Stream(Loader(), NUM_ROWS), batch_size=9)
    with pytest.raises(ValueError, match="no batches"):
        fit(sf.data.Stream([], NUM_ROWS))
    with pytest.raises(TypeError, match="must be an iterable of batches"):
        sf.data.Stream(3, NUM_ROWS)


def test_errors_of_a_loader_reach_the_user():
    def broken():
        yield from Loader()
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="the network is gone"):
        fit(sf.data.Stream(broken(), NUM_ROWS))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("steinflow-feed")]


def test_mapped_data_need_batches(mapped):
    with pytest.raises(ValueError, match="are read by batches: pass Posterior"):
        fit(mapped)
    target = sf.Posterior(log_prior, log_likelihood, mapped, batch_size=8)
    with pytest.raises(ValueError, match="its log density needs a batch"):
        sf.ksd(target, START)
