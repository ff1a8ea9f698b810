"""A target as methods see it: points of R^d. Structure and constraints are raveled once, at the door."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import Program, compiled, split
from steinflow.targets.anchors import Anchor, Estimate, Minibatch, estimated, estimated_log_densities, halves, rows_of
from steinflow.targets.base import ConstrainedTarget, Target, as_target
from steinflow.targets.data import Data
from steinflow.targets.forecasts import Forecaster
from steinflow.targets.posterior import CountedPrior, Posterior, WeightedRows
from steinflow.typing import Array, Batch, Params, Particles, Point, PRNGKeyArray, Scalar, Scores, Weights

_TRIES = 10  # to draw a particle from the prior


class FlatTarget(eqx.Module):
    """A target as methods see it: points of R^d without constraints, particles as rows of a matrix."""

    source: Target
    unravel: Callable[[Point], Params] = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    inverse_temperature: Array | None = None  # of annealing: log p is multiplied by it

    @property
    def data(self) -> Data | None:
        """How steps see the data; None where the target has none."""
        return self.source.data

    @property
    def num_rows(self) -> int:
        """The number of rows of the data, with which the log density grows; 1 where there are none."""
        return 1 if self.data is None else self.data.num_rows

    @property
    def noisy(self) -> bool:
        """Whether a step sees only a part of the data, so that scores are estimates."""
        return self.data is not None and self.data.batches_per_epoch is not None

    @property
    def knows_log_density(self) -> bool:
        """Whether log p has a value; a target may know its scores alone."""
        return self.source.knows_log_density

    @property
    def identified(self) -> bool:
        """Whether the parameters have a meaning of their own; the weights of a neural network do not."""
        return self.source.identified

    @property
    def knows_likelihood(self) -> bool:
        """Whether prior and likelihood are kept apart, so that rows can be weighted; then there is a `posterior`."""
        return isinstance(self.source, Posterior)

    @property
    def posterior(self) -> Posterior:
        """The target itself, for methods that need its prior and its likelihood by themselves.

        Raises:
            ValueError: if the target does not keep them apart.
        """
        if not isinstance(self.source, Posterior):
            raise ValueError(
                "This method needs a target that keeps prior and likelihood apart: sf.Posterior or one of sf.models; "
                f"got {type(self.source).__name__}."
            )
        return self.source

    @property
    def approach(self) -> "FlatTarget":
        """The target to climb on the way to this one, which is itself for most."""
        return dataclasses.replace(self, source=self.source.approach)

    @property
    def is_tempered(self) -> Array:
        """Whether this is a flatter version of the target."""
        return jnp.zeros((), bool) if self.inverse_temperature is None else self.inverse_temperature < 1

    def log_density(self, x: Point, batch: Minibatch | Batch | None = None) -> Scalar:
        """Return log p(x), as the rows of the batch have it."""
        return self._tempered(self.source.log_density(self.unravel(x), rows_of(batch)))

    def log_likelihood(self, x: Point, batch: Minibatch | Batch | None = None) -> Scalar:
        """Return the part of log p(x) that is due to the data, for methods that bring a prior of their own.

        Raises:
            ValueError: if the target does not keep prior and likelihood apart.
        """
        posterior = self.posterior
        return self._tempered(posterior.user_log_likelihood(posterior.constrain(self.unravel(x)), rows_of(batch)))

    def tempered(self, inverse_temperature: Array) -> "FlatTarget":
        """Return the target of log density `inverse_temperature` * log p: flatter below 1."""
        return dataclasses.replace(self, inverse_temperature=inverse_temperature)

    def estimate(self, particles: Particles, batch: Minibatch | Batch | None = None) -> Estimate:
        """Return log p and its gradient at every particle, and how noisy the gradients are where they are estimates."""
        return self._estimate(FlatTarget.log_density, particles, batch)

    def log_densities_and_scores(
        self, particles: Particles, batch: Minibatch | Batch | None = None
    ) -> tuple[Weights, Scores]:
        """Return log p and its gradient at every particle."""
        found = self.estimate(particles, batch)
        return found.log_densities, found.scores

    def scores(self, particles: Particles, batch: Minibatch | Batch | None = None) -> Scores:
        """Return the gradient of log p at every particle."""
        return self.estimate(particles, batch).scores

    def likelihood_scores(self, particles: Particles, batch: Minibatch | Batch | None = None) -> Scores:
        """Return the gradient of `log_likelihood` at every particle."""
        return self._estimate(FlatTarget.log_likelihood, particles, batch).scores

    def counted_scores(
        self, particles: Particles, row_counts: Weights, prior_counts: Weights, rows: Batch, weights: Array
    ) -> Scores:
        r"""Return the scores of $m \log p_0 + c \sum_i w_i \log p(D_i)$: rows and prior count more often, or less.

        Args:
            particles: one row each.
            row_counts: c, of every particle.
            prior_counts: m, of every particle.
            rows: of the data, all of them or a batch.
            weights: w, of every row.
        """

        def value(flat, point, batch):
            posterior, (of_rows, of_prior) = flat.posterior, point[-2:]
            parts = CountedPrior(posterior.log_prior, of_prior), WeightedRows(posterior.log_likelihood)
            source = eqx.tree_at(lambda source: (source.log_prior, source.log_likelihood), flat.source, parts)
            return dataclasses.replace(flat, source=source).log_density(point[:-2], (batch[0], of_rows * batch[1]))

        counts = jnp.stack([row_counts, prior_counts], axis=1).astype(particles.dtype)
        points = jnp.concatenate([particles, counts], axis=1)
        return self._estimate(value, points, (rows, weights)).scores[:, :-2]

    def row_log_likelihoods(self, particles: Particles, rows: Batch) -> Array:
        """Return the log likelihood of every row under every particle, particles x rows."""
        return jax.vmap(lambda x: self._row_log_likelihoods(x, rows))(particles)

    def forecasts(self, particles: Particles, rows: Batch) -> Array | None:
        """Return what every particle says about every row (`targets/forecasts.py`); None if it is unknown."""
        posterior = self.posterior
        if not isinstance(posterior.log_likelihood, Forecaster):
            return None
        one = posterior.log_likelihood.forecasts
        return jax.vmap(lambda x: one(posterior.constrain(self.unravel(x)), rows))(particles)

    def calibration(self, forecasts: np.ndarray, rows: Batch) -> dict[str, float]:
        """Return how well means of forecasts over particles were kept by the rows."""
        likelihood = self.posterior.log_likelihood
        return likelihood.calibration(forecasts, rows) if isinstance(likelihood, Forecaster) else {}

    def _row_log_likelihoods(self, x, rows):
        posterior = self.posterior
        return posterior.row_log_likelihoods(posterior.constrain(self.unravel(x)), rows)

    def log_densities(self, particles: Particles, batch: Minibatch | Batch | None = None) -> Weights:
        """Return log p at every particle, up to a constant that all share, for methods that need no gradients."""

        def values(rows):
            return jax.vmap(self.log_density, in_axes=(0, None))(particles, rows)

        if not isinstance(batch, Minibatch) or batch.anchor is None:
            return values(batch)
        parts, anchor = halves(batch.rows), self._tempered_anchor(batch.anchor)
        scores_there = jax.vmap(lambda rows: jax.grad(self.log_density)(anchor.point, rows))(parts)
        return estimated_log_densities(jax.vmap(values)(parts), scores_there, particles, anchor)

    def _estimate(self, function, particles, batch) -> Estimate:
        """Return values and gradients of a function of the target, a point and rows."""

        def on_rows(points, rows):
            def evaluate(flat, points, rows):
                return jax.vmap(jax.value_and_grad(functools.partial(function, flat)), in_axes=(0, None))(points, rows)

            split = None if self.data is None else self.data.rows(rows)
            if split is None:
                return sharding.split_particles(
                    lambda shared, x: evaluate(shared[0], x, shared[1]), (self, rows), points
                )
            return sharding.split_scores(evaluate, self, points, split)

        if not isinstance(batch, Minibatch):
            return Estimate(*on_rows(particles, batch))
        if min(map(len, jax.tree.leaves(batch.rows))) < 2:  # one row does not say how noisy it is: all may be noise
            found = Estimate(*on_rows(particles, batch.rows))
            return dataclasses.replace(found, noise=found.scores, plain=found.scores)
        anchor = None if batch.anchor is None else self._tempered_anchor(batch.anchor)
        points = particles if anchor is None else jnp.concatenate([particles, anchor.point[None]])
        values, scores = jax.vmap(on_rows, in_axes=(None, 0))(points, halves(batch.rows))
        return estimated(values, scores, particles, anchor)

    @property
    def draws_rows(self) -> bool:
        """Whether minibatches can be drawn by the influence of their rows, whose log likelihoods are then weighted."""
        return self.knows_likelihood and self.data is not None and self.data.draws_rows

    def influences(self, point: Point, deviations: Particles, rows: Batch) -> Array:
        """Return how much each row bends the log density across the cloud around a point (`targets/influence.py`)."""
        there = self._row_log_likelihoods(point, rows)

        # One after the other: for all at once XLA makes of a product of matrices many small ones, which take far
        # longer.
        def add(total, away):
            ahead, behind = (self._row_log_likelihoods(x, rows) for x in (point + away, point - away))
            return total + jnp.abs(ahead - 2 * there + behind), None

        total, _ = jax.lax.scan(add, jnp.zeros_like(there), deviations)
        return jnp.nan_to_num(total / len(deviations), posinf=0.0)

    def finite(self, log_densities: Weights, scores: Scores) -> Bool[Array, " n"]:
        """Say of every particle whether it is at a point where the density is positive and finite, and the score is."""
        finite = jnp.all(jnp.isfinite(scores), axis=1)
        # Outside of the support the score may well be finite, even zero.
        return finite & jnp.isfinite(log_densities) if self.knows_log_density else finite

    def minibatch(self, key: PRNGKeyArray, step: Array, anchor: Anchor | None = None) -> Minibatch | None:
        """Return what this step sees of the data; None: all of them, or a batch that the host feeds."""
        influence = None if anchor is None else anchor.influence
        rows = None if self.data is None else self.data.minibatch(key, step, influence)
        return None if rows is None else Minibatch(rows, anchor)

    def placed(self) -> "FlatTarget":
        """Return the target with its arrays on the current mesh, all of them everywhere but for rows to share."""

        def is_data(node):
            return isinstance(node, Data)

        def place(node):
            return node.placed() if is_data(node) else sharding.replicate(node)

        return jax.tree.map(place, self, is_leaf=is_data)

    def from_user(self, particles: Params) -> Particles:
        """Return particles in the user's space as rows of a matrix."""
        return jax.vmap(lambda params: ravel_pytree(self.source.unconstrain(params))[0])(particles)

    @property
    def is_free(self) -> bool:
        """Whether users see the numbers that methods see: no parameter is constrained, and none is derived."""
        return _is_free(self.source)

    def to_user(self, particles: Particles) -> Params:
        """Return the particles in the user's space and structure, with a leading axis."""
        return jax.vmap(lambda x: self.source.constrain(self.unravel(x)))(particles)

    def user_numbers(self, particles: Particles) -> Array:
        """Return all numbers of the particles in the user's space, derived ones included, a row for each."""
        return jax.vmap(lambda params: ravel_pytree(params)[0])(self.to_user(particles))

    def _tempered(self, value):
        if self.inverse_temperature is None:
            return value
        return self.inverse_temperature.astype(value.dtype) * value

    def _tempered_anchor(self, anchor: Anchor) -> Anchor:
        return dataclasses.replace(anchor, score=self._tempered(anchor.score))


def flatten(target: Target | Callable[[Params], Scalar], particles: Params) -> tuple[FlatTarget, Particles]:
    """Return a target as methods see it, and the user's particles as rows of a matrix.

    Raises:
        TypeError: if particles are no real numbers, or the target is none.
        ValueError: if particles lack their leading axis, or lie outside of their constraints or of what floats hold.
    """
    target = as_target(target)
    particles = jax.tree.map(_as_float, particles)
    leaves = jax.tree.leaves(particles)
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "particles needs a leading axis of at least one particle, the same in every array; "
            f"got shapes {[leaf.shape for leaf in leaves][:10]}. A single particle x goes in as x[None], and nested "
            "lists of numbers as np.array(x)."
        )
    free = _is_free(target)  # then there is nothing to compile
    unconstrained = jax.vmap(target.unconstrain)(particles) if free else _unconstrained(*split(target), particles)
    return _raveled(target, unconstrained)


def from_prior(target: Target, num_particles: int, *, key: PRNGKeyArray) -> tuple[FlatTarget, Particles]:
    """Return a target as methods see it, and particles drawn from its prior.

    Raises:
        TypeError: if the draws are no real numbers.
        ValueError: if there is no prior, or draws lie outside of the constraints or of what floats hold.
    """
    return _raveled(target, _drawn(*split(target), num_particles, key))


def _is_free(target: Target) -> bool:
    return isinstance(target, ConstrainedTarget) and target.constraints is None


@compiled(once=True)
def _unconstrained(target, particles):
    return jax.vmap(target.unconstrain)(particles)


def prior_draws(target: Target, num_particles: int, key: PRNGKeyArray) -> Params:
    """Return unconstrained draws from the prior, in compiled code.

    A draw at which rounding has left the support (of ordered numbers of which two are equal, of a share that is zero)
    is not finite, and is made again.
    """

    def draw(key):
        return target.unconstrain(jax.tree.map(_as_float, target.sample_prior(key)))

    def is_lost(state):
        _, params, num_tries = state
        return (num_tries < _TRIES) & ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(params)]))

    def again(state):
        key, _, num_tries = state
        return jax.random.fold_in(key, 1), draw(key), num_tries + 1

    def one(key):
        nowhere = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), jax.eval_shape(draw, key))
        return jax.lax.while_loop(is_lost, again, (key, nowhere, jnp.zeros((), jnp.int32)))[1]

    return jax.vmap(one)(jax.random.split(key, num_particles))


_drawn = Program(prior_draws, static=(2,), once=True)


def _raveled(target: Target, unconstrained: Params) -> tuple[FlatTarget, Particles]:
    """Return a target as methods see it, and unconstrained particles as rows of a matrix.

    All in NumPy: JAX would compile every operation.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(unconstrained)]
    dtype, unravel = _raveling(unconstrained)
    values = np.concatenate([leaf.reshape(len(leaf), -1).astype(dtype) for leaf in leaves], axis=1)
    if values.shape[1] == 0:
        raise ValueError("particles have no coordinates, so there is nothing to infer.")
    if outside := int(np.sum(~np.all(np.isfinite(values), axis=1))):
        raise ValueError(
            f"{outside} of {len(values)} particles are not finite or lie outside their constraints. "
            "Give points inside the support."
        )
    with np.errstate(over="ignore"):
        squares = 4 * np.sum(values**2, axis=1)
    if not np.all(np.isfinite(squares)):
        raise ValueError(
            f"Squared distances between particles overflow in {values.dtype}: coordinates go up to "
            f"{np.max(np.abs(values)):.1e}. Bring the parameters to a scale near 1, or use double precision."
        )
    flat, matrix = FlatTarget(target, unravel, values.shape[1]), as_array(values)
    _check_log_density(flat, jax.ShapeDtypeStruct(values.shape[1:], matrix.dtype))
    return flat, matrix


def _raveling(unconstrained: Params) -> tuple[np.dtype, Callable[[Point], Params]]:
    """Return the dtype of a particle as a vector, and the way back from there."""
    ways = []

    def ravel(params):
        vector, unravel = ravel_pytree(params)
        ways.append(unravel)
        return vector

    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), unconstrained)
    return jax.eval_shape(ravel, one).dtype, ways[0]


def _check_log_density(flat: FlatTarget, point: jax.ShapeDtypeStruct) -> None:
    """Let errors of the user's function speak here, not mid-run."""
    try:
        # All arrays as arguments: what happened to constants would be compiled, step by step.
        eqx.filter_eval_shape(FlatTarget.log_density, flat, point, flat.data and flat.data.batch_shape())
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        error.add_note(
            "The log density is compiled and differentiated by JAX: write it with jax.numpy instead of numpy, scipy or "
            "math, and with jnp.where instead of if."
        )
        raise


def _as_float(leaf) -> Array:
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if array.dtype.kind in "OSUMm":
        raise TypeError(f"particles must be arrays of real numbers; got {leaf!r}.")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if not jnp.issubdtype(array.dtype, jnp.integer) and array.dtype != bool:
            raise TypeError(f"particles must be real numbers; got dtype {array.dtype}.")
        array = array.astype(float)
    return as_array(array)
