"""What the tables compare: predictive means and sds, by steinflow and by others."""

import functools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import BayesianRidge

import steinflow as sf

MEMBERS, REACH = 10, 10.0
STEPS_BY_LAYER = 1_500  # as many as ours takes to arrive
DROPPED, PASSES = 0.05, 100

Rows = tuple[np.ndarray, np.ndarray]
Fit = Callable[[Rows, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def ours(hidden: Sequence[int]) -> Fit:
    """The estimator with its defaults."""

    def fit(train, X_test, seed):
        return sf.SteinRegressor(hidden=tuple(hidden), random_state=seed).fit(*train).predict(X_test, return_std=True)

    return fit


def deep_ensemble(hidden: Sequence[int]) -> Fit:
    """Ten networks of the same kind, each at the optimum that members of ours start from."""

    def fit(train, X_test, seed):
        model = _network(train, hidden)
        key = jax.random.key(seed)
        start = jax.vmap(model.sample_prior)(jax.random.split(key, MEMBERS))
        trained = climbed(model, start, key, STEPS_BY_LAYER * len(hidden))
        parts = sf.models.uncertainty(model, trained, X_test)
        return np.asarray(parts.mean, float), np.asarray(parts.total, float)

    return fit


def ridge(train: Rows, X_test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's linear regression with a learned prior: what is there without a network."""
    return BayesianRidge().fit(*train).predict(X_test, return_std=True)


def dropout(hidden: Sequence[int]) -> Fit:
    """One such network that drops 5% of its units at random, when it is trained and when it predicts, 100 times."""

    def fit(train, X_test, seed):
        model, steps = _network(train, hidden), STEPS_BY_LAYER * len(hidden) * MEMBERS
        start_key, key, test_key = jax.random.split(jax.random.key(seed), 3)
        params = _trained_by_dropout(model, model.sample_prior(start_key), key, steps)
        X, keys = model.inputs(jnp.asarray(X_test, float)), jax.random.split(test_key, PASSES)
        outputs = jax.vmap(lambda key: _dropped(params, X, key))(keys)
        forms = model.head.forms(outputs, {})
        means, variances = model.family.mean(forms, {}), model.family.variance(forms, {})
        scale, total = np.asarray(model.responses.scale), np.asarray(means.var(axis=0) + variances.mean(axis=0))
        return np.asarray(model.raw(means.mean(axis=0)), float), scale * np.sqrt(total)

    return fit


def boosting(train: Rows, X_test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Boosted trees for the mean; their 16% and 84% quantiles give the sd.

    A tenth of the rows says when to stop. In some rows the quantiles cross all the same: no sd is below 5% of y's.
    """
    fitted = functools.partial(HistGradientBoostingRegressor, max_iter=500, early_stopping=True, random_state=seed)
    low, high = (
        fitted(loss="quantile", quantile=level).fit(*train).predict(X_test) for level in stats.norm.cdf([-1, 1])
    )
    return fitted().fit(*train).predict(X_test), np.maximum(0.5 * (high - low), 0.05 * np.std(train[1]))


def methods(hidden: Sequence[int]) -> dict[str, Fit]:
    """Return all of them by name."""
    return {
        "steinflow": ours(hidden),
        "deep ensemble": deep_ensemble(hidden),
        "MC dropout": dropout(hidden),
        "HistGradientBoosting, quantiles": boosting,
    }


@eqx.filter_jit
def climbed(model, params, key, num_steps):
    """Return every particle after Adam with decaying steps, on the density that ours climbs to arrive."""
    optimizer, target = optax.adam(optax.cosine_decay_schedule(2 * REACH / num_steps, num_steps)), model.approach

    def step(carry, number):
        params, state = carry
        batch = model.data.minibatch(key, number)
        scores = jax.vmap(jax.grad(target.log_density), in_axes=(0, None))(params, batch)
        updates, state = optimizer.update(jax.tree.map(jnp.negative, scores), state)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, optimizer.init(params)), jnp.arange(num_steps))[0][0]


def _network(train, hidden):
    return sf.models.NeuralNetwork(
        *train,
        hidden,
        "tanh",
        family=sf.models.VaryingGaussian(),
        prior_scale=4.0,
        batch_size=min(100, len(train[1])),
    )


def _dropped(params, X, key):
    *hidden, last = zip(params["weights"], params["biases"], strict=True)
    for number, (weights, biases) in enumerate(hidden):
        stays = jax.random.bernoulli(jax.random.fold_in(key, number), 1 - DROPPED, (len(X), len(biases)))
        X = stays * jnp.tanh(X @ weights + biases) / (1 - DROPPED)
    return X @ last[0] + last[1]


@eqx.filter_jit
def _trained_by_dropout(model, params, key, num_steps):
    optimizer = optax.adam(optax.cosine_decay_schedule(2 * REACH / num_steps, num_steps))

    def loss(params, batch, key):
        forms = model.head.forms(_dropped(params, batch["X"], key), {})
        values = model.head.climbed(forms, model.family.log_density(forms, batch))
        return -model.log_prior(params) - model.data.num_rows * jnp.mean(values)

    def step(carry, number):
        params, state = carry
        batch = model.data.minibatch(key, number)
        gradient = jax.grad(loss)(
            params, model.data.values if batch is None else batch, jax.random.fold_in(key, number)
        )
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, optimizer.init(params)), jnp.arange(num_steps))[0][0]
