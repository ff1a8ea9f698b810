"""What a run looks like at one moment: the posterior that its state represents, and the noise of its minibatches."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.devices.threads import threads_for
from steinflow.inference.plan import Plan
from steinflow.methods.base import Draws
from steinflow.methods.svgd.metrics import Cloud
from steinflow.results.measures import watched
from steinflow.stein.discrepancy import dispersion_of
from steinflow.stein.geometry import mean_and_shape
from steinflow.targets.anchors import Anchor
from steinflow.targets.batches import shuffle
from steinflow.targets.feed import Block
from steinflow.typing import Array, Params, Particles, Point, PyTree, Scalar, Scores

_KSD_PARTICLES = 512  # KSD on the way looks at this many, evenly spread, so that watching stays cheap
_DEVIATIONS = 16  # of particles from their centre, that say how much a row matters
NOISE = ("noise", "dispersion_noise")  # watched too where steps see minibatches


class View(eqx.Module):
    """The posterior that a state represents, with its scores: zero where they or the densities are not finite."""

    draws: Draws
    user: Params
    log_densities: Array
    scores: Scores
    finite: Array
    records: dict[str, PyTree]
    noise: Scalar | None = None  # what one minibatch does to the mean score, in sds; None where all rows are seen
    dispersion_noise: Scalar | None = None  # what it does to the dispersion, in the worst coordinate
    num_batches: int = eqx.field(default=1, static=True)  # that the scores are averaged over

    def cut(self) -> "View":
        """Return the rows that are draws, without those of a buffer that is not full yet."""
        draws = self.draws
        if draws.count is None or int(draws.count) * draws.num_chains == len(draws.particles):
            return self
        rows = np.flatnonzero(_is_draw(draws))

        def taken(leaf):
            return as_array(np.asarray(leaf)[rows])  # NumPy's indexing, which is not compiled

        weights = None if draws.weights is None else taken(_weights(draws))
        return View(
            Draws(taken(draws.particles), weights, num_chains=draws.num_chains, metrics=draws.metrics),
            user=jax.tree.map(taken, self.user),
            log_densities=taken(self.log_densities),
            scores=taken(self.scores),
            finite=taken(self.finite),
            records=self.records,
            noise=self.noise,
            dispersion_noise=self.dispersion_noise,
            num_batches=self.num_batches,
        )

    def metrics(self) -> dict[str, Array | np.ndarray | np.floating]:
        """Return what is watched in every run."""
        draws, weights = self.draws, _weights(self.draws)
        finite = np.asarray(self.finite)[_is_draw(draws)]
        found = metrics_of(np.asarray(draws.particles), np.asarray(self.scores), finite, weights)
        noise = {name: value for name in NOISE if (value := getattr(self, name)) is not None}
        return {**found, **noise, **({} if weights is None else {"weights": weights})}


def metrics_of(
    particles: np.ndarray, scores: np.ndarray, finite: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, np.ndarray | np.floating]:
    """Return what is watched of particles whose scores are zero where they are not finite."""
    sample = slice(None, None, -(-len(particles) // _KSD_PARTICLES))
    shares = None if weights is None else _normalised(weights[sample])
    x, s = particles[sample], scores[sample]
    with threads_for(len(x) * x.size):
        return {**watched(x, s, shares), "finite": np.mean(finite)}


class Noise(eqx.Module):
    """What a minibatch does to the mean of the scores, in sds of the cloud, and what an anchor at its centre would do.

    Attributes:
        center: of the cloud.
        noise: what is left of the noise with the anchor that there is.
        plain: the noise without.
        deviations: of a few particles from it.
        offset: the part of `noise` that comes from the distance between anchor and centre, relative to the part that
            comes from the width of the cloud: their squared ratio; infinite where the cloud is one point.
    """

    center: Point
    deviations: Particles
    noise: Scalar
    plain: Scalar
    offset: Scalar


def viewed(plan: Plan, state: Any, steps: Array, block: Block | None, anchor: Anchor | None) -> View:
    """Return the posterior of a state, with the scores that the minibatches of these steps have on average."""
    draws = plan.method.draws(plan.target, state, key=plan.key)

    def evaluated(step):
        found = plan.target.estimate(draws.particles, plan.batch(step, block, anchor))
        if found.noise is None:
            return (found.log_densities, found.scores), None
        noise = jnp.nan_to_num(found.noise)
        return (found.log_densities, found.scores), (
            _mean(draws, noise),
            dispersion_of(draws.particles, noise, _shares(draws)),
        )

    def add(sums, step):
        found, noise = evaluated(step)
        return jax.tree.map(jnp.add, sums, found), noise

    if len(steps) == 1:
        (log_densities, scores), noise = evaluated(steps[0])
    else:
        zeros = jnp.zeros_like(draws.particles[:, 0]), jnp.zeros_like(draws.particles)
        sums, noise = jax.lax.scan(add, zeros, steps)
        log_densities, scores = jax.tree.map(lambda leaf: leaf / len(steps), sums)
    finite = plan.target.finite(log_densities, scores)
    scores = jnp.where(finite[:, None], scores, 0.0)
    user = plan.target.to_user(draws.particles)
    records = {name: function(user) for name, function in plan.record.items()}
    measured = {}
    if noise is not None:
        of_mean, of_dispersion = noise
        measured["noise"] = jnp.sqrt(jnp.mean(_in_sds(draws, scores, of_mean) ** 2))
        squares = jnp.atleast_2d(of_dispersion) ** 2
        measured["dispersion_noise"] = jnp.sqrt(jnp.max(jnp.mean(squares, axis=0)))
    view = View(draws, user, log_densities, scores, finite, records, **measured, num_batches=len(steps))
    return sharding.same_everywhere(view)


def noise_of(plan: Plan, state: Any, step: Array, block: Block | None, anchor: Anchor) -> Noise:
    """Return what the minibatch of a step does to the scores of the cloud."""
    draws = plan.method.draws(plan.target, state, key=plan.key)
    found = plan.target.estimate(draws.particles, plan.batch(step, block, anchor))
    assert found.noise is not None
    assert found.plain is not None
    noise, plain = (_in_sds(draws, found.scores, jnp.nan_to_num(part)) for part in (found.noise, found.plain))
    shift, shape = mean_and_shape(jnp.nan_to_num(noise), _shares(draws))
    offset = jnp.mean(shift**2) / jnp.maximum(jnp.mean(_mean(draws, shape**2)), jnp.finfo(shift.dtype).tiny)
    if len(draws.particles) == 1:  # without a spread there is nothing to compare with
        offset = jnp.full_like(offset, jnp.inf)
    left, without = (jnp.sqrt(jnp.mean(values**2)) for values in (shift, _mean(draws, plain)))
    center = _mean(draws, draws.particles)
    # Rows that are no draws yet do not deviate.
    deviations = jnp.where(_shares(draws)[:, None] > 0, draws.particles - center, 0.0)
    few = shuffle(jax.random.fold_in(plan.key, step), jnp.arange(_DEVIATIONS), max(len(deviations), _DEVIATIONS))
    few = few % len(deviations)
    return sharding.same_everywhere(Noise(center, deviations[few], left, without, offset))


def _in_sds(draws, scores, errors):
    """Return errors of scores as the errors of positions that follow, in sds of the cloud, as `mean_error` does."""
    frame, shares = Cloud().frame(draws.particles), _shares(draws)
    known = jnp.where(jnp.all(jnp.isfinite(scores), axis=1, keepdims=True), scores, 0.0)
    curvature = dispersion_of(frame.points(draws.particles), frame.scores(known), shares)
    return frame.scores(errors) / jnp.maximum(jnp.abs(curvature), 1e-3)


def _mean(draws, rows):
    """Return the mean over all draws."""
    return _shares(draws) @ jnp.nan_to_num(rows)


def _shares(draws):
    """Return the weight of every row, in compiled code."""
    rows = jnp.arange(len(draws.particles)) % (len(draws.particles) // draws.num_chains)
    weights = jnp.ones_like(draws.particles[:, 0]) if draws.weights is None else draws.weights
    weights = weights if draws.count is None else jnp.where(rows < draws.count, weights, 0.0)
    return weights / jnp.sum(weights)


def _is_draw(draws: Draws) -> np.ndarray:
    """Say of every row whether it is a draw, and not the rest of a buffer."""
    rows = np.arange(len(draws.particles)) % (len(draws.particles) // draws.num_chains)
    return np.ones(len(rows), bool) if draws.count is None else rows < int(draws.count)


def _weights(draws: Draws) -> np.ndarray | None:
    """Return the weights of all rows, zero where they are no draws; None where all are equal."""
    if draws.weights is None and draws.count is None:
        return None
    drawn = _is_draw(draws)
    weights = drawn if draws.weights is None else np.where(drawn, np.asarray(draws.weights), 0.0)
    return _normalised(weights.astype(draws.particles.dtype))


def _normalised(weights):
    return weights / weights.sum()
