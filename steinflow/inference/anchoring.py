r"""When to anchor anew, and with how many rows: decided by the noise that is measured.

From time to time the loop asks what a minibatch does to the mean of the scores (`compiled.Noise`). The anchor moves to
the centre of the cloud

- where noise matters and most of it comes from the distance between the two, or
- where its score, from a part of the rows, is not known well enough any more.

The score of M of N rows is wrong by $\nu \sqrt{|B| (1/M - 1/N)}$ sds, where $\nu$ is what one batch does without an
anchor. A cloud a hundred times wider than the posterior feels little of that: a few rows are enough. As it contracts,
$\nu$ grows, and with it M, to all rows in the end: prior draws arrive in a few passes.

Some of the passes over all rows also say how much each row matters to the cloud (`targets/influence.py`): the first of
them, and the second, fourth, eighth, as the cloud comes to be what it will be.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.inference.compiled import Run
from steinflow.inference.views import Noise
from steinflow.targets.anchors import Anchor
from steinflow.targets.data import refuse_rows
from steinflow.targets.feed import Block
from steinflow.targets.flat import FlatTarget
from steinflow.targets.influence import Influence, group_sums, num_groups
from steinflow.targets.streams import num_rows_of
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray

# In sds of the cloud: what a run averages out over its last steps is a fifth of the first.
_NOISE, _WANTED_ERROR, _LARGEST_ERROR = 0.1, 0.1, 0.2
_OFFSET = 0.03  # squared: an anchor 0.17 sds from the centre, in every coordinate
_NEARLY_ALL = 0.25  # of the rows; a pass in order is quicker than random rows
_FEW = 2**16  # rows, of which all are read: before their influence is known, one of them may throw the cloud far off
_OFTEN, _SELDOM = 5, 50  # steps between two looks
_NEVER = np.iinfo(np.int32).max
_HELPS = 2.0  # by how much the variance should fall
_MANY = 10  # passes over all rows
_BUDGET = 0.5  # rows that passes may read beside the first, for one row and particle of a step


class Anchored(eqx.Module):
    """The anchor, how many rows know its score, and when to look again: part of a checkpoint."""

    anchor: Anchor
    num_rows: Array
    passes: Array  # over all rows, so far
    num_complete: Array  # those that came to all rows
    next_look: Array
    wait: Array


class Anchoring:
    """Keeps the anchor of a run near the centre of its cloud; does nothing where steps see all of the data.

    Args:
        run: whose noise is measured.
        target: whose data there may be; networks have no anchor.
        num_particles: of the run.
        num_steps: of the run.
        key: decides which rows are read where not all are.
    """

    def __init__(self, run: Run, target: FlatTarget, *, num_particles: int, num_steps: int, key: PRNGKeyArray):
        self._run, self._num_particles, self._num_steps, self._key = run, num_particles, num_steps, key
        data = target.data if target.noisy and target.identified else None
        self._data = None if data is None or data.blocks(1, key=key) is None else data
        self._draws_rows = target.draws_rows

    def start(self, particles: Particles) -> Anchored | None:
        """Return an anchor at the centre of the particles that knows nothing yet; None where there can be none."""
        if self._data is None:
            return None
        influence = sharding.replicate(Influence.even(self._data.num_rows)) if self._draws_rows else None
        anchor = _placed(Anchor.unknown_at(as_array(np.mean(np.asarray(particles), axis=0)), influence))
        return _anchored(anchor, num_rows=0, passes=0.0, num_complete=0, next_look=0, wait=_OFTEN)

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
        anchor, num_complete = anchored.anchor, int(anchored.num_complete)
        all_rows, batch_size = self._data.num_rows, self._data.batch_size or 1
        error = plain * (batch_size * (1 / max(num_rows, 1) - 1 / all_rows)) ** 0.5
        stale = num_rows == 0 or error > _LARGEST_ERROR or (noise > _NOISE and offset > _OFFSET)
        helps = num_rows == 0 or plain**2 > _HELPS * noise**2
        wanted = batch_size * (plain / _WANTED_ERROR) ** 2
        few = all_rows > _FEW and wanted < _NEARLY_ALL * all_rows
        wanted = int(np.clip(wanted, batch_size, all_rows)) if few else all_rows
        earned = _BUDGET * self._num_particles * batch_size / all_rows  # passes, by every step
        missing = (passes + wanted / all_rows - 1) / earned - step  # steps, before so many rows may be read
        outrun = np.isinf(offset) and num_rows == wanted == all_rows  # a point on its way leaves every anchor behind
        if stale and np.isfinite(plain) and missing <= 0:
            num_complete += wanted == all_rows
            weighing = self._draws_rows and wanted == all_rows and num_complete.bit_count() == 1
            anchor, passed = self._moved(anchor, found, wanted, step, weighing=weighing)
            passes += passed
            if passed > 1:
                return _anchored(anchor, num_rows=0, passes=passes, num_complete=0, next_look=_NEVER, wait=_OFTEN)
            num_rows = all_rows if wanted == all_rows else round(passed * all_rows)
        longest = _SELDOM if helps else max(_SELDOM, self._num_steps // 4)
        # Who has read all rows many times and is not near them yet, as a cloud that collapses, looks ever more seldom.
        longest = max(longest, self._num_steps // 10) if num_complete > _MANY else longest
        often = stale and helps and not outrun and num_complete <= _MANY
        wait = int(np.clip(np.ceil(missing), _OFTEN, _SELDOM)) if often else min(2 * wait, longest)
        return _anchored(
            anchor, num_rows=num_rows, passes=passes, num_complete=num_complete, next_look=step + wait, wait=wait
        )

    def _moved(self, anchor: Anchor, found: Noise, num_rows: int, step: int, *, weighing: bool) -> tuple[Anchor, float]:
        """Return an anchor at the centre, whose score takes a pass over so many rows, and how many passes that were.

        More than one, and an anchor that knows nothing, where an epoch has more rows than there are: what it says of
        all rows is no more than chance. Where `weighing`, the anchor also comes to know the influence of all rows.

        Raises:
            ValueError: if there are rows with NaN, for which the score is not finite.
        """
        assert self._data is not None
        point, all_rows = found.center, self._data.num_rows
        total, seen, sums = np.zeros(len(point)), 0, np.zeros(num_groups(all_rows) if weighing else 0)
        for rows in _read_ahead(self._data.blocks(num_rows, key=jax.random.fold_in(self._key, step))):
            size = num_rows_of(rows)
            total = total + size * self._run.score(point, rows)
            if weighing:
                sums += group_sums(self._run.influences(point, found.deviations, rows), seen, all_rows)
            seen += size
            if seen > all_rows:
                return _placed(Anchor.unknown_at(point)), seen / all_rows
        if not np.all(np.isfinite(total)):
            refuse_rows(self._data, key=self._key)
        score = as_array(total / max(seen, 1), point.dtype)
        weight = as_array(np.all(np.isfinite(total)), point.dtype)
        influence = anchor.influence
        if weighing and influence is not None:
            influence = sharding.replicate(influence.blended(sums))
        return _placed(Anchor(point, score, weight, influence)), seen / all_rows


def _anchored(anchor, *, num_rows, passes, num_complete, next_look, wait) -> Anchored:
    counts = (as_array(np.int32(value)) for value in (num_rows, num_complete, next_look, wait))
    num_rows, num_complete, next_look, wait, passes = sharding.replicate((*counts, as_array(np.float32(passes))))
    return Anchored(anchor, num_rows, passes, num_complete, next_look, wait)


def _placed(anchor: Anchor) -> Anchor:
    """Return a new anchor on all devices; where the influence is that of another, it stays the same object.

    By that the feed knows whether the rows that it has read ahead are drawn as they should be.
    """
    point, score, weight = sharding.replicate((anchor.point, anchor.score, anchor.weight))
    return Anchor(point, score, weight, anchor.influence)


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
