r"""How often rows and the prior should count, tried on rows that are held out.

The posterior $p_0(x) \prod_i p(D_i \mid x)$ predicts best where prior and likelihood are right. Those of networks are
not: a label on which several people agreed says more than the likelihood of one label does (Aitchison,
arXiv:2008.05912), minibatches heat, and no width of the prior suits all data. With
$p_0(x)^m \prod_i p(D_i \mid x)^c$, rows count c times, and a Gaussian prior is $\sqrt m$ times narrower. The coldest
network is one that has arrived and does not move at all.

Members try these kinds side by side, without the rows held out, and the kinds get weights by which their mixture
predicts these rows best: those that maximise $\sum_i \log \sum_k w_k\, p_k(D_i)$ (stacking; Yao et al.,
arXiv:1704.02030), averaged over the Bayesian bootstrap of the rows, so that few rows decide little. Then the kinds are
shared out among the members by these weights, and rows that were held out count as all others do.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.data import Rows
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Weights


class Kind(NamedTuple):
    """What a member explores: how often rows count, and how often the prior does."""

    name: str
    rows: float
    prior: float


KINDS = (
    Kind("stay", 1.0, 1.0),  # where it has arrived: this one does not explore
    Kind("rows once", 1.0, 1.0),
    Kind("rows three times", 3.0, 1.0),
    Kind("narrow prior", 1.0, 16.0),  # a Gaussian of a quarter of the width
)
_ONE_OF = 5  # rows is held out
_MOST_HELD_OUT = 1000
_BOOTSTRAPS = 500
_STACKING_STEPS = 200  # of expectation and maximisation, from equal weights
_FAR_BEHIND = 1.0  # nats per row: such a kind may still be best for a few rows, and ruins the sds of all others
_UNHEARD_OF = -1e4  # a log likelihood, also of what is not finite: the weights stay finite


class Peak(eqx.Module):
    """Where every member was on its climb when it predicted the rows held out best.

    Attributes:
        networks: the members there.
        likelihoods: the mean log likelihoods of the rows held out.
        steps: how many steps of the climb lead there.
    """

    networks: Particles
    likelihoods: Array
    steps: Array

    @classmethod
    def start(cls, particles: Particles) -> "Peak":
        """Return the peak of a climb that has not begun."""
        low = jnp.full(len(particles), -jnp.inf, particles.dtype)
        return cls(particles, low, jnp.zeros(len(particles), jnp.int32))

    def after(self, target: FlatTarget, networks: Particles, steps: Array) -> "Peak":
        """Return the peak when these networks were reached in so many steps."""
        values = jnp.mean(target.row_log_likelihoods(networks, held_out_rows(target)), axis=1)
        values = jnp.nan_to_num(values, nan=-jnp.inf, neginf=-jnp.inf).astype(self.likelihoods.dtype)
        better = values > self.likelihoods
        return Peak(
            jnp.where(better[:, None], networks, self.networks),
            jnp.where(better, values, self.likelihoods),
            jnp.where(better, steps.astype(jnp.int32), self.steps),
        )


class Trial(eqx.Module):
    """What rows that are held out say about every one of `KINDS`, and of which kind the members are.

    Attributes:
        peak: where the members have arrived.
        likelihoods: logarithms of the sums over all networks that were judged, kinds x rows.
        forecasts: sums of what these networks say about the rows, kinds x rows x numbers; None if unknown.
        num_judged: the number of these networks, of every kind.
        kinds: the number of the kind of every member.
    """

    peak: Peak
    likelihoods: Array
    forecasts: Array | None
    num_judged: Array
    kinds: Array

    @classmethod
    def start(cls, target: FlatTarget, particles: Particles) -> "Trial | None":
        """Return a trial that has not begun; None where no rows can be held out."""
        if not can_hold_out(target):
            return None
        num_rows = target.num_rows // _every(target.num_rows)
        likelihoods = jnp.full((len(KINDS), num_rows), -jnp.inf, particles.dtype)
        forecasts = jax.eval_shape(lambda: target.forecasts(particles, held_out_rows(target)))
        if forecasts is not None:
            forecasts = jnp.zeros((len(KINDS), *forecasts.shape[1:]), particles.dtype)
        kinds = 1 + jnp.arange(len(particles), dtype=jnp.int32) % (len(KINDS) - 1)  # those that move, in turn
        return cls(Peak.start(particles), likelihoods, forecasts, jnp.zeros(len(KINDS), particles.dtype), kinds)

    @property
    def stay(self) -> Array:
        """Whether a member stays where it has arrived."""
        return self.kinds == 0

    @property
    def row_counts(self) -> Weights:
        """How often rows count for every member."""
        return jnp.asarray([kind.rows for kind in KINDS], self.likelihoods.dtype)[self.kinds]

    @property
    def prior_counts(self) -> Weights:
        """How often the prior counts for every member."""
        return jnp.asarray([kind.prior for kind in KINDS], self.likelihoods.dtype)[self.kinds]

    def judged(self, target: FlatTarget, particles: Particles, *, moved: Array) -> "Trial":
        """Return the trial after these networks were judged: as their kinds, or all as staying where none has moved."""
        rows = held_out_rows(target)
        kinds = jnp.where(moved, self.kinds, 0)
        belongs = kinds == jnp.arange(len(KINDS))[:, None]
        values = jnp.nan_to_num(target.row_log_likelihoods(particles, rows), nan=-jnp.inf)
        sums = jax.nn.logsumexp(jnp.where(belongs[:, :, None], values, -jnp.inf), axis=1)
        forecasts = target.forecasts(particles, rows)
        if forecasts is not None:
            assert self.forecasts is not None
            totals = jnp.tensordot(belongs.astype(forecasts.dtype), jnp.nan_to_num(forecasts), axes=1)
            forecasts = self.forecasts + totals.astype(self.forecasts.dtype)
        return dataclasses.replace(
            self,
            likelihoods=jnp.logaddexp(self.likelihoods, sums.astype(self.likelihoods.dtype)),
            forecasts=forecasts,
            num_judged=self.num_judged + jnp.sum(belongs, axis=1).astype(self.num_judged.dtype),
        )

    def decided(self, *, key: PRNGKeyArray) -> "Trial":
        """Return the trial with as many members of every kind as its weight says."""
        means = self.likelihoods - jnp.log(jnp.maximum(self.num_judged, 1.0))[:, None]
        means = jnp.maximum(means, _UNHEARD_OF)
        by_kind = jnp.mean(means, axis=1, keepdims=True)
        behind = by_kind < jnp.max(by_kind) - _FAR_BEHIND
        weights = weights_of(jnp.where(behind, _UNHEARD_OF, means), key=key)
        places = (jnp.arange(len(self.kinds), dtype=weights.dtype) + 0.5) / len(self.kinds)
        wanted = jnp.searchsorted(jnp.cumsum(weights)[:-1], places)
        return dataclasses.replace(self, kinds=_shared_out(jnp.bincount(wanted, length=len(KINDS)), self.kinds))

    def members(self) -> dict[str, int]:
        """Return how many members are of each kind, by its name."""
        numbers = np.bincount(np.asarray(self.kinds), minlength=len(KINDS))
        return {kind.name: int(number) for kind, number in zip(KINDS, numbers, strict=True)}

    def calibration(self, target: FlatTarget) -> dict[str, float]:
        """Return how well the rows held out kept what networks that had not seen them said; {} where this is not known.

        Those of every kind count by the number of members that are of it.
        """
        if self.forecasts is None or not np.any(self.num_judged):
            return {}
        numbers = np.array(list(self.members().values()))
        shares = numbers / np.sum(numbers) / np.maximum(np.asarray(self.num_judged, float), 1.0)
        forecasts = np.tensordot(shares, np.asarray(self.forecasts, float), axes=1)
        return target.calibration(forecasts, held_out_rows(target))


def weights_of(log_likelihoods: Array, *, key: PRNGKeyArray) -> Weights:
    """Return the weights of the mixture of models, given the log likelihood of every row (models x rows): stacking."""
    num_models, num_rows = log_likelihoods.shape
    shares = jax.random.exponential(key, (_BOOTSTRAPS, num_rows), log_likelihoods.dtype)
    shares = shares / jnp.sum(shares, axis=1, keepdims=True)
    likelihoods = jnp.exp(log_likelihoods - jnp.max(log_likelihoods, axis=0))

    def step(_, weights):  # how much of every row each model accounts for
        return weights * ((shares / (weights @ likelihoods)) @ likelihoods.T)

    equal = jnp.full((_BOOTSTRAPS, num_models), 1 / num_models, log_likelihoods.dtype)
    return jnp.mean(jax.lax.fori_loop(0, _STACKING_STEPS, step, equal), axis=0)


def _shared_out(numbers: Array, kinds: Array) -> Array:
    """Return kinds of which there are so many; members keep theirs, as far as there are enough."""
    same = kinds == jnp.arange(len(numbers))[:, None]
    rank = jnp.sum(jnp.where(same, jnp.cumsum(same, axis=1), 0), axis=0)  # among those of one kind, from 1
    keeps = rank <= numbers[kinds]
    left = numbers - jnp.sum(same & keeps, axis=1)
    others = jnp.searchsorted(jnp.cumsum(left), jnp.cumsum(~keeps))  # the first kind of which there is one left
    return jnp.where(keeps, kinds, others).astype(kinds.dtype)


def can_hold_out(target: FlatTarget) -> bool:
    """Whether there are rows to hold out: those of a posterior, in memory, and enough of them."""
    return target.knows_likelihood and isinstance(target.data, Rows) and target.num_rows >= _ONE_OF


def held_out_rows(target: FlatTarget) -> Batch:
    """Return the rows that are held out: evenly spread, a fifth of all, and 1,000 at most."""
    every = _every(target.num_rows)
    return _rows(target).at(slice(every - 1, None, every))


def fitted_rows(target: FlatTarget, step: Array, *, all_rows: bool, held_out: Array) -> tuple[Batch, Weights]:
    """Return the rows that a step sees, and their weights: 0 for those that are held out, as long as they are.

    All rows, or the target's minibatches, in an order of their own.
    """
    data = _rows(target)
    indices = jnp.arange(data.num_rows) if all_rows else data.minibatch_indices(jax.random.key(0), step)
    apart = held_out & (indices % _every(data.num_rows) == _every(data.num_rows) - 1)
    rows = data.values if all_rows else data.at(indices)
    return rows, jnp.where(apart, 0.0, 1.0)


def _every(num_rows: int) -> int:
    """Return which row is held out: every 5th, or more rarely where that would be too many."""
    return max(_ONE_OF, -(-num_rows // _MOST_HELD_OUT))


def _rows(target: FlatTarget) -> Rows:
    assert isinstance(target.data, Rows)
    return target.data
