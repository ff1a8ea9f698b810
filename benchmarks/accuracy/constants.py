"""Every constant of the default, halved and doubled: what changes.

Constants are arguments of compiled code here, so that all their values share one program for a target. The loop is a
loop of our own, around `init`, `step` and `draws`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import kept, truth
from benchmarks.pages import put

TARGETS = (
    "gaussian d=20, condition 10^3",
    "gaussian d=10, 1000 sd away, narrow start",
    "paper's mixture from N(-10, 1)",
    "mixture d=5, 4 sds apart",
    "banana",
    "student t(5), d=10",
    "laplace, d=5",
    "funnel, d=10",
    "eight schools",
    "logistic german",
    "poisson d=8",
)
CONSTANTS = {
    "share of the linear kernel": lambda method: method.kernel.kernel.terms[1].factor,
    "first step size": lambda method: method.step_rule.start,
    "growth of the step": lambda method: method.step_rule.growth,
    "longest move": lambda method: method.step_rule.longest,
    "steps to settle": lambda method: method.step_rule.settling,
    "error of energy": lambda method: method.exploration.energy_error,
}
KEYS, NUM_PARTICLES, NUM_STEPS = 3, 100, 1000


def constants(words):
    """Print the table; without words, put it into the page."""
    found = {name: kept(f"constants {name}", _errors, name) for name in TARGETS if not words or name in words}
    lines = [
        "| constant | value | halved: typical error | worst target | doubled: typical error | worst target |",
        "|---|---|---|---|---|---|",
    ]
    for constant, at in CONSTANTS.items():
        cells = [constant, f"{at(sf.SVGD()):g}"]
        for factor in ("0.5", "2.0"):
            ratios = {name: errors[constant][factor] / errors["default"] for name, errors in found.items()}
            worst = max(ratios, key=lambda name: ratios[name])
            cells += [f"{np.exp(np.mean(np.log(list(ratios.values())))):.2f}", f"{ratios[worst]:.2f}, {worst}"]
        lines.append("| " + " | ".join(cells) + " |")
    print(*lines, sep="\n")
    if not words:
        put("docs/tuning-free.md", "constants", "\n".join([*lines, ""]))


def _errors(name):
    """Return the error of the default and of every variant on one target."""
    problem = PROBLEMS[name]()
    exact = truth(name, problem)
    flat, start = sf.flatten(problem.log_density, problem.particles(NUM_PARTICLES))
    default = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32) if isinstance(leaf, float) else leaf, sf.SVGD())

    def error(method):
        return _error(problem, exact, np.asarray(_particles(method, flat, start)))

    def variants(at):
        return {str(factor): error(eqx.tree_at(at, default, factor * at(default))) for factor in (0.5, 2.0)}

    return {"default": error(default), **{constant: variants(at) for constant, at in CONSTANTS.items()}}


@eqx.filter_jit
def _particles(method, flat, start):
    def run(key):
        state = method.init(flat, start, num_steps=NUM_STEPS, key=key)

        def body(step, state):
            time = sf.Time(step, jnp.asarray(NUM_STEPS))
            return method.step(flat, state, None, time=time, key=jax.random.fold_in(key, step))

        return method.draws(flat, jax.lax.fori_loop(0, NUM_STEPS, body, state), key=key).particles

    return jax.lax.map(run, jax.random.split(jax.random.key(0), KEYS))


def _error(problem, exact, clouds):
    """Return the error of mean (in sds) and log sd, root mean square over coordinates and keys."""
    mean, covariance = exact
    sd = np.sqrt(np.diag(covariance))
    values = np.asarray(jax.vmap(jax.vmap(problem.quantities))(clouds), float)
    means, ratios = (values.mean(axis=1) - mean) / sd, values.std(axis=1) / sd
    return float(np.sqrt(np.mean(means**2) + np.mean(np.log(np.maximum(ratios, 1e-6)) ** 2)))
