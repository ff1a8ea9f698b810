"""Figure 3: Bayesian logistic regression on Covertype, 581,012 rows, by minibatches of 50.

Features are scaled to [0, 1]; the paper does not say what it did, and raw features do not train. The step size of every
method is the best of a grid, by log-likelihood on a tenth of the training rows of a split that no trial uses.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import steinflow as sf
from steinflow.paper import covertype_page, datasets
from steinflow.paper.authors import large_start
from steinflow.paper.fits import DEFAULT, PAPER, fit, paper_svgd
from steinflow.paper.parts import Experiment, Part
from steinflow.typing import PRNGKeyArray

_TUNING_SPLIT = 1_000_000  # the seed of a split that is not one of the trials


@dataclasses.dataclass(frozen=True)
class Method:
    """How often a method is looked at, and the step sizes to choose from (None: nothing to choose)."""

    num_steps: int
    record_every: int
    step_sizes: tuple[float, ...] | None


@dataclasses.dataclass(frozen=True)
class Config:
    """The paper's grids of steps; 50 trials."""

    num_trials: int = 50
    num_particles: int = 100
    batch_size: int = 50
    tuning_steps: int = 3000
    particle_numbers: tuple[int, ...] = (1, 10, 50, 250)
    particle_steps: int = 3000
    max_rows: int | None = None  # fewer than all of the rows, for the quick version
    methods: tuple[tuple[str, Method], ...] = (
        (PAPER, Method(18_000, 1000, (5e-4, 1.5e-3, 5e-3, 1.5e-2, 5e-2))),
        (DEFAULT, Method(18_000, 3000, None)),
        ("parallel SGLD", Method(18_000, 1000, (5e-3, 1.5e-2, 5e-2, 0.15, 0.5))),
        ("SGLD", Method(60_000, 3000, (5e-5, 1.5e-4, 5e-4, 1.5e-3, 5e-3))),
        ("PMD", Method(18_000, 3000, (3e3, 1e4, 3e4, 1e5, 3e5))),
        ("DSVI", Method(18_000, 3000, (0.05, 0.15, 0.5, 1.5))),
    )


def _decaying(step_size, updates, step, params=None):
    """The paper's steps on this set, a (t + 1)^-0.55, without AdaGrad."""
    return jax.tree.map(lambda u: (-step_size * (1.0 + step) ** -0.55 * u).astype(u.dtype), updates), step + 1


def _plain_steps(step_size: float) -> optax.GradientTransformation:
    # The step size is a leaf, not a constant: all of them share compiled code.
    update = jax.tree_util.Partial(_decaying, jnp.asarray(step_size))
    return optax.GradientTransformation(_first_step, update)


def _first_step(params):
    return jnp.zeros((), jnp.int32)


def _method(name: str, step_size: float | None, num_rows: int) -> sf.Method:
    if step_size is None:
        return sf.SVGD()
    return {
        PAPER: lambda: paper_svgd(_plain_steps(step_size)),
        "parallel SGLD": lambda: sf.ParallelSGLD(step_size),
        "SGLD": lambda: sf.SGLD(step_size),
        "PMD": lambda: sf.PMD(step_size / num_rows),
        "DSVI": lambda: sf.DSVI(step_size=step_size),
    }[name]()


@functools.cache
def _rows(max_rows: int | None) -> datasets.Dataset:
    data = datasets.load("covertype")
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    X = ((data.X - low) / np.maximum(high - low, 1)).astype(np.float32)
    chosen = slice(None) if max_rows is None else np.random.default_rng(0).permutation(len(X))[:max_rows]
    return datasets.Dataset("covertype", X[chosen], data.y[chosen], round(0.8 * len(X[chosen])))


@functools.lru_cache(maxsize=1)
def _split(trial: int, max_rows: int | None, batch_size: int):
    """Return the model of a trial and its test rows; in the split for tuning, a tenth of the training rows tests."""
    train, test = _rows(max_rows).split(trial)
    if trial == _TUNING_SPLIT:
        held_out = len(train[1]) // 10
        train, test = tuple(a[:-held_out] for a in train), tuple(a[-held_out:] for a in train)
    model = sf.models.LogisticRegression(*train, batch_size=batch_size)
    return model, (jnp.asarray(test[0]), jnp.asarray(test[1], jnp.float32))


def _start(model, name: str, num_particles: int, key: PRNGKeyArray):
    keys = jax.random.split(key, num_particles)
    particles = jax.vmap(functools.partial(large_start, model))(keys)
    if name == "DSVI":  # its authors start q at the origin
        return jax.tree.map(jnp.zeros_like, particles)
    # As in the paper: PMD would be lost with weights as large as those of the others.
    return {**particles, "w": particles["w"] / 10} if name == "PMD" else particles


@eqx.filter_jit
def _evaluate(w, log_weights, X, y):
    """Return accuracy and mean log-likelihood of the averaged predictions."""

    def block(rows):
        X, y = rows
        margins = y[:, None] * (X @ w[:, :-1].T + w[:, -1])
        return jax.nn.logsumexp(jax.nn.log_sigmoid(margins) + log_weights, axis=1)

    size = 4096  # rows at once: larger blocks leave the cache
    whole = len(y) // size * size
    blocks = jax.lax.map(block, (X[:whole].reshape(-1, size, X.shape[1]), y[:whole].reshape(-1, size)))
    values = jnp.concatenate([blocks.ravel(), block((X[whole:], y[whole:]))])
    return jnp.mean(values > jnp.log(0.5)), jnp.mean(values)


def _weights(particles):
    return particles["w"]


def _curve(name, step_size, trial, config, *, num_particles, num_steps, record_every) -> dict:
    """Run a method; return its figures on the test rows on the way."""
    model, (X, y) = _split(trial, config.max_rows, config.batch_size)
    start_key, key = jax.random.split(jax.random.key(trial % 1000))
    result = fit(
        model,
        _method(name, step_size, model.data.num_rows),
        particles=_start(model, name, num_particles, start_key),
        num_steps=num_steps,
        key=key,
        record={"w": _weights},  # the same function in all trials, so that they share compiled code
        record_every=record_every,
    )
    figures = []
    for i, w in enumerate(result.history["w"]):
        weights = result.history["weights"][i] if "weights" in result.history else np.full(len(w), 1 / len(w))
        figures.append([float(v) for v in _evaluate(jnp.asarray(w), jnp.log(jnp.asarray(weights)), X, y)])
    accuracy, log_likelihood = zip(*figures, strict=True)
    return {
        "steps": result.history["step"].tolist(),
        "epochs": (result.history["step"] * config.batch_size / model.data.num_rows).tolist(),
        "accuracy": accuracy,
        "log_likelihood": log_likelihood,
        "seconds": result.info["seconds"],
    }


def _tune(name: str, method: Method, config: Config) -> dict:
    steps = {"num_particles": config.num_particles, "num_steps": config.tuning_steps}
    found = {}
    for step_size in method.step_sizes or ():
        curve = _curve(name, step_size, _TUNING_SPLIT, config, **steps, record_every=config.tuning_steps)
        value = curve["log_likelihood"][-1]
        found[step_size] = value if np.isfinite(value) else -np.inf
    best = max(found, key=lambda step_size: found[step_size])
    return {"tuned": name, "step_size": best, "log_likelihoods": list(found.items())}


def _parts(config: Config) -> list[Part]:
    shared = {key: getattr(config, key) for key in ("num_particles", "batch_size", "tuning_steps", "max_rows")}
    methods = dict(config.methods)
    parts = []
    for name, method in methods.items():
        if method.step_sizes:
            settings = {**shared, "tune": name, "step_sizes": method.step_sizes}
            parts.append(Part(f"step size of {name}", settings, lambda _, n=name, m=method: _tune(n, m, config)))

    def needs(name):
        return (f"step size of {name}",) if methods[name].step_sizes else ()

    def step_size(taken, name):
        return taken[f"step size of {name}"]["step_size"] if methods[name].step_sizes else None

    def trial_part(name, trial):
        method = methods[name]
        settings = {**shared, "method": name, "trial": trial, **dataclasses.asdict(method)}

        def compute(taken):
            steps = {"num_steps": method.num_steps, "record_every": method.record_every}
            curve = _curve(name, step_size(taken, name), trial, config, num_particles=config.num_particles, **steps)
            return {"method": name, "trial": trial, **curve}

        return Part(f"{name}, trial {trial}", settings, compute, needs(name))

    def particles_part(name, trial):
        numbers, num_steps = config.particle_numbers, config.particle_steps
        settings = {
            **shared, "numbers_of": name, "trial": trial, "num_steps": num_steps, "particle_numbers": numbers,
            "step_sizes": methods[name].step_sizes,
        }  # fmt: skip

        def compute(taken):
            size, steps = step_size(taken, name), {"num_steps": num_steps, "record_every": num_steps}
            curves = [_curve(name, size, trial, config, num_particles=n, **steps) for n in numbers]
            ends = {key: [curve[key][-1] for curve in curves] for key in ("accuracy", "log_likelihood")}
            return {"numbers_of": name, "trial": trial, "numbers": numbers, **ends}

        return Part(f"{name} by particles, trial {trial}", settings, compute, needs(name))

    for trial in range(config.num_trials):
        parts += [trial_part(name, trial) for name in methods]
        parts += [particles_part(name, trial) for name in (PAPER, DEFAULT, "parallel SGLD") if name in methods]
    return parts


EXPERIMENT = Experiment(
    title="Figure 3: Covertype",
    summary="logistic regression on 581,012 rows",
    full=Config(),
    quick=Config(
        num_trials=1,
        max_rows=50_000,
        tuning_steps=500,
        particle_numbers=(10, 100),
        particle_steps=1000,
        methods=tuple(
            (name, dataclasses.replace(m, num_steps=m.num_steps // 9, record_every=m.record_every // 3))
            for name, m in Config().methods
        ),
    ),
    parts=_parts,
    draw=covertype_page.draw,
    page=covertype_page.page,
)
