r"""Settling: n particles that represent all that they have seen on their way.

The last positions of n particles that explore are n random draws. Hundreds of times as many were remembered, and three
steps make the particles represent all of those. Each mends what the one before leaves to chance:

1. **Support points** (Mak & Joseph 2018): the n points with the least energy distance to the remembered states
   $y_1 \dots y_m$, found by their convex-concave procedure,
   $$x_i \leftarrow \frac{\frac mn \sum_{j \ne i} \frac{x_i - x_j}{|x_i - x_j|} + \sum_k \frac{y_k}{|x_i - y_k|}}
   {\sum_k 1 / |x_i - y_k|},$$
   which goes to the lowest point of a quadratic bound. Twice as far, the bound is as high as at the start, so that such
   steps never go uphill either, and half as many do the same. Like the Stein direction this pulls the particles
   together and pushes them apart, and makes the sample even; unlike it, it needs no gradients and knows no n <= d.
2. **Shapes**: every coordinate takes on the quantiles of the states, particle by particle in their order.
3. **Moments**: mean and covariance become those of the whole trajectory, more precise than those of the states; where
   there are no more particles than dimensions, mean and sds.
4. **What the user sees**: the user's own parameters, constrained and derived ones included, are functions of the
   particles. The shortest move that gives all of them the mean and the sd of the states is Gauss-Newton's, a few times.
   Each state has a weight there, such that together they have the moments of the trajectory.

No particle settles further out, in any of its coordinates, than a state is: what is stretched must leave neither the
support of a density that ends somewhere nor the range of a tail.

Where chains do not pass between modes, the states come as often as the mass of their mode says (`modes.py`), and the
moments are theirs.

All is done in the coordinates of the walk, in which nothing is correlated: a particle that is moved by a little there
stays on the ridge that strong correlations make of a posterior. But for the user's functions it is host work, in NumPy.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import Program, compiled, split
from steinflow.devices.threads import threads_for
from steinflow.methods.svgd.recollection import Moments, Recollection
from steinflow.stein.geometry import even_sample
from steinflow.targets.flat import FlatTarget

_ITERATIONS = 25  # 97 to 99.7% of what 50 take off the energy distance, in half the time
_LAST_ITERATIONS = 5  # of these, on all states: those before need a quarter of them, for the same energy distance
_MANY = 1000  # particles that represent a posterior well enough as the draws that they are; support points cost n x m
_FEW_STATES = 1000  # that find support points of many runs, with an energy distance 2 to 15% above that of 4,000
_SLOPES = 20_000_000  # at most: those of every user's parameter, in every coordinate, at every particle
_NEWTON_STEPS = 5
_BEYOND = 0.1  # of the range of states: how far beyond it particles may settle where nothing says that there is an edge
_PER_FEATURE = 4  # states, at least: a regression on nearly as many features as there are states is mostly chance
_UNKNOWN = 0.1  # standard error of an sd at the states, as a part of it: beyond, it may be infinite


class Draft(NamedTuple):
    """What support points are made of, in the coordinates of the walk, and the moments that they should have."""

    points: np.ndarray
    states: np.ndarray
    moments: Moments
    correlations: np.ndarray | None
    seen: np.ndarray  # the states as they are; those above are chosen by weight, and moved to these moments
    weights: np.ndarray  # of those as they are, with which they have them; together 1


class Tail(NamedTuple):
    """The longest tail of what the user sees: Pareto's k of its squares, and which of the user's numbers it is."""

    length: float = 0.0
    column: int = 0


def settled(target: FlatTarget, particles: np.ndarray, recalled: Recollection) -> tuple[np.ndarray, Tail]:
    """Return particles that represent what these remember, each mode in proportion to its mass.

    Beside them, the longest tail of what the user sees.
    """
    with threads_for(len(particles) * recalled.states.size):
        draft = drafted(particles, recalled, recalled.best_moments)
        points = draft.points
        if len(particles) <= _MANY:
            points = support_points(*_single(points, draft.states)).astype(float)
        points = matched(shaped(points, draft.states), draft.moments, draft.correlations)
        points, tail = as_seen(target, recalled, points, draft)
        return _placed(particles, recalled, points), tail


def all_settled(
    targets: Sequence[FlatTarget], particles: Sequence[np.ndarray], recalled: Sequence[Recollection]
) -> list[tuple[np.ndarray, Tail]]:
    """Return the same for many runs of as many particles each; what takes long is compiled code for all of them.

    Their support points see a quarter of the states, which takes a quarter of the time. Shapes and moments are those of
    all states, without control functionals, which would take longer than all else.
    """
    moments, dtype = [each.moments() for each in recalled], particles[0].dtype
    with threads_for(len(particles[0]) * recalled[0].states.size):
        drafts = list(map(drafted, particles, recalled, moments))
    support = [draft.points for draft in drafts]
    if len(particles[0]) <= _MANY:
        few = _stacked([_some(draft.states) for draft in drafts])
        support = np.asarray(_support_points_of_all(*_single(np.stack(support), few))).astype(float)
    with threads_for(len(particles[0]) * recalled[0].states.size):
        points = [
            matched(shaped(x, draft.states), draft.moments, draft.correlations)
            for x, draft in zip(support, drafts, strict=True)
        ]
    frames, tails = [each.frame for each in recalled], [Tail()] * len(recalled)
    if not targets[0].is_free:
        first = as_array(frames[0].center + frames[0].moves(drafts[0].seen), dtype)
        seen = np.asarray(_seen(*split(targets[0]), first))
        if not np.array_equal(seen, first) and particles[0].size * seen.shape[1] <= _SLOPES:
            points, tails = _as_seen_by_all(targets, frames, points, drafts, dtype)
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
    return Draft(points, matched(evenly, moments, correlations), moments, correlations, states, weights)


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


def support_points(points: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the points of least energy distance to the states, near these."""
    x = towards = points
    for seen, iterations in ((_some(states), _ITERATIONS - _LAST_ITERATIONS), (states, _LAST_ITERATIONS)):
        share = np.float32(len(seen) / len(x))
        for _ in range(iterations):
            pull, push = _inverse_distances(x, seen), _inverse_distances(x, x)
            np.fill_diagonal(push, 0.0)
            away = np.sum(push, axis=1, keepdims=True) * x - push @ x
            towards = (share * away + pull @ seen) / np.sum(pull, axis=1, keepdims=True)
            x = 2 * towards - x
    return towards


def _some(states):
    return states[:: -(-len(states) // _FEW_STATES)]


@jax.jit
def _support_points_of_all(points, states):
    """Return the same for many sets of points, one after the other: pairs of one set stay in the cache."""

    def inverse_distances(a, b):  # in one pass over the pairs, unlike `squared_distances`
        squares = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1) - 2 * a @ b.T
        return jax.lax.rsqrt(jnp.maximum(squares, 1e-12))

    def one(pair):
        x, states = pair
        share, apart = len(states) / len(x), 1 - jnp.eye(len(x), dtype=x.dtype)

        def iterate(_, x_and_towards):
            x, _ = x_and_towards
            pull, push = inverse_distances(x, states), apart * inverse_distances(x, x)
            away = jnp.sum(push, axis=1, keepdims=True) * x - push @ x
            towards = (share * away + pull @ states) / jnp.sum(pull, axis=1, keepdims=True)
            return 2 * towards - x, towards

        return jax.lax.fori_loop(0, _ITERATIONS, iterate, (x, x))[1]

    return jax.lax.map(one, (points, states))


def _single(*arrays):
    return tuple(array.astype(np.float32) for array in arrays)


def _stacked(sets):
    """Return sets of states as one array, as many of each as the shortest has: few runs end before all are kept."""
    shortest = min(map(len, sets))
    return np.stack([states[np.arange(shortest) * len(states) // shortest] for states in sets])


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


def as_seen(target: FlatTarget, recalled: Recollection, points: np.ndarray, draft: Draft) -> tuple[np.ndarray, Tail]:
    """Return the points, moved by as little as gives the user's parameters the mean and sd of those at the states.

    In their own coordinates the points keep the moments of the trajectory. Beside them, the longest tail.
    """
    frame, dtype, parts = recalled.frame, recalled.states.dtype, split(target)
    if target.is_free:
        return points, Tail()
    places = as_array(frame.center + frame.moves(draft.seen), dtype)
    seen = np.asarray(_seen(*parts, places), float)
    if np.array_equal(seen, places):
        return points, Tail()
    mean, sd, known = _seen_moments(seen, draft.weights, np)
    tail = _longest(tails_of(seen, mean, sd, np))
    if points.size * seen.shape[1] > _SLOPES:
        return points, tail

    def values_and_slopes(points):
        values, slopes = _seen_and_slopes(*parts, as_array(frame.center + frame.moves(points), dtype))
        return np.asarray(values, float)[:, known], frame.scores(np.asarray(slopes, float)[:, known])

    moved = _with_moments_of(values_and_slopes, mean[known], sd[known], points, draft.moments, _NEWTON_STEPS)
    return moved, tail


def _with_moments_of(values_and_slopes, mean, sd, points, moments, num_steps):
    """Return the points after some Gauss-Newton steps to this mean and sd of the values, and to their own moments."""
    mean, sd = np.append(moments.mean, mean), np.append(moments.sd, sd)
    own = np.broadcast_to(np.eye(points.shape[1]), (len(points), *2 * points.shape[1:]))
    for _ in range(num_steps):
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


def _as_seen_by_all(targets, frames, points, drafts, dtype):
    """Return what `as_seen` does for many runs, in compiled code: all points, and a tail for each run."""
    columns, structure = list(zip(*map(jax.tree.leaves, targets), strict=True)), jax.tree.structure(targets[0])
    # What all targets share, as one object, is not multiplied: it may be all the data.
    varies = [eqx.is_array(column[0]) and any(leaf is not column[0] for leaf in column) for column in columns]
    leaves = [np.stack(column) if own else column[0] for column, own in zip(columns, varies, strict=True)]
    target = jax.tree.unflatten(
        structure, [as_array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    )
    weights = _stacked([draft.weights for draft in drafts])
    weights /= np.sum(weights, axis=1, keepdims=True)
    states, frames = _stacked([draft.seen for draft in drafts]), jax.tree.map(lambda *parts: np.stack(parts), *frames)
    mean, sd = (np.stack([getattr(draft.moments, name) for draft in drafts]) for name in ("mean", "sd"))
    given = jax.tree.map(lambda leaf: as_array(leaf, dtype), (frames, np.stack(points), states, weights, mean, sd))
    found, tails = _seen_one_by_one(target, jax.tree.unflatten(structure, varies), *given)
    return np.asarray(found, float), list(map(_longest, np.asarray(tails)))


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


def _inverse_distances(a, b):
    squares = a @ (-2 * b.T)  # and not `squared_distances`, which takes up to a third longer
    squares += np.sum(a**2, axis=1)[:, None]
    squares += np.sum(b**2, axis=1)
    np.maximum(squares, 1e-12, out=squares)  # in place: new arrays of this size take longer than their numbers
    return np.reciprocal(np.sqrt(squares, out=squares), out=squares)


def _covariance(moments, correlations):
    return moments.sd[:, None] * correlations * moments.sd


def _roots(covariance):
    """Return the symmetric square root of a covariance, and its inverse."""
    variances, axes = np.linalg.eigh(covariance)
    sds = np.sqrt(np.maximum(variances, 1e-6 * variances[-1]))
    return (axes * sds) @ axes.T, (axes / sds) @ axes.T
