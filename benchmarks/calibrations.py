"""Simulation-based calibration of three models and of three broken ones: `python -m benchmarks.many --calibration`.

A right model has to pass, in bands that hold for all parameters together at 95%. A broken one has to fail, and its plot
has to show how: a prior of the wrong width, a sign in the likelihood, and the paper's SVGD, whose spread is too small.
"""

import datetime
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import steinflow as sf

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "calibration-measured.md"
SIGMA = np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)
X = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
TIMES = np.linspace(-2, 2, 12, dtype=np.float32)


class Case(NamedTuple):
    """What is simulated, what is fitted, how, and whether that is right."""

    name: str
    simulated: Callable
    fitted: Callable
    data: np.ndarray
    method: sf.Method | None = None
    right: bool = True


def eight_schools(y, sign=1.0):
    """Non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("schools", 8):
        effects = numpyro.sample("effects", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + sign * tau * effects, SIGMA), obs=y)


def poisson(y, width=1.0):
    """A regression of counts."""
    intercept = numpyro.sample("intercept", dist.Normal(1, 0.5))
    slopes = numpyro.sample("slopes", dist.Normal(0, width * 0.5).expand([3]).to_event(1))
    numpyro.sample("y", dist.Poisson(jnp.exp(intercept + X @ slopes)), obs=y)


def gaussian_process(y):
    """Length scale, signal and noise of a Gaussian process."""
    length, signal, noise = (
        numpyro.sample(name, dist.LogNormal(centre, 0.5))
        for name, centre in (("length", -0.5), ("signal", 0.0), ("noise", -1.0))
    )
    squares = (TIMES[:, None] - TIMES) ** 2
    covariance = signal**2 * jnp.exp(-0.5 * squares / length**2) + noise**2 * jnp.eye(len(TIMES))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(TIMES)), covariance), obs=y)


SCHOOLS, COUNTS, CURVE = np.zeros(8, np.float32), np.zeros(50, np.int32), np.zeros(len(TIMES), np.float32)
CASES = [
    Case("eight schools, non-centred", eight_schools, eight_schools, SCHOOLS),
    Case("Poisson regression", poisson, poisson, COUNTS),
    Case("Gaussian process", gaussian_process, gaussian_process, CURVE),
    Case("prior half as wide", poisson, lambda y: poisson(y, width=0.5), COUNTS, right=False),
    Case("sign of the effects", eight_schools, lambda y: eight_schools(y, sign=-1.0), SCHOOLS, right=False),
    Case("the paper's SVGD", eight_schools, eight_schools, SCHOOLS, sf.SVGD.paper(), right=False),
]


def calibrated(case: Case, number: int, *, write: bool) -> tuple[str, str]:
    """Calibrate one of them; return its row of the page and its section, for which its plot is written."""
    simulated, fitted = (sf.from_numpyro(model, jnp.asarray(case.data)) for model in (case.simulated, case.fitted))
    clock = time.perf_counter()
    found = sf.calibrate(
        fitted.given,
        case.method,
        prior=simulated.sample_prior,
        simulate=simulated.simulate,
        number=number,
        progress=False,
    )
    seconds = time.perf_counter() - clock
    print(case.name, found, f"{seconds:.0f} s", sep="\n", flush=True)
    file = f"images/calibration-{case.name.replace(' ', '-').replace(',', '').replace(chr(39), '').lower()}.png"
    if write:
        found.plot().savefig(DOCS / file)
    spread = found.z_scores.std(axis=0)
    row = (
        f"| {case.name} | {'pass' if case.right else 'fail'} | {'pass' if found.passed else 'fail'} "
        f"| {found.p_values.min():.2g} | {spread.min():.2f} .. {spread.max():.2f} "
        f"| {np.mean(found.posteriors.levels == 'good'):.0%} | {seconds:.0f} s |"
    )
    return f"{row}\n", f"## {case.name[0].upper()}{case.name[1:]}\n\n{found.verdict}\n\n![{case.name}]({file})\n"


def run(number: int, only: str | None, *, write: bool) -> None:
    """Calibrate all of them, or those whose name contains a word, and write the page."""
    parts = [calibrated(case, number, write=write) for case in CASES if only is None or only in case.name]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, JAX {jax.__version__}, {datetime.date.today():%d %B %Y}"
    page = f"""# Calibration, measured

{number:,} simulations of each model, fitted at once by `sf.calibrate`. Written by
`python -m benchmarks.many --calibration --page` ({machine}).

*p* is the smallest of all parameters; a calibration fails where it is below 0.05 divided by their number. The sd of
z-scores is 1 where posteriors are right, and above where they are too narrow.

| | should | does | p | sd of z | good verdicts | time |
|---|---|---|---|---|---|---|
{"".join(row for row, _ in parts)}
{chr(10).join(section for _, section in parts)}"""
    print(page)
    if write:
        PAGE.write_text(page)
