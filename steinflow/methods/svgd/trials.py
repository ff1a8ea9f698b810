r"""How often rows should count, tried on rows that are held out.

The posterior $p_0(x) \prod_i p(D_i \mid x)$ predicts best where prior and likelihood are right. Those of networks are
not: a label on which several people agreed says more than the likelihood of one label does (Aitchison,
arXiv:2008.05912), weights of the prior that no row determines blur what the others know, and minibatches heat. With
$p_0(x) \prod_i p(D_i \mid x)^c$, rows count c times. Large c are colder, and the coldest is a member that has arrived
and does not move at all.

Members try a few c one after the other, without the rows held out, and get weights by which the mixture of all c
predicts these rows best: those that maximise $\sum_i \log \sum_c w_c\, p_c(D_i)$ (stacking; Yao et al.,
arXiv:1704.02030), averaged over the Bayesian bootstrap of the rows, so that few rows decide little. Then c is shared
out among the members by these weights, and rows that were held out count as all others do.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.data import Rows
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Weights

COUNTS = (math.inf, 3.0, 1.0)  # from cold to hot, in which order they are tried; 10 as well gained nothing
_ONE_OF = 5  # rows is held out
_MOST_HELD_OUT = 1000
_BOOTSTRAPS = 500
_STACKING_STEPS = 200  # of expectation and maximisation, from equal weights
_UNHEARD_OF = -1e4  # a log likelihood, also of what is not finite: the weights stay finite


class Trial(eqx.Module):
    """What rows that are held out say about every c of `COUNTS`, and which of them the members have got.

    Attributes:
        likelihoods: logarithms of the sums over all networks that were judged, counts x rows.
        forecasts: sums of what these networks say about the rows, counts x rows x numbers; None if unknown.
        num_judged: the number of these networks.
        choices: the number of the c of every member; the last one, 1, at first.
    """

    likelihoods: Array
    forecasts: Array | None
    num_judged: Array
    choices: Array

    @classmethod
    def start(cls, target: FlatTarget, particles: Particles) -> "Trial | None":
        """Return a trial that has not begun; None where no rows can be held out."""
        if not can_hold_out(target):
            return None
        num_rows = target.num_rows // _every(target.num_rows)
        likelihoods = jnp.full((len(COUNTS), num_rows), -jnp.inf, particles.dtype)
        choices = jnp.full(len(particles), len(COUNTS) - 1, jnp.int32)
        forecasts = jax.eval_shape(lambda: target.forecasts(particles, held_out_rows(target)))
        if forecasts is not None:
            forecasts = jnp.zeros((len(COUNTS), *forecasts.shape[1:]), particles.dtype)
        return cls(likelihoods, forecasts, jnp.zeros(len(COUNTS), particles.dtype), choices)

    @property
    def stay(self) -> Array:
        """Whether a member stays where it has arrived."""
        return self.choices == COUNTS.index(math.inf)

    @property
    def counts(self) -> Weights:
        """How often rows count for every member; 1 for one that stays, which nobody will see move."""
        counts = jnp.asarray([1.0 if math.isinf(count) else count for count in COUNTS], self.likelihoods.dtype)
        return counts[self.choices]

    def judged(self, target: FlatTarget, particles: Particles, number: Array) -> "Trial":
        """Return the trial after networks with the c of this number were judged."""
        rows = held_out_rows(target)
        values = jnp.nan_to_num(target.row_log_likelihoods(particles, rows), nan=-jnp.inf)
        found = jnp.logaddexp(self.likelihoods[number], jax.nn.logsumexp(values, axis=0))
        forecasts = target.forecasts(particles, rows)
        if forecasts is not None:
            assert self.forecasts is not None
            total = jnp.sum(jnp.nan_to_num(forecasts), axis=0).astype(self.forecasts.dtype)
            forecasts = self.forecasts.at[number].add(total)
        return dataclasses.replace(
            self,
            likelihoods=self.likelihoods.at[number].set(found.astype(self.likelihoods.dtype)),
            forecasts=forecasts,
            num_judged=self.num_judged.at[number].add(len(particles)),
        )

    def decided(self, *, key: PRNGKeyArray) -> "Trial":
        """Return the trial with every c for as many members as its weight says."""
        means = self.likelihoods - jnp.log(jnp.maximum(self.num_judged, 1.0))[:, None]
        weights = weights_of(jnp.maximum(means, _UNHEARD_OF), key=key)
        places = (jnp.arange(len(self.choices), dtype=weights.dtype) + 0.5) / len(self.choices)
        choices = jnp.searchsorted(jnp.cumsum(weights)[:-1], places).astype(jnp.int32)
        return dataclasses.replace(self, choices=choices)

    def members(self) -> dict[str, int]:
        """Return how many members have got each c, by its name."""
        numbers = np.bincount(np.asarray(self.choices), minlength=len(COUNTS))
        return {f"{count:g}": int(number) for count, number in zip(COUNTS, numbers, strict=True)}

    def calibration(self, target: FlatTarget) -> dict[str, float]:
        """Return how well the rows held out kept what networks that had not seen them said; {} where this is not known.

        Those of every c count by the number of members that have got it.
        """
        if self.forecasts is None or not np.all(self.num_judged):
            return {}
        numbers = np.array(list(self.members().values()))
        shares = numbers / np.sum(numbers) / np.asarray(self.num_judged, float)
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
