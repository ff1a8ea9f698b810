"""Other ways to the same posterior: their error, their time, and how many rows they read.

Those that need a step size are given one that nobody has: a part of the smallest true variance. Those of one chain
start at the mode of the truth. Times are of a second run, without compilation.
"""

import functools
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.big_data.accuracy import error_and_ratios, once
from benchmarks.big_data.problems import log_prior, problem_of, truth

DRAWS = 1000  # of NUTS, after as many to warm up
SGLD_STEPS = 20_000
SGLD_STEP = 0.1  # of the smallest variance


def rivals(names):
    """Yield the lines of the table."""
    yield "## Beside other ways\n"
    yield (
        "In one sitting, second runs, without compilation. SGLD has a step size that nobody knows beforehand, a tenth "
        "of the smallest true variance, and starts at the true mean; so does NUTS, an sd away.\n"
    )
    yield "| posterior | method | mean error, sds | sds, over the truth | row gradients | seconds |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        for method, run in METHODS.items():
            run(name)  # compiles
            clock = time.perf_counter()
            draws, row_gradients = run(name)
            seconds = time.perf_counter() - clock
            error, low, high = error_and_ratios(draws, name)
            yield f"| {name} | {method} | {error:.3f} | {low:.2f} .. {high:.2f} | {row_gradients:.1e} | {seconds:.1f} |"


def _svgd(target, rows_per_step):
    result = sf.fit(target, key=0, progress=False)
    taken, passes = result.info["num_steps"], result.info.get("passes", 0.0)
    return result.particles, taken * len(result.particles) * rows_per_step + passes * target.data.num_rows


def anchored(name):
    problem = problem_of(name)
    return _svgd(problem.posterior(problem.batch_size), problem.batch_size)


def plain(name):
    problem = problem_of(name)
    return _svgd(once(problem), problem.batch_size)


def all_rows(name):
    problem = problem_of(name)
    return _svgd(problem.posterior(None), len(problem.data["y"]))


@functools.cache  # one compiled program for both runs
def _nuts(name):
    problem, (mean, sd) = problem_of(name), truth(name)
    start = jnp.asarray(mean + sd, jnp.float32)

    @jax.jit
    def run(key, data):
        def log_density(w):
            return log_prior(w) + jnp.sum(problem.log_likelihood(w, data))

        warm_key, key = jax.random.split(key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), warming = warm_up.run(warm_key, start, DRAWS)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        _, (draws, leaps) = jax.lax.scan(step, state, jax.random.split(key, DRAWS))
        return draws, jnp.sum(leaps) + jnp.sum(warming.info.num_integration_steps)

    return run


def nuts(name):
    """Return draws of BlackJAX's NUTS on all rows, from an sd beside the mean."""
    data = jax.tree.map(jnp.asarray, problem_of(name).data)
    draws, gradients = jax.block_until_ready(_nuts(name)(jax.random.key(0), data))
    return draws, float(gradients) * len(data["y"])


@functools.cache
def _sgld_of_blackjax(name, control_variates):
    problem, (mean, sd) = problem_of(name), truth(name)
    num_rows, centre = len(problem.data["y"]), jnp.asarray(mean, jnp.float32)
    step_size = SGLD_STEP * float(sd.min()) ** 2

    def log_likelihood(w, row):
        return problem.log_likelihood(w, jax.tree.map(lambda leaf: leaf[None], row))[0]

    @jax.jit
    def run(key, data):
        estimator = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, num_rows)
        if control_variates:
            estimator = blackjax.sgmcmc.gradients.control_variates(estimator, centre, data)
        sgld = blackjax.sgld(estimator)

        def step(position, key):
            rows_key, key = jax.random.split(key)
            rows = jax.random.randint(rows_key, (problem.batch_size,), 0, num_rows)
            position = sgld.step(key, position, jax.tree.map(lambda leaf: leaf[rows], data), step_size)
            return position, position

        return jax.lax.scan(step, centre, jax.random.split(key, SGLD_STEPS))[1]

    return run


def sgld_of_blackjax(name, *, control_variates):
    """Return draws of BlackJAX's SGLD, its gradients corrected at the mean or not, from the mean."""
    problem = problem_of(name)
    data = jax.tree.map(jnp.asarray, problem.data)
    draws = np.asarray(_sgld_of_blackjax(name, control_variates)(jax.random.key(0), data))
    points = 2 if control_variates else 1
    return draws, float(SGLD_STEPS * problem.batch_size * points + control_variates * len(data["y"]))


def sgld(name, *, with_anchors):
    """Return draws of our own SGLD, on the same minibatches with anchors or without."""
    problem, (mean, sd) = problem_of(name), truth(name)
    target = problem.posterior(problem.batch_size) if with_anchors else once(problem)
    step_size = 2 * SGLD_STEP * float(sd.min()) ** 2  # half of it is the factor of the score
    method = sf.SGLD(step_size=step_size, decay=0, thin=SGLD_STEPS // DRAWS)
    start = jnp.tile(jnp.asarray(mean, jnp.float32), (DRAWS, 1))  # the chain starts from the first, and keeps as many
    result = sf.fit(target, method, particles=start, num_steps=SGLD_STEPS, key=0, progress=False)
    read = SGLD_STEPS * problem.batch_size * (2 if with_anchors else 1) + result.info["passes"] * target.data.num_rows
    return result.particles, read


METHODS = {
    "SVGD, anchored minibatches": anchored,
    "SVGD, plain minibatches": plain,
    "SVGD, all rows": all_rows,
    "NUTS of BlackJAX, all rows": nuts,
    "SGLD, anchored": lambda name: sgld(name, with_anchors=True),
    "SGLD, plain": lambda name: sgld(name, with_anchors=False),
    "SGLD of BlackJAX, control variates": lambda name: sgld_of_blackjax(name, control_variates=True),
    "SGLD of BlackJAX, plain": lambda name: sgld_of_blackjax(name, control_variates=False),
}
