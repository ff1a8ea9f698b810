r"""When to anchor anew, and with how many rows: decided by the noise that is measured.

From time to time the loop asks what a minibatch does to the mean of the scores (`compiled.Noise`). The anchor moves to
the centre of the cloud

- where noise matters and most of it comes from the distance between the two, or
- where its score, from a part of the rows, is not known well enough any more.

The score of M of N rows is wrong by $\nu \sqrt{|B| (1/M - 1/N)}$ sds, where $\nu$ is what one batch does without an
anchor. A cloud a hundred times wider than the posterior feels little of that: a few rows are enough. As it contracts,
$\nu$ grows, and with it M, to all rows in the end: prior draws arrive in a few passes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.inference.compiled import Run
from steinflow.targets.anchors import Anchor
from steinflow.targets.data import Data, refuse_rows
from steinflow.targets.feed import Block
from steinflow.targets.streams import num_rows_of
from steinflow.typing import Array, Batch, Particles, Point, PRNGKeyArray

# In sds of the cloud: what a run averages out over its last steps is a fifth of the first.
_NOISE, _WANTED_ERROR, _LARGEST_ERROR = 0.1, 0.1, 0.2
_OFFSET = 0.03  # squared: an anchor 0.17 sds from the centre, in every coordinate
_NEARLY_ALL = 0.25  # of the rows; a pass in order is quicker than random rows
_OFTEN, _SELDOM = 5, 50  # steps between two looks
_NEVER = np.iinfo(np.int32).max
_HELPS = 2.0  # by how much the variance should fall
_BUDGET = 0.5  # rows that passes may read beside the first, for one row and particle of a step


class Anchored(eqx.Module):
    """The anchor, how many rows know its score, and when to look again: part of a checkpoint."""

    anchor: Anchor
    num_rows: Array
    passes: Array  # over all rows, so far
    next_look: Array
    wait: Array


class Anchoring:
    """Keeps the anchor of a run near the centre of its cloud; does nothing where steps see all of the data.

    Args:
        run: whose noise is measured.
        data: of the target, where steps see only a part of them; None otherwise.
        num_particles: of the run.
        num_steps: of the run.
        key: decides which rows are read where not all are.
    """

    def __init__(self, run: Run, data: Data | None, *, num_particles: int, num_steps: int, key: PRNGKeyArray):
        self._run, self._num_particles, self._num_steps, self._key = run, num_particles, num_steps, key
        self._data = None if data is None or data.blocks(1, key=key) is None else data

    def start(self, particles: Particles) -> Anchored | None:
        """Return an anchor at the centre of the particles that knows nothing yet; None where there can be none."""
        if self._data is None:
            return None
        anchor = Anchor.unknown_at(as_array(np.mean(np.asarray(particles), axis=0)))
        return _anchored(anchor, num_rows=0, passes=0.0, next_look=0, wait=_OFTEN)

    def next_step(self, anchored: Anchored | None) -> float:
        """Return the step before which to look at the noise."""
        return float("inf") if anchored is None else int(anchored.next_look)

    def updated(self, anchored: Anchored | None, state, step: int, block: Block | None) -> Anchored | None:
        """Return the anchor for the steps that come: the same, or a new one where that would help."""
        if anchored is None or self._data is None:
            return anchored
        found = self._run.noise(state, step, block, anchored.anchor)
        noise, plain, offset = (float(value) for value in (found.noise, found.plain, found.offset))
        num_rows, passes, wait = int(anchored.num_rows), float(anchored.passes), int(anchored.wait)
        anchor, all_rows, batch_size = anchored.anchor, self._data.num_rows, self._data.batch_size or 1
        error = plain * (batch_size * (1 / max(num_rows, 1) - 1 / all_rows)) ** 0.5
        stale = num_rows == 0 or error > _LARGEST_ERROR or (noise > _NOISE and offset > _OFFSET)
        helps = num_rows == 0 or plain**2 > _HELPS * noise**2
        wanted = batch_size * (plain / _WANTED_ERROR) ** 2
        wanted = int(np.clip(wanted, batch_size, all_rows)) if wanted < _NEARLY_ALL * all_rows else all_rows
        allowed = 1 + _BUDGET * step * self._num_particles * batch_size / all_rows
        outrun = np.isinf(offset) and num_rows == wanted == all_rows  # a point on its way leaves every anchor behind
        if stale and np.isfinite(plain) and passes + wanted / all_rows <= allowed:
            anchor, passed = self._moved(found.center, wanted, step)
            if passed > 1:
                return _anchored(anchor, num_rows=0, passes=passes + passed, next_look=_NEVER, wait=_OFTEN)
            num_rows = all_rows if wanted == all_rows else round(passed * all_rows)
            passes += passed
        longest = _SELDOM if helps else max(_SELDOM, self._num_steps // 4)
        wait = _OFTEN if stale and helps and not outrun else min(2 * wait, longest)
        return _anchored(anchor, num_rows=num_rows, passes=passes, next_look=step + wait, wait=wait)

    def _moved(self, point: Point, num_rows: int, step: int) -> tuple[Anchor, float]:
        """Return an anchor at a point, whose score takes a pass over so many rows, and how many passes that were.

        More than one, and an anchor that knows nothing, where an epoch has more rows than there are: what it says of
        all rows is no more than chance.

        Raises:
            ValueError: if there are rows with NaN, for which the score is not finite.
        """
        assert self._data is not None
        total, seen = np.zeros(len(point)), 0
        for rows in _read_ahead(self._data.blocks(num_rows, key=jax.random.fold_in(self._key, step))):
            size = num_rows_of(rows)
            total, seen = total + size * self._run.score(point, rows), seen + size
            if seen > self._data.num_rows:
                return Anchor.unknown_at(point), seen / self._data.num_rows
        if not np.all(np.isfinite(total)):
            refuse_rows(self._data, key=self._key)
        score = as_array(total / max(seen, 1), point.dtype)
        weight = as_array(np.all(np.isfinite(total)), point.dtype)
        return Anchor(point, score, weight), seen / self._data.num_rows


def _anchored(anchor, *, num_rows, passes, next_look, wait) -> Anchored:
    counts = (as_array(np.int32(value)) for value in (num_rows, next_look, wait))
    num_rows, next_look, wait = counts
    return sharding.replicate(Anchored(anchor, num_rows, as_array(np.float32(passes)), next_look, wait))


def _read_ahead(blocks: Iterator[Batch] | None) -> Iterator[Batch]:
    """Yield blocks on the device, the next being read by a thread meanwhile."""
    mesh = jax.sharding.get_mesh()

    def read():
        block = None if blocks is None else next(blocks, None)
        with sharding.use(None if mesh.empty else mesh):
            return block if block is None else sharding.place_rows(block)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="steinflow-pass") as thread:
        ahead = thread.submit(read)
        while (block := ahead.result()) is not None:
            ahead = thread.submit(read)
            yield block
