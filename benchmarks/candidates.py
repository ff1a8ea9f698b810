"""One SVGD step of steinflow, its two bare matrix products, and the peers: all on the same Gaussian target.

A peer is a function of the starting particles, a float32 array; it returns a function that runs a number of steps.
"""

import contextlib
import io
import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax

import steinflow as sf
from steinflow.methods.base import Time
from steinflow.targets.flat import flatten


def start(num_particles, dim):
    return np.random.default_rng(0).normal(size=(num_particles, dim)).astype(np.float32)


def scales(dim):
    """The standard deviations of the target."""
    return np.linspace(0.5, 2.0, dim).astype(np.float32)


def log_density(x):
    return -0.5 * jnp.sum((x / scales(x.shape[-1])) ** 2)


def steinflow(particles, method=None):
    """Steps of a method, by default Algorithm 1: RBF kernel, median bandwidth, AdaGrad; the loop is that of `fit`."""
    method = method or sf.SVGD.paper()
    target, x = flatten(log_density, particles)
    key = jax.random.key(0)
    state = method.init(target, x, num_steps=1000, key=key)
    time = Time(jnp.asarray(0), jnp.asarray(1000))
    return _compiled(lambda state: method.step(target, state, None, time=time, key=key), state)


def seconds_of_a_run(particles):
    """Return what a step of the default takes on average, in the best of three runs that find all compiled."""
    runs = [sf.fit(log_density, particles=particles, key=key, progress=False).info for key in range(4)]
    return min(info["seconds"] / info["num_steps"] for info in runs[1:])


def matrix_products(particles):
    """What no exact SVGD step can do without: X X' and A [n, d]."""
    factor = 1 / len(particles) ** 2
    return _compiled(lambda x: factor * ((x @ x.T) @ x), jnp.asarray(particles))


def blocked_matrix_products(particles):
    """The same by blocks of rows, which is faster where n x n does not fit the cache."""
    n, dim = particles.shape
    block = next(size for size in range(min(n, 512), 0, -1) if n % size == 0)

    def step(x):
        blocks = jax.lax.map(lambda rows: (rows @ x.T) @ x, x.reshape(-1, block, dim))
        return blocks.reshape(n, dim) / n**2

    return _compiled(step, jnp.asarray(particles))


def _compiled(step, state):
    run = jax.jit(lambda state, count: jax.lax.fori_loop(0, count, lambda _, state: step(state), state))
    return lambda count: jax.block_until_ready(run(state, count))


def authors_numpy(particles):
    """The formulas of the authors' code: pairwise distances from SciPy, the median of all n x n, their accumulator."""
    from scipy.spatial.distance import pdist, squareform

    variances = scales(particles.shape[1]) ** 2

    def run(count):
        theta, history = particles.copy(), None
        for _ in range(count):
            squares = squareform(pdist(theta)) ** 2
            h = np.sqrt(0.5 * np.median(squares) / np.log(len(theta) + 1))
            kernel = np.exp(-squares / h**2 / 2)
            repulsion = -kernel @ theta
            row_sums = np.sum(kernel, axis=1)
            for k in range(theta.shape[1]):
                repulsion[:, k] += theta[:, k] * row_sums
            direction = (kernel @ (-theta / variances) + repulsion / h**2) / len(theta)
            history = direction**2 if history is None else 0.9 * history + 0.1 * direction**2
            theta = theta + 1e-3 * direction / (1e-6 + np.sqrt(history))
        return theta

    return run


def pymc_svgd(particles):
    import pymc
    import pytensor

    pytensor.config.floatX = "float32"
    logging.getLogger("pymc").setLevel(logging.ERROR)
    num_particles, dim = particles.shape
    with pymc.Model():
        pymc.Normal("x", 0.0, scales(dim), shape=dim)
        inference = pymc.SVGD(n_particles=num_particles, jitter=1, random_seed=0)
        step = inference.objective.step_function(obj_optimizer=pymc.adagrad(learning_rate=0.1), score=False)

    def run(count):
        for _ in range(count):
            step()

    return run


def blackjax_svgd(particles):
    import blackjax

    algorithm = blackjax.svgd(jax.grad(log_density), optax.adagrad(0.1))
    state = algorithm.init(jnp.asarray(particles), {"length_scale": jnp.ones(())})
    return _compiled(algorithm.step, state)


def numpyro_svgd(particles):
    import numpyro
    from numpyro import distributions
    from numpyro.contrib.einstein import SVGD, RBFKernel

    num_particles, dim = particles.shape

    def model():
        numpyro.sample("x", distributions.Normal(0.0, scales(dim)).to_event(1))

    inference = SVGD(model, numpyro.optim.Adagrad(0.1), RBFKernel(), num_stein_particles=num_particles)
    state = inference.init(jax.random.key(0))
    return _compiled(lambda state: inference.update(state)[0], state)


def pyro_svgd(particles):
    import pyro
    import torch
    from pyro import distributions
    from pyro.infer import SVGD, RBFSteinKernel

    num_particles, dim = particles.shape

    def model():
        pyro.sample("x", distributions.Normal(torch.zeros(dim), torch.tensor(scales(dim))).to_event(1))

    pyro.clear_param_store()
    optimizer = pyro.optim.Adagrad({"lr": 1e-4})  # with more, thousands of steps end in NaN
    inference = SVGD(
        model, RBFSteinKernel(), optimizer, num_particles=num_particles, max_plate_nesting=0, mode="multivariate"
    )

    def run(count):
        for _ in range(count):
            inference.step()

    return run


PEERS = {
    "the authors' NumPy formulas": authors_numpy,
    "PyMC": pymc_svgd,
    "BlackJAX": blackjax_svgd,
    "NumPyro": numpyro_svgd,
    "Pyro": pyro_svgd,
}


def installed(peer, particles):
    """Return the peer's steps, or None where its package is missing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return peer(particles)
    except ImportError:
        return None
