"""Who takes part: functions of a problem and a key that return an `Answer`.

All see the same density, in float32 unless they say otherwise.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.posteriordb import models
from benchmarks.posteriordb.models import Problem

NUM_PARTICLES = 100
NUM_DRAWS = 1000  # of NUTS after as many steps of warm-up, and from Pathfinder's approximation
NUM_MCLMC_STEPS = 20_000
MCLMC_GRADIENTS = 2  # that a step of its integrator takes


class Answer(NamedTuple):
    """Draws of the reported parameters as rows, what they cost, and what the contender says of itself.

    Where `compiling` is None, the seconds of the first run in a process contain it.
    """

    scalars: np.ndarray
    weights: np.ndarray
    gradients: int | None
    seconds: float
    compiling: float | None
    remarks: dict[str, Any]


def steinflow(problem: Problem, key: int, num_steps: int | None = None) -> Answer:
    """The defaults of `sf.fit`, from Stan's starting points; `num_steps` is for experiments."""
    start, run_key = _start(problem, key)
    steps: dict[str, Any] = {} if num_steps is None else {"num_steps": num_steps}
    clock = time.perf_counter()
    result = sf.fit(problem.target, particles=start, key=run_key, progress=False, **steps)
    seconds = time.perf_counter() - clock
    gradients = int(result.info.get("gradients", len(result) * result.info["num_steps"]))
    verdict = result.verdict
    remarks = {"verdict": verdict.level, "reasons": verdict.reasons, "outcome": result.outcome.value}
    return Answer(problem.scalars(result.particles), result.probabilities, gradients, seconds, None, remarks)


def nuts(problem: Problem, key: int) -> Answer:
    """One chain: 1,000 draws after 1,000 steps of window adaptation, whose gradients count too."""

    def chain(flat, x, key):
        warmup_key, draw_key = jax.random.split(key)
        warmup: Any = blackjax.window_adaptation(blackjax.nuts, flat.log_density)
        (state, parameters), adaptation = warmup.run(warmup_key, x, NUM_DRAWS)
        kernel: Any = blackjax.nuts(flat.log_density, **parameters)

        def draw(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps, info.is_divergent)

        draws, steps, divergent = jax.lax.scan(draw, state, jax.random.split(draw_key, NUM_DRAWS))[1]
        gradients = jnp.sum(steps) + jnp.sum(adaptation.info.num_integration_steps)
        return draws, gradients, {"divergent": jnp.sum(divergent)}

    return _from_one_point(chain, problem, key)


def mclmc(problem: Problem, key: int) -> Answer:
    """Microcanonical Langevin Monte Carlo, unadjusted: BlackJAX's own tuning, then 20,000 steps."""

    def chain(flat, x, key):
        init_key, tuning_key, draw_key = jax.random.split(key, 3)
        state = blackjax.mclmc.init(x, flat.log_density, init_key)
        state, tuned, num_tuning_steps = blackjax.mclmc_find_L_and_step_size(
            blackjax.mclmc.build_kernel(), NUM_MCLMC_STEPS, state, tuning_key, logdensity_fn=flat.log_density
        )
        kernel: Any = blackjax.mclmc(
            flat.log_density, L=tuned.L, step_size=tuned.step_size, inverse_mass_matrix=tuned.inverse_mass_matrix
        )

        def draw(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        draws = jax.lax.scan(draw, state, jax.random.split(draw_key, NUM_MCLMC_STEPS))[1]
        gradients = MCLMC_GRADIENTS * (NUM_MCLMC_STEPS + jnp.asarray(num_tuning_steps))
        return draws, gradients, {"step size": tuned.step_size, "L": tuned.L}

    return _from_one_point(chain, problem, key)


def mclmc_in_double_precision(problem: Problem, key: int) -> Answer:
    """The same in float64: in float32 and far from the posterior, its tuning shrinks the step to zero."""
    with jax.enable_x64(True):
        return mclmc(models.problem(problem.name), key)


def pathfinder(problem: Problem, key: int) -> Answer:
    """One path: the best Gaussian on the way of L-BFGS, which does not say how many gradients its searches took."""

    def chain(flat, x, key):
        path_key, draw_key = jax.random.split(key)
        state, _ = blackjax.pathfinder.approximate(path_key, flat.log_density, x)
        return blackjax.pathfinder.sample(draw_key, state, NUM_DRAWS)[0], None, {"elbo": state.elbo}

    return _from_one_point(chain, problem, key)


def _from_one_point(chain: Callable, problem: Problem, key: int) -> Answer:
    """Run a chain from the first particle where the density is finite: Stan, too, draws again where it is not."""
    start, run_key = _start(problem, key)
    flat, x = sf.flatten(problem.target, start)
    finite = flat.finite(*eqx.filter_jit(flat.log_densities_and_scores)(x))
    point = x[int(np.argmax(np.asarray(finite)))]
    clock = time.perf_counter()
    jitted: Any = eqx.filter_jit(chain)
    compiled = jitted.lower(flat, point, run_key).compile()
    compiling, clock = time.perf_counter() - clock, time.perf_counter()
    draws, gradients, remarks = jax.block_until_ready(compiled(flat, point, run_key))
    seconds = time.perf_counter() - clock
    scalars = problem.scalars(eqx.filter_jit(flat.to_user)(draws))
    weights = np.full(len(scalars), 1 / len(scalars))
    gradients = None if gradients is None else int(gradients)
    return Answer(scalars, weights, gradients, seconds, compiling, {name: float(x) for name, x in remarks.items()})


def _start(problem, key):
    start_key, run_key = jax.random.split(jax.random.key(key))
    return problem.start(start_key, NUM_PARTICLES), run_key


CONTENDERS: dict[str, Callable[..., Answer]] = {
    "steinflow": steinflow,
    "NUTS": nuts,
    "Pathfinder": pathfinder,
    "MCLMC": mclmc,
    "MCLMC-float64": mclmc_in_double_precision,
}
NUM_KEYS = {who: 3 if who == "steinflow" else 1 for who in CONTENDERS}
