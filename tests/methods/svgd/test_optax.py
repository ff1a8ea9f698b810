"""SVGD takes any optimiser of optax, with schedules and chains: each finds the mean and the variance of a Gaussian."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import steinflow as sf

MEAN, SD = np.array([1.0, -2.0], np.float32), np.array([0.5, 2.0], np.float32)
NUM_STEPS = 600

OPTIMIZERS = {
    "adam": optax.adam(0.05),
    "adagrad": optax.adagrad(0.5),
    "rmsprop": optax.rmsprop(optax.cosine_decay_schedule(0.05, NUM_STEPS)),
    "sgd with momentum": optax.sgd(0.05, momentum=0.9),
    "clipped": optax.chain(optax.clip_by_global_norm(5.0), optax.sgd(0.3)),
    "cosine schedule": optax.adam(optax.warmup_cosine_decay_schedule(0.0, 0.1, 50, NUM_STEPS)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_mean_and_variance(name):
    method = sf.SVGD(optimizer=OPTIMIZERS[name])
    start = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    target = sf.Density(lambda x: -0.5 * jnp.sum(((x - MEAN) / SD) ** 2))
    result = sf.fit(target, method, particles=start, num_steps=NUM_STEPS, key=0, progress=False)
    np.testing.assert_array_less(np.abs(np.asarray(result.mean()) - MEAN) / SD, 0.1)
    np.testing.assert_allclose(result.sd(), SD, rtol=0.1)
