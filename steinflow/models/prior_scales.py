"""How wide the prior of a network's weights should be: cross-validation decides.

Where the width is a parameter like the others, few particles cannot infer it, since the density of all weights together
is highest where they vanish. Rows held out can tell, as they do for a ridge.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.inference.loop import fit
from steinflow.methods.svgd.method import SVGD
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.supervised import Weighted, log_mean_likelihood, log_weights_of, usual_num_steps
from steinflow.results.outcome import Outcome
from steinflow.targets.posterior import Posterior
from steinflow.typing import Array, PRNGKeyArray

SCALES = (1.0, 3.0, 9.0)
NETWORK_REACH = 25.0  # how far a weight can go in a run: far, since a prior of fixed width has no funnel to fall into
_HOPELESS = -1e6  # for the log-likelihood of a row that no particle can explain
_MAX_FOLDS, _ENOUGH_ROWS = 5, 500  # to be held out

_log_mean_likelihood = eqx.filter_jit(log_mean_likelihood)


def best_prior_scale(
    model: NeuralNetwork,
    *,
    num_particles: int = 20,
    num_steps: int | None = None,
    row_weights: Array | None = None,
    key: int | PRNGKeyArray = 0,
) -> float:
    """Return the prior scale of 1, 3 and 9 whose networks predict rows held out best, by log-likelihood.

    Of those that are as good within one standard error it is the smallest. A fifth of the rows is held out, 500 at
    most, up to five times in turn until 500 rows were. Held-out rows count zero in the likelihood, so that all these
    runs, and one on all rows, share compiled code.

    Args:
        model: the network and all its rows, with any prior and the batch size to use.
        num_particles: of every run; the width needs no more than a few.
        num_steps: of every run; by default as the estimators take them.
        row_weights: how often each row counts; rows that count zero must be the last ones.
        key: of the rows held out and of the runs.
    """
    weights = jnp.ones(model.data.num_rows) if row_weights is None else row_weights
    num_rows = int(jnp.count_nonzero(weights))
    num_steps = num_steps or usual_num_steps(num_rows, model.data.batch_size, is_network=True)
    start_key, rows_key, run_key = split_key(as_key(key), 3)
    particles = jax.vmap(model.with_prior_scale(1.0).sample_prior)(jax.random.split(start_key, num_particles))
    found = []
    for held_out in _folds(num_rows, rows_key):
        data = {**model.data.values, "weight": weights.at[held_out].set(0.0)}
        rows = {name: values[held_out] for name, values in model.data.values.items()}
        for wide in map(model.with_prior_scale, SCALES):
            target = Posterior(wide.log_prior, Weighted(model.log_likelihood), data, model.data.batch_size)
            method = SVGD.for_networks(NETWORK_REACH)
            result = fit(target, method, particles=particles, num_steps=num_steps, key=run_key, progress=False)
            if result.outcome is Outcome.INTERRUPTED:
                raise KeyboardInterrupt
            log_weights = log_weights_of(particles)
            found.append(_log_mean_likelihood(model.log_likelihood, result.particles, rows, log_weights))
    return _simplest_of_the_best(np.reshape(found, (-1, len(SCALES), len(found[0]))))


def _folds(num_rows, key):
    """Return the numbers of the rows to hold out, always as many, fold by fold."""
    size = max(1, min(num_rows // _MAX_FOLDS, _ENOUGH_ROWS))
    count = min(_MAX_FOLDS, -(-_ENOUGH_ROWS // size), num_rows // size)
    order = jax.random.permutation(key, num_rows)
    return [order[k * size : (k + 1) * size] for k in range(count)]


def _simplest_of_the_best(logs):
    """Return the smallest scale that is within a standard error of the best; `logs` is folds x scales x rows."""
    by_scale = np.nan_to_num(np.moveaxis(logs, 1, 0), nan=_HOPELESS, neginf=_HOPELESS).reshape(len(SCALES), -1)
    best = by_scale[np.argmax(np.mean(by_scale, axis=1))]
    gaps = best - by_scale
    close = np.mean(gaps, axis=1) <= np.std(gaps, axis=1) / np.sqrt(gaps.shape[1])
    return SCALES[int(np.argmax(close))]
