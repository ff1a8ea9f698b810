"""Every constant of the default, halved and doubled: what changes.

Constants are patched where they are defined, and everything is compiled again for each value.
"""

import contextlib
import importlib
import math
from unittest import mock

import jax
import numpy as np

import steinflow as sf
from benchmarks.accuracy.problems import PROBLEMS
from benchmarks.accuracy.rows import kept, truth
from benchmarks.pages import put
from steinflow.stein.bandwidths import Wide
from steinflow.stein.kernels import Centered, Linear, Multiquadric

TARGETS = (
    "gaussian d=10, 1000 sd away, narrow start",
    "paper's mixture from N(-10, 1)",
    "mixture d=5, 4 sds apart",
    "banana",
    "student t(5), d=10",
    "funnel, d=10",
    "eight schools",
    "logistic german",
)
KEYS, OTHER_KEYS = range(3), range(3, 6)
NUM_PARTICLES, NUM_STEPS = 100, 1000
_EXACT, _SEEN = 1e-3, 1.005  # errors and changes of errors: less is nothing


def _flow(**changes):
    return sf.SVGD(optimizer=sf.svgd.Adaptive(**changes), exploration=sf.svgd.Microcanonical())


def _walk(**changes):
    return sf.SVGD(exploration=sf.svgd.Microcanonical(**changes))


def _linear(share):
    kernel = Centered(Multiquadric(Wide()) + share * Linear())
    return sf.SVGD(kernel, exploration=sf.svgd.Microcanonical())


# Arguments of the method: their value, and the method with another.
ARGUMENTS = {
    "share of the linear kernel": (0.02, _linear),
    "first step size": (0.1, lambda value: _flow(start=value)),
    "growth of the step": (0.15, lambda value: _flow(growth=value)),
    "longest move": (0.5, lambda value: _flow(longest=value)),
    "steps to settle": (300.0, lambda value: _flow(settling=value)),
    "error of energy": (5e-5, lambda value: _walk(energy_error=value)),
    "way of a direction, in √d": (3.0, lambda value: _walk(way=value)),
    "first step of the walk, in √d": (0.1, lambda value: _walk(first_step=value)),
}
# Those of a module, of `methods/svgd` if nothing else is said.
PLACES = {
    "bandwidth: reach": ("stein.bandwidths._REACH",),
    "bandwidth: narrower in few dimensions": ("stein.bandwidths._NARROWER",),
    "correlations of the cloud shrunk by, in d per n": ("metrics._SHRUNK",),
    "a shift strides from a cosine of": ("steps._STRAIGHT",),
    "a striding shift grows by": ("steps._LONGER",),
    "least arrival, in steps": ("phases._LEAST_ARRIVAL",),
    "longest score, in radii": ("arrival._TRUST",),
    "scores whose median is that of all": ("arrival._SOME",),
    "arrived: mean, in sds": ("arrival._OFF",),
    "arrived: factor of the variance": ("arrival._WIDTH",),
    "astray: nats beside log 10 per dimension": ("arrival._CHANCE",),
    "steps of the scouts": ("scouts.NUM_STEPS", "phases.NUM_STEPS"),
    "first step of a scout, in sds": ("scouts._FIRST",),
    "one of so many follows the scouts": ("scouts._OTHERS",),
    "a particle counts for at most": ("exploration._STIFFEST",),
    "much more curved: by a factor of": ("exploration._CURVED",),
    "least curvature": ("exploration._FLATTEST",),
    "part of the way that coordinates follow": ("coordinates._FOLLOWING",),
    "coordinates change when longer by": ("coordinates._LATER",),
    "R-hat that ends the warm-up": ("memory._MIXED",),
    "a mean may still move by, in sds": ("memory._MOVED",),
    "states that are kept": ("memory._STATES",),
    "lost chains: nats": ("recollection._NO_MASS",),
    "R-hat up to which nobody looks for modes": ("recollection._ONE_MODE",),
    "error that ends a run, in sds": ("recollection._PRECISE",),
    "control functionals: states": ("functionals._FITTED",),
    "control functionals: ridge": ("functionals._RIDGE",),
    "iterations of support points": ("support._ITERATIONS",),
    "steps of Gauss-Newton": ("user_space._NEWTON_STEPS",),
}
RATIOS = {  # halved and doubled is what they exceed 1 by
    "arrived: factor of the variance",
    "coordinates change when longer by",
    "R-hat that ends the warm-up",
    "R-hat up to which nobody looks for modes",
    "a striding shift grows by",
}


def constants(words):
    """Print the table; without words, put it into the page, and with some only the rows of these constants."""
    chosen = [name for name in (*ARGUMENTS, *PLACES) if not words or name in words]
    default = kept("constants, the default", _errors, sf.SVGD(), KEYS)
    chance = kept("constants, the default with other keys", _errors, sf.SVGD(), OTHER_KEYS)
    lines = [
        "| constant | value | halved: typical error | worst target | doubled: typical error | worst target |",
        "|---|---|---|---|---|---|",
        f"| none: other keys | | {' | '.join(_compared(chance, default))} | | |",
    ]
    for name in chosen:
        cells = [name, f"{_value(name):g}"]
        for factor in (0.5, 2.0):
            cells += _compared(kept(f"constants, {name}, {factor}", _varied, name, factor), default)
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if not words:
        put("docs/tuning-free.md", "constants", "\n".join([*lines, ""]))


def _compared(errors, default):
    ratios = {name: max(errors[name], _EXACT) / max(default[name], _EXACT) for name in TARGETS}
    worst = max(ratios, key=lambda name: ratios[name])
    typical = math.exp(np.mean(np.log(list(ratios.values()))))
    return f"{typical:.2f}", f"{ratios[worst]:.2f}, {worst}" if ratios[worst] > _SEEN else ""


def _value(name):
    if name in ARGUMENTS:
        return ARGUMENTS[name][0]
    module, attribute = _place(PLACES[name][0])
    return getattr(module, attribute)


def _place(path):
    module, attribute = path.rsplit(".", 1)
    room = "steinflow" if "." in module else "steinflow.methods.svgd"
    return importlib.import_module(f"{room}.{module}"), attribute


def _varied(name, factor):
    """Return the errors with another value of this constant."""
    value = _value(name)
    other = 1 + factor * (value - 1) if name in RATIOS else type(value)(max(factor * value, 1e-9))
    jax.clear_caches()
    with contextlib.ExitStack() as stack:
        if name in ARGUMENTS:
            return _errors(ARGUMENTS[name][1](other), KEYS)
        for path in PLACES[name]:
            stack.enter_context(mock.patch.object(*_place(path), other))
        return _errors(sf.SVGD(), KEYS)


def _errors(method, keys):
    """Return on every target the error of mean (in sds) and log sd, root mean square over coordinates and keys."""
    return {name: _error(name, method, keys) for name in TARGETS}


def _error(name, method, keys):
    problem = PROBLEMS[name]()
    mean, covariance = truth(name, problem)
    sd, squares = np.sqrt(np.diag(covariance)), []
    for key in keys:
        start = problem.particles(NUM_PARTICLES)
        result = sf.fit(problem.log_density, method, particles=start, num_steps=NUM_STEPS, key=key, progress=False)
        values = np.asarray(jax.vmap(problem.quantities)(result.particles), float)
        errors, ratios = (values.mean(axis=0) - mean) / sd, np.maximum(values.std(axis=0) / sd, 1e-6)
        squares.append(np.mean(errors**2) + np.mean(np.log(ratios) ** 2))
    return float(np.sqrt(np.mean(squares)))
