"""Who takes part: functions of a problem, its truth and a number of particles that say how good their particles are."""

import contextlib
import io
import logging
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax

import steinflow as sf

LEVELS = ("good", "doubtful", "bad")
STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 1.0)
NUM_STEPS = 1000


def figures(problem, truth, particles, seconds, evaluations):
    """Error of the mean in sds (rms), sd ratios, worst error of a correlation, share of the first mode."""
    values = np.asarray(jax.vmap(problem.quantities)(particles), float)
    if not np.all(np.isfinite(values)):
        return {"error": np.inf, "ratio": [0.0, np.inf], "correlation": np.inf, "seconds": seconds}
    mean, covariance = truth
    sd = np.sqrt(np.diag(covariance))
    ratio = values.std(axis=0) / sd
    correlations = np.cov(values, rowvar=False).reshape(len(sd), -1) / np.outer(sd, sd) / np.outer(ratio, ratio)
    found = {
        "error": float(np.sqrt(np.mean(((values.mean(axis=0) - mean) / sd) ** 2))),
        "ratio": [float(ratio.min()), float(ratio.max())],
        "ratio_rms": float(np.sqrt(np.mean(np.log(np.maximum(ratio, 1e-6)) ** 2))),
        "correlation": float(np.max(np.abs(correlations - covariance / np.outer(sd, sd)))),
        "seconds": seconds,
        "evaluations": evaluations,
    }
    if problem.mode is not None:
        found["mode"] = float(np.mean(np.asarray(jax.vmap(problem.mode[0])(particles))))
    return found


def svgd(problem, truth, num_particles, method, num_steps=NUM_STEPS, *, double=False, key=0):
    """A run of steinflow, with what its result says of itself."""
    with jax.enable_x64(double):
        start = problem.particles(num_particles, np.float64 if double else np.float32)
        clock = time.perf_counter()
        target = problem.log_density if problem.target is None else problem.target
        result = sf.fit(target, method, particles=start, num_steps=num_steps, key=key, progress=False)
        seconds = time.perf_counter() - clock
        found = figures(problem, truth, result.particles, seconds, num_particles * num_steps)
        verdict = result.verdict
        return {
            **found,
            "ksd": result.ksd,
            "dispersion": [float(np.min(result.dispersion)), float(np.max(result.dispersion))],
            "outcome": result.outcome.value,
            "verdict": verdict.level,
            "reasons": verdict.reasons,
        }


def steinflow(problem, truth, num_particles, method=sf.SVGD()):
    """Three runs that differ by their key: the root mean square of their errors, the worst of all else."""
    runs = [svgd(problem, truth, num_particles, method, key=key) for key in range(3)]
    lows, highs = zip(*(run["ratio"] for run in runs), strict=True)
    return {
        **max(runs, key=lambda run: LEVELS.index(run["verdict"])),
        "error": float(np.sqrt(np.mean([run["error"] ** 2 for run in runs]))),
        "ratio": [min(lows), max(highs)],
        "correlation": max(run["correlation"] for run in runs),
    }


def steinflow_double(problem, truth, num_particles):
    return svgd(problem, truth, num_particles, sf.SVGD(), double=True)


def paper(problem, truth, num_particles):
    """The best of five step sizes, chosen by looking at the truth, which no user can."""
    runs = {step: svgd(problem, truth, num_particles, sf.SVGD.paper(step)) for step in STEP_SIZES}
    best = min(runs, key=lambda step: runs[step]["error"] + max(abs(np.log(np.maximum(runs[step]["ratio"], 1e-6)))))
    return {**runs[best], "step_size": best}


def blackjax_svgd(problem, truth, num_particles, step_size=0.1):
    """BlackJAX's, AdaGrad; the paper's kernel and bandwidth."""
    if problem.target is not None:
        return None
    algorithm = blackjax.svgd(jax.grad(problem.log_density), optax.adagrad(step_size))
    state = algorithm.init(jnp.asarray(problem.particles(num_particles)), {"length_scale": jnp.ones(())})
    clock = time.perf_counter()
    state = jax.jit(lambda state: jax.lax.fori_loop(0, NUM_STEPS, lambda _, s: algorithm.step(s), state))(state)
    particles = jax.block_until_ready(state.particles)
    return figures(problem, truth, particles, time.perf_counter() - clock, num_particles * NUM_STEPS)


def numpyro_svgd(problem, truth, num_particles, step_size=0.1):
    """NumPyro's, AdaGrad; it starts from draws of N(0, I), and is left out where a problem starts elsewhere."""
    import numpyro
    from numpyro import distributions
    from numpyro.contrib.einstein import SVGD, RBFKernel

    if problem.target is not None or problem.start.__name__ != "standard":
        return None

    def model():
        x = numpyro.sample("x", distributions.Normal(jnp.zeros(problem.dim), 1.0).to_event(1))
        numpyro.factor("log_density", problem.log_density(x) + 0.5 * x @ x)

    inference = SVGD(
        model,
        numpyro.optim.Adagrad(step_size),
        RBFKernel(),
        num_stein_particles=num_particles,
        guide_kwargs={"init_loc_fn": numpyro.infer.init_to_sample},
    )
    clock = time.perf_counter()
    state = inference.init(jax.random.key(0))
    state = jax.jit(lambda state: jax.lax.fori_loop(0, NUM_STEPS, lambda _, s: inference.update(s)[0], state))(state)
    particles = jax.block_until_ready(next(iter(inference.get_params(state).values())))
    return figures(problem, truth, particles, time.perf_counter() - clock, num_particles * NUM_STEPS)


def pymc_svgd(problem, truth, num_particles, step_size=0.1):
    """PyMC's, AdaGrad, on Gaussians only: it takes its own distributions."""
    import pymc
    import pytensor

    pytensor.config.floatX = "float32"
    logging.getLogger("pymc").setLevel(logging.ERROR)
    mean, covariance = truth
    clock = time.perf_counter()
    with pymc.Model(), contextlib.redirect_stdout(io.StringIO()):
        if np.allclose(covariance, np.diag(np.diag(covariance))):
            pymc.Normal("x", mean.astype(np.float32), np.sqrt(np.diag(covariance)).astype(np.float32), shape=len(mean))
        else:
            pymc.MvNormal("x", mean, covariance)
        inference = pymc.SVGD(n_particles=num_particles, jitter=1, random_seed=0)
        step = inference.objective.step_function(obj_optimizer=pymc.adagrad(learning_rate=step_size), score=False)
        for _ in range(NUM_STEPS):
            step()
        particles = inference.approx.params[0].eval()
    return figures(problem, truth, jnp.asarray(particles), time.perf_counter() - clock, num_particles * NUM_STEPS)


def nuts(problem, truth, num_particles=1000, seed=0):
    """1,000 draws of one chain after 1,000 steps of adaptation, whose evaluations count too."""
    draws, evaluations, seconds = nuts_draws(problem, 1000, jax.random.key(seed))
    return figures(problem, truth, draws, seconds, evaluations)


def nuts_draws(problem, num_draws, key, num_warmup=1000):
    def chain(key):
        warmup_key, draw_key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, problem.log_density)
        (state, parameters), information = adaptation.run(warmup_key, jnp.zeros(problem.dim), num_warmup)
        kernel = blackjax.nuts(problem.log_density, **parameters)

        def draw(state, key):
            state, information = kernel.step(key, state)
            return state, (state.position, information.num_integration_steps)

        draws, steps = jax.lax.scan(draw, state, jax.random.split(draw_key, num_draws))[1]
        return draws, jnp.sum(steps) + jnp.sum(information.info.num_integration_steps)

    compiled = jax.jit(chain).lower(key).compile()
    clock = time.perf_counter()
    draws, evaluations = jax.block_until_ready(compiled(key))
    return draws, int(evaluations), time.perf_counter() - clock


CONTENDERS = {
    "steinflow": steinflow,
    "float64": steinflow_double,
    "paper": paper,
    "BlackJAX": blackjax_svgd,
    "NumPyro": numpyro_svgd,
    "NUTS": nuts,
}
