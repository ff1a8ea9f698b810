"""Other ways to the same posterior: how long each takes to the same accuracy, and how many rows it reads.

That is a mean within 0.05 sds, root mean square over parameters, and every sd within 10%. All are stopped, by the
truth, when they have come so far: nobody is charged for more, and nobody can do that without the truth. Our own default
also runs to the end that it finds by itself. Those that need a step size are given one that nobody has: a part of the
smallest true variance. Chains start near the true mean: NUTS an sd beside it, the others at it. Times are of the wall
clock, without compilation.
"""

import functools
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.big_data.accuracy import error_and_ratios, once
from benchmarks.big_data.problems import kept, log_prior, problem_of, truth

NEAR, AS_WIDE = 0.05, 0.1  # sds; part of an sd
WARM_UP, DRAWS = 300, 2000  # of NUTS; draws at most
NUTS_AT_ONCE, SGLD_AT_ONCE = 25, 1000  # draws between two looks
SGLD_STEPS = 20_000  # at most
SGLD_STEP = 0.1  # of the smallest variance
KEPT = 1000  # draws of our own SGLD


def rivals(names):
    """Yield the lines of the table."""
    yield (
        "Wall clock without compilation. SGLD has a step size that nobody knows beforehand, a tenth of the smallest "
        f"true variance, and starts at the true mean. NUTS starts an sd beside it and warms up for {WARM_UP} steps. "
        "All but the first line of a posterior stop as soon as their mean is within 0.05 sds, and every sd within 10%, "
        f"which only who has the truth can know; SGLD after {SGLD_STEPS:,} steps, SVGD after 1,000, NUTS after "
        f"{DRAWS:,} draws.\n"
    )
    yield "| posterior | method | mean error, sds | sds, over the truth | row gradients | seconds | beside ours |"
    yield "|---|---|---|---|---|---|---|"
    for name in names:
        ours = None
        for method, run in METHODS.items():
            found = kept(f"rivals {name}, {method}", _measured, name, run)
            ours = found if ours is None else ours
            print(name, method, found, flush=True)
            beside = "" if found is ours else _beside(found, ours)
            yield (
                f"| {name} | {method} | {found['error']:.3f} | {found['low']:.2f} .. {found['high']:.2f} | "
                f"{found['row gradients']:.1e} | {found['seconds']:.1f} | {beside} |"
            )


def _beside(found, ours):
    if not _is_near(found["error"], found["low"], found["high"]):
        return "not there"
    seconds, rows = (found[what] / ours[what] for what in ("seconds", "row gradients"))
    return f"{seconds:.2g} times the time, {rows:.2g} times the rows"


def _measured(name, run):
    draws, row_gradients, seconds = run(name)
    error, low, high = error_and_ratios(draws, name)
    return {"error": error, "low": low, "high": high, "row gradients": row_gradients, "seconds": seconds}


def _is_near(error, low, high):
    return error <= NEAR and low >= 1 - AS_WIDE and high <= 1 + AS_WIDE


def _fitted(target, rows_per_step, name=None, **settings):
    """Return draws, row gradients and seconds of a second run, which stops near the truth where a name is given."""

    def near(history):
        draws = np.asarray(history["draws"][-1])
        weights = history["weights"][-1] if "weights" in history else np.ones(len(draws))
        return np.sum(weights) > 0 and _is_near(*error_and_ratios(draws, name, weights))

    if name is not None:
        steps = settings.get("num_steps", 1000)
        settings |= {"stop": near, "record": {"draws": lambda draws: draws}, "record_every": max(10, steps // 100)}
    settings = {"key": 0, "progress": False, "num_steps": 1000, **settings}
    sf.fit(target, **{**settings, "stop": lambda history: True})  # compiles
    clock = time.perf_counter()
    result = sf.fit(target, **settings)
    seconds, info = time.perf_counter() - clock, result.info
    chains = 1 if isinstance(settings.get("method"), sf.SGLD) else len(result.particles)
    read = info["num_steps"] * chains * rows_per_step + info.get("passes", 0.0) * target.data.num_rows
    return np.asarray(result.particles), read, seconds


def anchored(name, *, near):
    problem = problem_of(name)
    return _fitted(problem.posterior(problem.batch_size), problem.batch_size, name if near else None)


def plain(name):
    problem = problem_of(name)
    return _fitted(once(problem), problem.batch_size, name)


def all_rows(name):
    problem = problem_of(name)
    return _fitted(problem.posterior(None), len(problem.data["y"]), name)


def sgld(name, *, with_anchors):
    """Return draws of our own SGLD, on the same minibatches with anchors or without."""
    problem, (mean, sd) = problem_of(name), truth(name)
    target = problem.posterior(problem.batch_size) if with_anchors else once(problem)
    step_size = 2 * SGLD_STEP * float(sd.min()) ** 2  # half of it is the factor of the score
    method = sf.SGLD(step_size=step_size, decay=0, thin=SGLD_STEPS // KEPT)
    start = jnp.tile(jnp.asarray(mean, jnp.float32), (KEPT, 1))  # the chain starts from the first, and keeps as many
    rows = problem.batch_size * (2 if with_anchors else 1)
    return _fitted(target, rows, name, method=method, particles=start, num_steps=SGLD_STEPS)


def _chain(name, start, at_once, at_most):
    """Return the draws of a chain until their mean is near, the gradients of single rows, and seconds.

    Args:
        name: of the posterior.
        start: from a key and the data to the first state and how many rows were differentiated.
        at_once: from a state, a key and the data to the next state, draws and rows differentiated.
        at_most: draws.
    """
    data, key = jax.tree.map(jnp.asarray, problem_of(name).data), jax.random.key(0)
    shapes, _ = jax.eval_shape(start, key, data)
    start, at_once = (
        jax.jit(function).lower(*arguments).compile()
        for function, arguments in ((start, (key, data)), (at_once, (shapes, key, data)))
    )
    clock = time.perf_counter()
    state, rows = start(key, data)
    draws, read = np.zeros((0, problem_of(name).dim)), float(rows)
    while not len(draws) or (not _is_near(*error_and_ratios(draws, name)) and len(draws) < at_most):
        key, here = jax.random.split(key)
        state, new, rows = at_once(state, here, data)
        draws, read = np.append(draws, np.asarray(new, float), axis=0), read + float(rows)
    return draws, read, time.perf_counter() - clock


def nuts(name):
    """Return draws of BlackJAX's NUTS on all rows, from an sd beside the mean."""
    problem, (mean, sd) = problem_of(name), truth(name)
    first, num_rows = jnp.asarray(mean + sd, jnp.float32), float(len(problem.data["y"]))

    def density(data):
        return lambda w: log_prior(w) + jnp.sum(problem.log_likelihood(w, data))

    def start(key, data):
        warm_up = blackjax.window_adaptation(blackjax.nuts, density(data))
        adapted, warming = warm_up.run(key, first, WARM_UP)
        return (adapted.state, adapted.parameters), num_rows * jnp.sum(warming.info.num_integration_steps)

    def at_once(adapted, key, data):
        state, parameters = adapted
        kernel = blackjax.nuts(density(data), **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        state, (draws, leaps) = jax.lax.scan(step, state, jax.random.split(key, NUTS_AT_ONCE))
        return (state, parameters), draws, num_rows * jnp.sum(leaps)

    return _chain(name, start, at_once, DRAWS)


def sgld_of_blackjax(name, *, control_variates):
    """Return draws of BlackJAX's SGLD, its gradients corrected at the mean or not, from the mean."""
    problem, (mean, sd) = problem_of(name), truth(name)
    num_rows, centre = len(problem.data["y"]), jnp.asarray(mean, jnp.float32)
    step_size = SGLD_STEP * float(sd.min()) ** 2

    def log_likelihood(w, row):
        return problem.log_likelihood(w, jax.tree.map(lambda leaf: leaf[None], row))[0]

    def score_there(data):
        return jax.grad(log_prior)(centre) + jax.grad(lambda w: jnp.sum(problem.log_likelihood(w, data)))(centre)

    def start(key, data):
        score = score_there(data) if control_variates else jnp.zeros_like(centre)
        return (centre, score), jnp.asarray(control_variates * num_rows, jnp.float32)

    def at_once(state, key, data):
        position, score = state
        plain = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, num_rows)

        def corrected(position, rows):  # BlackJAX's `control_variates`, with the pass over all rows made once
            return score + plain(position, rows) - plain(centre, rows)

        sgld = blackjax.sgld(corrected if control_variates else plain)

        def step(position, key):
            rows_key, key = jax.random.split(key)
            rows = jax.random.randint(rows_key, (problem.batch_size,), 0, num_rows)
            position = sgld.step(key, position, jax.tree.map(lambda leaf: leaf[rows], data), step_size)
            return position, position

        position, draws = jax.lax.scan(step, position, jax.random.split(key, SGLD_AT_ONCE))
        points = 2 if control_variates else 1
        return (position, score), draws, jnp.asarray(SGLD_AT_ONCE * problem.batch_size * points, jnp.float32)

    return _chain(name, start, at_once, SGLD_STEPS)


METHODS = {  # the others are compared with the first, which knows no truth and is mostly closer to it
    "SVGD, anchored minibatches, to its own end": functools.partial(anchored, near=False),
    "SVGD, anchored minibatches": functools.partial(anchored, near=True),
    "SVGD, plain minibatches": plain,
    "SVGD, all rows": all_rows,
    "NUTS of BlackJAX, all rows": nuts,
    "SGLD, anchored": functools.partial(sgld, with_anchors=True),
    "SGLD, plain": functools.partial(sgld, with_anchors=False),
    "SGLD of BlackJAX, control variates": functools.partial(sgld_of_blackjax, control_variates=True),
    "SGLD of BlackJAX, plain": functools.partial(sgld_of_blackjax, control_variates=False),
}
