"""Runs on minibatches: as accurate as on all rows, from prior draws, in a few passes, whatever holds the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.inference.anchoring import Anchoring
from steinflow.inference.views import Noise
from steinflow.targets.flat import from_prior

NUM_ROWS, BATCH, DIM = 20_000, 50, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
Y = (X @ np.array([2.0, -1.0, 0.5]) + RNG.normal(size=NUM_ROWS)).astype(np.float32)
PRECISION = np.eye(DIM) + X.T.astype(float) @ X.astype(float)
MEAN, SD = np.linalg.solve(PRECISION, X.T.astype(float) @ Y), np.sqrt(np.diag(np.linalg.inv(PRECISION)))


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, rows):
    return -0.5 * (rows[1] - rows[0] @ w) ** 2


def prior(key):
    return jax.random.normal(key, (DIM,))


def posterior(data=(X, Y), batch_size=BATCH):
    return sf.Posterior(log_prior, log_likelihood, data, batch_size, prior=prior)


IN_MEMORY = posterior()  # one object, so that all runs compile once


def fit(target=IN_MEMORY, **changes):
    return sf.fit(target, **{"num_particles": 50, "num_steps": 500, "progress": False, **changes})


class Loader:
    """Epochs of batches, the last of them shorter."""

    def __init__(self, size=BATCH):
        self.size = size

    def __iter__(self):
        order = np.random.default_rng(1).permutation(NUM_ROWS)
        for start in range(0, NUM_ROWS, self.size):
            rows = order[start : start + self.size]
            yield X[rows], Y[rows]


def assert_right(result):
    error = (np.mean(result.particles, axis=0) - MEAN) / SD
    assert np.max(np.abs(error)) < 0.05
    np.testing.assert_allclose(np.std(result.particles, axis=0) / SD, 1, atol=0.05)
    assert result.verdict.level == "good", result.verdict
    assert result.info["passes"] < 6


@pytest.mark.parametrize("key", [0, 1, 2])
def test_prior_draws_come_to_the_accuracy_of_all_rows(key):
    """500 batches see every row 1.25 times: by itself their noise would leave the mean 0.9 sds off."""
    assert_right(fit(key=key))


@pytest.mark.slow
def test_a_stream_that_can_be_read_again():
    assert_right(fit(posterior(sf.data.Stream(Loader(), NUM_ROWS), None)))


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [None, Loader(1000)], ids=["read once", "with an epoch"])
def test_a_stream_by_steps(epoch):
    """A function of the step says nothing about epochs: without one, its noise stays, and the verdict says so."""

    def batches(step):
        while True:
            rows = np.random.default_rng(step).integers(0, NUM_ROWS, BATCH)
            yield X[rows], Y[rows]
            step += 1

    result = fit(posterior(sf.data.Stream(batches, NUM_ROWS, epoch=epoch), None))
    if epoch is None:
        assert result.info["passes"] == 0
        assert 0.4 < result.info["batch_noise"] < 2  # sqrt(N / rows seen) is 0.9
        assert "minibatches leave the mean uncertain" in str(result.verdict)
        assert "more steps would bring that below 0.1" in str(result.verdict)
        assert sf.results.verdict.Remedy.REREAD in result.verdict.remedies
    else:
        assert_right(result)


def test_an_epoch_without_an_end_is_none():
    class Endless:
        def __iter__(self):
            rng = np.random.default_rng(0)
            while True:
                rows = rng.integers(0, NUM_ROWS, BATCH)
                yield X[rows], Y[rows]

    result = fit(posterior(sf.data.Stream(Endless(), NUM_ROWS), None), num_steps=20)
    assert result.info["passes"] > 1
    assert result.info["batch_noise"] > 1


@pytest.mark.slow
def test_a_resumed_run_has_its_anchor(tmp_path):
    class StoppedError(Exception):
        pass

    def stop(history):
        if history["step"][-1] >= 40:
            raise StoppedError
        return False

    settings = {"num_steps": 100, "record_every": 5}
    with pytest.raises(StoppedError):
        fit(checkpoint=sf.Checkpoint(tmp_path / "run", every_steps=7), stop=stop, **settings)
    resumed = fit(checkpoint=sf.Checkpoint(tmp_path / "run", every_steps=7), **settings)
    undisturbed = fit(**settings)
    np.testing.assert_array_equal(resumed.particles, undisturbed.particles)
    np.testing.assert_array_equal(resumed.scores, undisturbed.scores)
    assert resumed.info["passes"] == undisturbed.info["passes"] > 0


@pytest.mark.parametrize(
    "where", [tuple, pytest.param(sf.data.Mapped, marks=pytest.mark.slow)], ids=["in memory", "mapped"]
)
def test_a_column_that_three_rows_fill_is_not_missed(where):
    """Batches of 50 see one of its rows every 130 steps, and would take each for 400."""
    rare = np.zeros(NUM_ROWS, np.float32)
    rare[[17, 4711, 12345]] = 80.0
    x = np.c_[X[:, :2], rare]  # as many parameters as the other tests
    precision = np.eye(DIM) + x.T.astype(float) @ x
    mean, sd = np.linalg.solve(precision, x.T.astype(float) @ Y), np.sqrt(np.diag(np.linalg.inv(precision)))
    target = posterior(where((x, Y)))
    for key in range(3):
        result = fit(target, key=key, num_steps=1000)
        assert np.max(np.abs(np.mean(result.particles, axis=0) - mean) / sd) < 0.05
        np.testing.assert_allclose(np.std(result.particles, axis=0) / sd, 1, atol=0.05)
        assert result.verdict.level == "good", result.verdict
        assert result.info["passes"] < 8


@pytest.mark.slow
def test_langevin_steps_suit_the_rows():
    """The variance here is 1/20,000: a step of 0.1 would diverge."""
    result = fit(method=sf.ParallelSGLD())
    assert np.max(np.abs(np.mean(result.particles, axis=0) - MEAN) / SD) < 0.6
    np.testing.assert_allclose(np.std(result.particles, axis=0) / SD, 1, atol=0.3)


def test_a_cloud_that_no_anchor_helps_does_not_read_all_rows_all_the_time():
    class Restless:
        """A run whose cloud has always left its anchor behind, by far."""

        def noise(self, state, step, block, anchor):
            origin = jnp.zeros(DIM)
            return Noise(origin, origin[None], noise=1.0, plain=50.0, offset=1.0)

        def score(self, point, rows):
            return np.zeros(DIM)

        def influences(self, point, deviations, rows):
            return np.ones(len(rows[1]))

    flat, particles = from_prior(IN_MEMORY, 50, key=jax.random.key(0))
    anchoring = Anchoring(Restless(), flat, num_particles=50, num_steps=1000, key=jax.random.key(0))
    anchored = anchoring.start(particles)
    while (step := anchoring.next_step(anchored)) < 1000:
        anchored = anchoring.updated(anchored, None, step, None)
    assert 15 < anchored.passes < 25


@pytest.mark.slow
def test_a_single_point_does_not_read_all_rows_all_the_time():
    result = fit(method=sf.MAP(), num_steps=1000)
    assert np.max(np.abs(result.particles[0] - MEAN) / SD) < 0.05
    assert result.info["passes"] < 25  # a pass at every look would be 60


class FlakyLoader(Loader):
    """Fails in the middle of one of its passes."""

    def __init__(self, failing=None):
        super().__init__()
        self.passes, self.failing = 0, failing

    def __iter__(self):
        self.passes += 1
        fails = self.passes == self.failing
        for number, batch in enumerate(super().__iter__()):
            if fails and number == 200:
                raise ConnectionError("the network is down")
            yield batch


@pytest.mark.slow
def test_a_stream_that_raises_in_the_middle_of_a_pass_loses_nothing(tmp_path):
    def run(loader, **changes):
        return fit(posterior(sf.data.Stream(loader, NUM_ROWS), None), num_steps=100, **changes)

    whole = FlakyLoader()
    undisturbed = run(whole)
    assert whole.passes > 2  # one for the batches of the steps, the others for anchors
    with pytest.raises(ConnectionError) as failed:
        run(FlakyLoader(failing=whole.passes), checkpoint=tmp_path / "run")
    assert "The run is saved" in failed.value.__notes__[0]
    resumed = run(FlakyLoader(), checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.particles, undisturbed.particles)
    assert resumed.info["passes"] == undisturbed.info["passes"]
    with pytest.raises(ConnectionError) as failed:
        run(FlakyLoader(failing=whole.passes))
    assert "With fit(..., checkpoint=" in failed.value.__notes__[0]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda data: fit(posterior(data)), id="minibatches"),
        pytest.param(lambda data: fit(posterior(data, None), method=sf.SVGD.paper()), id="all rows"),
        pytest.param(lambda data: fit(posterior(sf.data.Mapped(data))), id="mapped", marks=pytest.mark.slow),
    ],
)
def test_rows_with_nan_are_refused_by_number(run):
    x, y = X.copy(), Y.copy()
    x[17, 1], y[12_345] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"2 of 20000 rows .* rows 17, 12345 \(the first is 0\)"):
        run((x, y))


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [False, True], ids=["read once", "read again"])
def test_rows_with_nan_in_a_stream(epoch):
    """Of a stream that cannot be read again it is the step, and the rows of that batch."""
    x, y = X.copy(), Y.copy()
    x[7_007, 1] = y[7_023] = np.nan

    class Some:
        def __iter__(self):
            for start in range(0, NUM_ROWS, BATCH):
                yield x[start : start + BATCH], y[start : start + BATCH]

    def batches(step):
        return (batch for number, batch in enumerate(Some()) if number >= step)

    stream = sf.data.Stream(Some() if epoch else batches, NUM_ROWS)
    named = "2 of 20000 rows .* rows 7007, 7023" if epoch else "batch of step 140, 2 of 50 rows .* rows 7, 23"
    with pytest.raises(ValueError, match=named):
        fit(posterior(stream, None))


def test_who_knows_what_to_do_with_nan_is_left_alone():
    y = Y.copy()
    y[7_007] = np.nan

    def batches(step):
        for start in range(BATCH * (140 + step), NUM_ROWS, BATCH):  # from row 7,000 on
            yield X[start : start + BATCH], y[start : start + BATCH]

    stream = sf.data.Stream(batches, NUM_ROWS)

    def likelihood(w, rows):
        known = jnp.isfinite(rows[1])
        return jnp.where(known, -0.5 * (jnp.where(known, rows[1], 0.0) - rows[0] @ w) ** 2, 0.0)

    result = fit(sf.Posterior(log_prior, likelihood, stream, prior=prior), num_steps=20)
    assert result.outcome is sf.Outcome.STEP_LIMIT


@pytest.mark.parametrize(
    "method",
    [sf.SVGD(exploration=None), pytest.param(sf.SVGD(), marks=pytest.mark.slow)],
    ids=["flow alone", "explored"],
)
def test_a_run_that_has_converged_stops(method):
    result = fit(num_steps=2000, method=method, stop=sf.Converged())
    assert result.outcome is (sf.Outcome.STOPPED if method.exploration is None else sf.Outcome.SETTLED)
    assert result.info["num_steps"] < 1500
    assert_right(result)


@pytest.mark.slow
def test_particles_explore_what_few_rows_know():
    """A column that 15 rows fill, all of one class: its posterior is skewed, and the flow alone leaves it too wide."""
    x = RNG.normal(size=(NUM_ROWS, 6)).astype(np.float32)
    x[:, 5] = 0
    x[:15, 5] = 1
    y = (RNG.random(NUM_ROWS) < 1 / (1 + np.exp(-x @ RNG.normal(size=6)))).astype(np.float32)
    y[:15] = 1

    def likelihood(w, rows):
        return rows[1] * (rows[0] @ w) - jax.nn.softplus(rows[0] @ w)

    def posterior(batch_size):
        wide = {"prior": lambda key: 2.5 * jax.random.normal(key, (6,))}
        return sf.Posterior(lambda w: -0.5 * jnp.sum((w / 2.5) ** 2), likelihood, (x, y), batch_size, **wide)

    truth, batches = sf.fit(posterior(None), num_particles=200, progress=False).particles, posterior(200)
    for key in range(3):
        result = sf.fit(batches, key=key, progress=False)
        assert result.verdict.level == "good", result.verdict
        assert np.max(np.abs(np.mean(result.particles, 0) - np.mean(truth, 0)) / np.std(truth, 0)) < 0.05
        np.testing.assert_allclose(np.std(result.particles, 0) / np.std(truth, 0), 1, atol=0.08)
