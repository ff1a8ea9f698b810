r"""Which rows to look at more often: those that say what few others say.

A batch of rows drawn at random knows nothing of a column that three rows of a million fill. When one of them comes, it
counts as a third of a million, and the direction in which it alone pulls is thrown away. So half of a batch is drawn
at random and half by influence, in proportion to how much a row bends the log density across the cloud,

$$\iota_k = \frac1m \sum_j \bigl| \ell_k(a + \delta_j) - 2 \ell_k(a) + \ell_k(a - \delta_j) \bigr|,$$

with deviations $\delta_j$ of the particles from their centre a. In a regression that is the leverage of the row, up to
chance: every direction gets its share of every batch. Each row of a batch counts with the weight
$1 / (\frac12 + \frac12 N q_k)$, at most 2, where $q_k = \iota_k / \sum \iota$, which leaves the estimate of all rows
unbiased whatever the influences are.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.targets.batches import batch_indices
from steinflow.typing import Array, Batch, PRNGKeyArray

_MOST_GROUPS = 2**20  # of neighbouring rows that share an influence: 4 MB, however many rows there are
_ALL = 2**32 - 1  # chances are counted in integers, so that they are exactly those that rows are drawn with


class Drawn(eqx.Module):
    """Rows that were not all drawn with the same chance, and how much each of them counts."""

    values: Batch
    weights: Batch  # one for each row; an array, or its shape


class Influence(eqx.Module):
    """The chance of every row, or of a few neighbours together, to be drawn for what it says."""

    edges: Array  # the cumulative chances of all groups, of 2^32
    num_rows: int = eqx.field(static=True)

    @classmethod
    def even(cls, num_rows: int) -> "Influence":
        """Return the same chance for all rows."""
        return cls.of(np.zeros(num_groups(num_rows)), num_rows)

    @classmethod
    def of(cls, sums: np.ndarray, num_rows: int) -> "Influence":
        """Return chances by the influence of every group; the same for all where that is zero or not finite."""
        if not (np.all(np.isfinite(sums)) and np.sum(sums) > 0):
            starts = np.arange(len(sums)) * _group_size(num_rows)
            sums = np.clip(num_rows - starts, 0, _group_size(num_rows)).astype(float)
        cumulative = np.cumsum(sums) / np.sum(sums)
        return cls(as_array(np.minimum(np.floor(cumulative * _ALL), _ALL).astype(np.uint32)), num_rows)

    def blended(self, sums: np.ndarray) -> "Influence":
        """Return chances half by what was known before: a few deviations say how much a row matters, up to chance."""
        new = Influence.of(sums, self.num_rows)
        widths = [np.diff(np.asarray(each.edges, float), prepend=0.0) for each in (self, new)]
        return Influence.of(widths[0] + widths[1], self.num_rows)

    def batch(self, key: PRNGKeyArray, step: Array | int, batch_size: int) -> tuple[Array, Array]:
        """Return the rows of the minibatch at a step, and their weights; both kinds alternate, so halves are alike."""
        num_drawn = batch_size // 2
        num_even = batch_size - num_drawn
        at_random = batch_indices(key, step, num_rows=self.num_rows, batch_size=num_even)
        drawn = self._draw(jax.random.fold_in(jax.random.fold_in(key, jnp.uint32(_ALL)), step), num_drawn)
        order = np.argsort(np.concatenate([2 * np.arange(num_even), 2 * np.arange(num_drawn) + 1]))
        rows = jnp.concatenate([at_random, drawn])[order]
        return rows, 1 / (num_even / batch_size + num_drawn / batch_size * self._chances(rows))

    def _draw(self, key, num):
        which, where = jax.random.bits(key, (2, num), jnp.uint32)
        groups = jnp.searchsorted(self.edges, which, side="right").astype(jnp.int32)
        start, length = self._extent(jnp.minimum(groups, len(self.edges) - 1))
        return start + (where % length.astype(jnp.uint32)).astype(jnp.int32)

    def _chances(self, rows):
        """Return the chance of every row to be drawn, times the number of rows."""
        groups = rows // _group_size(self.num_rows)
        below = jnp.where(groups > 0, self.edges[groups - 1], jnp.uint32(0))
        width = jnp.where(groups == len(self.edges) - 1, jnp.uint32(_ALL), self.edges[groups]) - below
        return width.astype(float) / float(_ALL) * self.num_rows / self._extent(groups)[1].astype(float)

    def _extent(self, groups):
        size = _group_size(self.num_rows)
        return groups * size, jnp.minimum(size, self.num_rows - groups * size)


def num_groups(num_rows: int) -> int:
    """Return into how many groups the rows fall."""
    return -(-num_rows // _group_size(num_rows))


def group_sums(influences: np.ndarray, first_row: int, num_rows: int) -> np.ndarray:
    """Return the influence of every group, as far as it comes from these consecutive rows."""
    groups = (first_row + np.arange(len(influences))) // _group_size(num_rows)
    return np.bincount(groups, influences, minlength=num_groups(num_rows))


def _group_size(num_rows: int) -> int:
    return -(-num_rows // _MOST_GROUPS)
