"""What users see of particles that settle: their own parameters, constrained and derived ones included.

They are functions of the particles. The shortest move that gives all of them the mean and the sd of the states is
Gauss-Newton's, a few times. Each state has a weight, such that together they have the moments of the trajectory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import Program, compiled, split
from steinflow.methods.svgd.recollection import Moments
from steinflow.methods.svgd.support import stacked
from steinflow.targets.flat import FlatTarget

_SLOPES = 20_000_000  # at most: those of every user's parameter, in every coordinate, at every particle
_NEWTON_STEPS = 5
_UNKNOWN = 0.1  # standard error of an sd at the states, as a part of it: beyond, it may be infinite


class Weighted(NamedTuple):
    """States in the coordinates of the walk, the weights with which they have these moments, and the moments."""

    states: np.ndarray
    weights: np.ndarray  # together 1
    moments: Moments


class Tail(NamedTuple):
    """The longest tail of what the user sees: Pareto's k of its squares, and which of the user's numbers it is."""

    length: float = 0.0
    column: int = 0


def as_seen(
    target: FlatTarget, frame: Any, points: np.ndarray, wanted: Weighted, dtype: np.dtype
) -> tuple[np.ndarray, Tail]:
    """Return the points, moved by as little as gives the user's parameters the mean and sd of those at the states.

    In their own coordinates, those of the frame, the points keep the moments of the trajectory. Beside them, the
    longest tail.
    """
    if target.is_free:
        return points, Tail()
    parts, places = split(target), as_array(frame.center + frame.moves(wanted.states), dtype)
    seen = np.asarray(_seen(*parts, places), float)
    if np.array_equal(seen, places):
        return points, Tail()
    mean, sd, known = _seen_moments(seen, wanted.weights, np)
    tail = _longest(tails_of(seen, mean, sd, np))
    if points.size * seen.shape[1] > _SLOPES:
        return points, tail

    def values_and_slopes(points):
        values, slopes = _seen_and_slopes(*parts, as_array(frame.center + frame.moves(points), dtype))
        return np.asarray(values, float)[:, known], frame.scores(np.asarray(slopes, float)[:, known])

    return _with_moments_of(values_and_slopes, mean[known], sd[known], points, wanted.moments), tail


def as_seen_by_all(
    targets: Sequence[FlatTarget],
    frames: Sequence[Any],
    points: Sequence[np.ndarray],
    wanted: Sequence[Weighted],
    dtype: np.dtype,
) -> tuple[Sequence[np.ndarray], list[Tail]]:
    """Return the same for many runs, in compiled code: all points, and a tail for each run."""
    unmoved = points, [Tail()] * len(points)
    if targets[0].is_free:
        return unmoved
    first = as_array(frames[0].center + frames[0].moves(wanted[0].states), dtype)
    seen = np.asarray(_seen(*split(targets[0]), first))
    if np.array_equal(seen, first) or points[0].size * seen.shape[1] > _SLOPES:
        return unmoved
    columns, structure = list(zip(*map(jax.tree.leaves, targets), strict=True)), jax.tree.structure(targets[0])
    # What all targets share, as one object, is not multiplied: it may be all the data.
    varies = [eqx.is_array(column[0]) and any(leaf is not column[0] for leaf in column) for column in columns]
    leaves = [np.stack(column) if own else column[0] for column, own in zip(columns, varies, strict=True)]
    target = jax.tree.unflatten(
        structure, [as_array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    )
    weights = stacked([each.weights for each in wanted])
    weights /= np.sum(weights, axis=1, keepdims=True)
    states, frame = stacked([each.states for each in wanted]), jax.tree.map(lambda *parts: np.stack(parts), *frames)
    mean, sd = (np.stack([getattr(each.moments, name) for each in wanted]) for name in ("mean", "sd"))
    given = jax.tree.map(lambda leaf: as_array(leaf, dtype), (frame, np.stack(points), states, weights, mean, sd))
    found, tails = _seen_one_by_one(target, jax.tree.unflatten(structure, varies), *given)
    return list(np.asarray(found, float)), list(map(_longest, np.asarray(tails)))


def _with_moments_of(values_and_slopes, mean, sd, points, moments):
    """Return the points after some Gauss-Newton steps to this mean and sd of the values, and to their own moments."""
    mean, sd = np.append(moments.mean, mean), np.append(moments.sd, sd)
    own = np.broadcast_to(np.eye(points.shape[1]), (len(points), *2 * points.shape[1:]))
    for _ in range(_NEWTON_STEPS):
        values, slopes = values_and_slopes(points)
        values = (np.append(points, values, axis=1) - mean) / sd
        points = points - _shortest(values, np.append(own, slopes, axis=1) / sd[:, None], np)
    return points


def _seen_moments(seen, weights, xp):
    """Return mean and sd of what the user sees at the states, and which of them are known; `xp` as below."""
    mean = weights @ seen
    sd = xp.sqrt(xp.maximum(weights @ (seen - mean) ** 2, 0.0))
    kurtosis = xp.mean(((seen - mean) / xp.maximum(sd, 1e-30)) ** 4, axis=0)
    error = 0.5 * xp.sqrt(kurtosis / len(seen))
    return mean, sd, _varies(mean, sd, xp) & (error < _UNKNOWN)  # and finite


def tails_of(seen: Any, mean: Any, sd: Any, xp: Any) -> Any:
    r"""Return how long the tail of every column is, by its squares, whose average is to be the variance.

    This is k of the generalised Pareto distribution of their largest tenth, by probability-weighted moments (Hosking &
    Wallis, 1987). Beyond 1/2 the average of the squares has no finite error, and beyond 0.7 no number of states that
    anybody has is enough (Vehtari et al., arXiv:1507.02646): they have not seen the part of the tail that matters, and
    their own scatter does not show it.
    """
    squares = xp.sort(((seen - mean) / xp.maximum(sd, 1e-30)) ** 2, axis=0)
    count = max(len(seen) // 10, 2)
    excesses = squares[-count:] - squares[-count - 1]
    lower = np.asarray(1 - (np.arange(count) + 0.65) / count, seen.dtype) @ excesses / count
    average = xp.mean(excesses, axis=0)
    tails = 2 - average / xp.maximum(average - 2 * lower, 1e-30)
    return xp.where(_varies(mean, sd, xp) & xp.isfinite(tails), tails, 0.0)


def _longest(tails):
    return Tail(float(np.max(tails)), int(np.argmax(tails)))


def _varies(mean, sd, xp):
    return sd > 1e-6 * xp.abs(mean)


def _shortest(values, slopes, xp):
    """Return the least moves, to be taken off, that give all values (n, p) mean 0 and sd 1; slopes are (n, p, d).

    `xp` is NumPy, or JAX's in compiled code.
    """
    num, dim = len(values), slopes.shape[-1]
    mean = xp.mean(values, axis=0)
    deviations = values - mean
    missing = xp.append(mean, 0.5 * (xp.mean(deviations**2, axis=0) - 1))
    changes = xp.append(slopes, deviations[..., None] * slopes, axis=1).transpose(1, 0, 2).reshape(-1, num * dim) / num
    gram = changes @ changes.T
    # Parameters that say the same twice leave it singular.
    ridge = 1e-4 * xp.trace(gram) / len(gram) * xp.eye(len(gram), dtype=gram.dtype)
    return (changes.T @ xp.linalg.solve(gram + ridge, missing)).reshape(num, dim)


@eqx.filter_jit
def _seen_one_by_one(targets, varies, frames, points, states, weights, means, sds):
    arrays, rest = eqx.partition(targets, varies)

    def one(given):
        arrays, frame, points, states, weights, own_mean, own_sd = given
        target = eqx.combine(arrays, rest)
        seen = target.user_numbers(frame.center + frame.moves(states))
        mean, sd, known = _seen_moments(seen, weights, jnp)
        tails = tails_of(seen, mean, sd, jnp)
        mean, sd = jnp.append(own_mean, jnp.where(known, mean, 0.0)), jnp.append(own_sd, jnp.where(known, sd, 1.0))
        own = jnp.broadcast_to(jnp.eye(points.shape[1], dtype=points.dtype), (len(points), *2 * points.shape[1:]))

        def newton(_, points):
            values, slopes = _with_slopes(target, frame.center + frame.moves(points))
            values = jnp.append(points, jnp.where(known, values, 0.0), axis=1)
            slopes = jnp.append(own, jnp.where(known[:, None], frame.scores(slopes), 0.0), axis=1)
            return points - _shortest((values - mean) / sd, slopes / sd[:, None], jnp)

        return jax.lax.fori_loop(0, _NEWTON_STEPS, newton, points), tails

    return jax.lax.map(one, (arrays, frames, points, states, weights, means, sds))


@compiled(once=True)
def _seen(target, particles):
    return target.user_numbers(particles)


def _with_slopes(target, particles):
    """Return the user's numbers at every particle, and their slopes."""

    def one(x):
        numbers = target.user_numbers(x[None])[0]
        return numbers, numbers

    slopes, numbers = jax.vmap(jax.jacfwd(one, has_aux=True))(particles)
    return numbers, slopes


_seen_and_slopes = Program(_with_slopes, once=True)
