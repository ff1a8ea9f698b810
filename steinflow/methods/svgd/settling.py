r"""Settling: n particles that represent all that they have seen on their way.

The last positions of n particles that explore are n random draws. Hundreds of times as many were remembered, and four
steps make the particles represent all of those. Each mends what the one before leaves to chance:

1. **Support points** (`support.py`): the n points with the least energy distance to the remembered states.
2. **Shapes**: every coordinate takes on the quantiles of the states, particle by particle in their order.
3. **Moments**: mean and covariance become those of the whole trajectory, more precise than those of the states; where
   there are no more particles than dimensions, mean and sds.
4. **What the user sees** (`user_space.py`): the user's own parameters, which are functions of the particles, get the
   mean and the sd of the states.

No particle settles further out, in any of its coordinates, than a state is: what is stretched must leave neither the
support of a density that ends somewhere nor the range of a tail.

Where chains do not pass between modes, the states come as often as the mass of their mode says (`modes.py`), and the
moments are theirs.

All is done in the coordinates of the walk, in which nothing is correlated: a particle that is moved by a little there
stays on the ridge that strong correlations make of a posterior. But for the user's functions it is host work, in NumPy.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from steinflow.devices.threads import threads_for
from steinflow.methods.svgd.recollection import Moments, Recollection
from steinflow.methods.svgd.support import support_points, support_points_of_all
from steinflow.methods.svgd.user_space import Tail, Weighted, as_seen, as_seen_by_all
from steinflow.stein.geometry import even_sample
from steinflow.targets.flat import FlatTarget

_BEYOND = 0.1  # of the range of states: how far beyond it particles may settle where nothing says that there is an edge
_PER_FEATURE = 4  # states, at least: a regression on nearly as many features as there are states is mostly chance


class Draft(NamedTuple):
    """What particles are to represent, in the coordinates of the walk.

    Attributes:
        points: where they start.
        states: chosen by weight, and moved to the moments.
        correlations: of the states; None where there are no more particles than dimensions.
        weighted: the states as they are, and the moments.
    """

    points: np.ndarray
    states: np.ndarray
    correlations: np.ndarray | None
    weighted: Weighted

    def represented(self, points: np.ndarray) -> np.ndarray:
        """Return support points with the shapes of the states and the moments of the trajectory."""
        return matched(shaped(points, self.states), self.weighted.moments, self.correlations)


def settled(target: FlatTarget, particles: np.ndarray, recalled: Recollection) -> tuple[np.ndarray, Tail]:
    """Return particles that represent what these remember, each mode in proportion to its mass.

    Beside them, the longest tail of what the user sees.
    """
    with threads_for(len(particles) * recalled.states.size):
        draft = drafted(particles, recalled, recalled.best_moments)
        points = draft.represented(support_points(draft.points, draft.states))
        points, tail = as_seen(target, recalled.frame, points, draft.weighted, particles.dtype)
        return _placed(particles, recalled, points), tail


def all_settled(
    targets: Sequence[FlatTarget], particles: Sequence[np.ndarray], recalled: Sequence[Recollection]
) -> list[tuple[np.ndarray, Tail]]:
    """Return the same for many runs of as many particles each; what takes long is compiled code for all of them.

    Their support points see a quarter of the states, which takes a quarter of the time. Shapes and moments are those of
    all states, without control functionals, which would take longer than all else.
    """
    with threads_for(len(particles[0]) * recalled[0].states.size):
        drafts = [drafted(x, each, each.moments()) for x, each in zip(particles, recalled, strict=True)]
        support = support_points_of_all([draft.points for draft in drafts], [draft.states for draft in drafts])
        points = [draft.represented(x) for draft, x in zip(drafts, support, strict=True)]
    frames, wanted = [each.frame for each in recalled], [draft.weighted for draft in drafts]
    points, tails = as_seen_by_all(targets, frames, points, wanted, particles[0].dtype)
    return list(zip(map(_placed, particles, recalled, points), tails, strict=True))


def drafted(particles: np.ndarray, recalled: Recollection, moments: Moments) -> Draft:
    """Return what the particles remember, ready to be represented; `moments` are those of a single mode."""
    (num_particles, dim), frame, modes = particles.shape, recalled.frame, recalled.modes
    if modes is None:
        states, points = frame.points(recalled.states.reshape(-1, dim)), frame.points(particles)
        correlations = recalled.correlations() if num_particles > dim else None
    else:
        states = modes.evenly()
        points, moments = states[even_sample(len(states), num_particles)][:num_particles], Moments.of(states)
        correlations = np.corrcoef(states, rowvar=False).reshape(dim, dim) if num_particles > dim else None
    weights = calibrated(states, frame, moments, correlations)
    evenly = states[even_sample(len(states), len(states), np.maximum(weights, 0.0))]
    return Draft(points, matched(evenly, moments, correlations), correlations, Weighted(states, weights, moments))


def calibrated(states: np.ndarray, frame: Any, moments: Moments, correlations: np.ndarray | None) -> np.ndarray:
    """Return weights with which the states have these moments in each of the particles' own coordinates.

    An average with them is one with control variates: what a function has in common with the coordinates and their
    squares, as a regression on these says, is as the moments say. States that are moved to the same moments would not
    do: at the end of a long tail on a log scale, a shift of a hundredth of an sd is a large one of the exponential.
    """
    num_states, dim = states.shape
    if num_states < _PER_FEATURE * 2 * dim:
        return np.full(num_states, 1 / num_states)
    root = np.diag(moments.sd) if correlations is None else _roots(_covariance(moments, correlations))[0]
    sds = np.linalg.norm(frame.moves(root), axis=0)
    z = frame.moves(states - moments.mean) / sds
    features = np.append(z, z**2 - 1, axis=1)
    missing = np.mean(features, axis=0)
    covariance = np.cov(features, rowvar=False, bias=True)
    ridge = 1e-6 * np.trace(covariance) / len(missing) * np.eye(len(missing))  # coordinates may say the same twice
    return (1 - (features - missing) @ np.linalg.solve(covariance + ridge, missing)) / num_states


def _placed(particles, recalled, points):
    """Return points of the walk's coordinates as particles, none much further out than anybody has been.

    Where the density ends at an edge, none at all. Elsewhere a tenth of the range: to match the moments the outermost
    particles of many dimensions go a little beyond.
    """
    frame, axes = recalled.frame, (0, 1)
    low, high = recalled.states.min(axes), recalled.states.max(axes)
    beyond = 0.0 if recalled.blocked > 0 else _BEYOND * (high - low)
    found = np.clip(frame.center + frame.moves(points), low - beyond, high + beyond)
    # Where nothing moved, or everything overflowed, there is nothing to represent.
    return np.where(np.all(np.isfinite(found)), found, particles)


def shaped(points: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the points with the marginals of the states: each in its rank, for an n-th part of the sorted states."""
    mean = np.mean(states, axis=0)
    parts = np.sort(states, axis=0).reshape(len(points), -1, points.shape[1]) - mean
    # The root mean square of a part, not its mean: the outermost parts are wide, and the sd should be right.
    quantiles = mean + np.sign(np.mean(parts, axis=1)) * np.sqrt(np.mean(parts**2, axis=1))
    ranks = np.argsort(np.argsort(points, axis=0), axis=0)
    return np.take_along_axis(quantiles, ranks, axis=0)


def matched(points: np.ndarray, moments: Moments, correlations: np.ndarray | None) -> np.ndarray:
    """Return the points with this mean and these sds, and these correlations if there are any."""
    deviations = points - np.mean(points, axis=0)
    if correlations is not None:
        root, inverse_root = _roots(_covariance(moments, correlations))
        white = deviations @ inverse_root
        variances, axes = np.linalg.eigh(white.T @ white / len(points))
        # Hardly more points than dimensions have next to no spread in some directions; less than this is rounding.
        deviations = white @ (axes * np.maximum(variances, 1e-12) ** -0.5) @ axes.T @ root
    return moments.mean + deviations * (moments.sd / np.maximum(np.std(deviations, axis=0), 1e-30))


def _covariance(moments, correlations):
    return moments.sd[:, None] * correlations * moments.sd


def _roots(covariance):
    """Return the symmetric square root of a covariance, and its inverse."""
    variances, axes = np.linalg.eigh(covariance)
    sds = np.sqrt(np.maximum(variances, 1e-6 * variances[-1]))
    return (axes * sds) @ axes.T, (axes / sds) @ axes.T
