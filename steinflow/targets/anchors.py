r"""Minibatches whose noise does not matter: scores corrected at an anchor (Baker et al., arXiv:1706.05439).

The score of a batch B estimates that of all rows. At one point a, the anchor, both are known, and so is the error that
this batch makes there. Near a it makes nearly the same error, which is taken off:

$$\hat s(x) = s_B(x) + c(x)\, \bigl( s(a) - s_B(a) \bigr), \qquad 0 \le c \le 1.$$

The prior and the log-determinants are the same in all three terms, so nothing but a log density is needed. In posterior
sds the noise of a step falls from $\sqrt{N / |B|}$ to about $\sqrt{d / |B|}$ times the distance from a, whatever N is.

What the noise is, the batch itself says: with s1 and s2 the scores of its two halves, $D = (s_1 - s_2) / 2$ has mean
zero and the variance of their average, $s_B$. Where D(x) follows D(a) the correction helps, and where it does not, as
in another mode or in most networks, c is zero:

$$c(x) = \min \Bigl( 1, \tfrac32 \frac{\langle D(x), D(a) \rangle^+}{|D(a)|^2} \Bigr), \qquad
\text{noise}(x) = D(x) - c(x) D(a).$$

The factor 3/2 leaves c at 1, and so free of chance, wherever most of the noise is shared.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.targets.influence import Influence
from steinflow.typing import Array, Batch, Particles, Point, Scalar, Scores, Weights

_GENEROUS = 1.5


class Anchor(eqx.Module):
    """A point, and the score of all rows there; weight 0 as long as that is not known, else 1.

    `influence` says which rows to draw more often; None where batches are not ours to draw, or rows have no weights.
    """

    point: Point
    score: Point
    weight: Scalar
    influence: Influence | None = None

    @classmethod
    def unknown_at(cls, point: Point, influence: Influence | None = None) -> "Anchor":
        """Return an anchor that corrects nothing yet."""
        return cls(point, jnp.zeros_like(point), jnp.zeros((), point.dtype), influence)


class Minibatch(eqx.Module):
    """What a step sees of the data: some rows, and the anchor that corrects what they say; None where there is none."""

    rows: Batch
    anchor: Anchor | None = None


class Estimate(eqx.Module):
    """Log densities and scores of all rows, as far as a step knows them.

    Attributes:
        log_densities: at every particle; of a minibatch, up to a constant that all share.
        scores: at every particle.
        noise: a draw of the error of the scores, of mean zero and of the same covariance; None where they are exact.
        plain: the same without an anchor.
    """

    log_densities: Weights
    scores: Scores
    noise: Scores | None = None
    plain: Scores | None = None


def rows_of(batch: Minibatch | Batch | None) -> Batch | None:
    """Return the rows of a batch, with an anchor or without."""
    return batch.rows if isinstance(batch, Minibatch) else batch


def halves(rows: Batch) -> Batch:
    """Return the two halves of a batch along a new leading axis; of an odd number the last row is left out."""
    return jax.tree.map(lambda leaf: leaf[: len(leaf) // 2 * 2].reshape(2, -1, *leaf.shape[1:]), rows)


def estimated(values: Array, scores: Array, particles: Particles, anchor: Anchor | None) -> Estimate:
    """Return what both halves of a batch say together, corrected at the anchor.

    Args:
        values: log densities by the halves, shape (2, n); (2, n + 1) with those at the anchor behind.
        scores: the same for the scores.
        particles: the points.
        anchor: None where there is none.
    """
    log_densities, average, noise = jnp.mean(values, axis=0), jnp.mean(scores, axis=0), 0.5 * (scores[0] - scores[1])
    if anchor is None:
        return Estimate(log_densities, average, noise, noise)
    known = jnp.all(jnp.isfinite(average[-1])) & (anchor.weight > 0)
    error = jnp.where(known, anchor.score - average[-1], 0.0)
    noise_there, plain = jnp.where(known, noise[-1], 0.0), noise[:-1]
    share = _share(plain @ noise_there, noise_there @ noise_there)[:, None]
    return Estimate(
        log_densities[:-1] + share[:, 0] * ((particles - anchor.point) @ error),
        average[:-1] + share * error,
        plain - share * noise_there,
        plain,
    )


def estimated_log_densities(values: Array, scores_there: Array, particles: Particles, anchor: Anchor) -> Weights:
    r"""Return log densities, up to a constant, corrected by $c\, (x - a)^\top (s(a) - s_B(a))$.

    One c for all: who compares densities must not compare corrections.

    Args:
        values: by the halves of the batch, shape (2, n).
        scores_there: those at the anchor, shape (2, d).
        particles: the points.
        anchor: known or not.
    """
    average, noise = jnp.mean(scores_there, axis=0), 0.5 * (scores_there[0] - scores_there[1])
    known = jnp.all(jnp.isfinite(average)) & (anchor.weight > 0)
    away = particles - anchor.point
    shared = away @ jnp.where(known, noise, 0.0)
    own = 0.5 * (values[0] - values[1])
    both = jnp.isfinite(own)
    shared, own = (jnp.where(both, part - jnp.mean(part, where=both), 0.0) for part in (shared, own))
    share = _share(own @ shared, shared @ shared)
    return jnp.mean(values, axis=0) + share * (away @ jnp.where(known, anchor.score - average, 0.0))


def _share(product, square):
    """Return how much of an error to take off: c."""
    return jnp.clip(_GENEROUS * product / jnp.maximum(square, jnp.finfo(square.dtype).tiny), 0.0, 1.0)
