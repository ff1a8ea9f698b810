"""Figure 2: how well particles estimate expectations, against their number, beside independent exact draws."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from steinflow.paper.authors import adagrad_with_momentum
from steinflow.paper.fits import COLORS, DEFAULT, PAPER, fit, paper_svgd
from steinflow.paper.parts import Experiment, Part, Values, groups, mean_and_error, table
from steinflow.results import plots

_CARLO = "Monte Carlo"
_FUNCTIONS = {"mean": "E x", "square": "E x²", "cosine": "E cos(ωx + b)"}
# Mean squared error of n independent draws, times n; the cosine on average over ω ~ N(0, 1) and b ~ U(0, 2π).
_EXACT = {"mean": 41 / 9, "square": 18.0, "cosine": 0.33071}


@dataclasses.dataclass(frozen=True)
class Config:
    """The toy's mixture and start, with more and more particles."""

    num_particles: tuple[int, ...] = (5, 10, 20, 50, 100, 250)
    num_repeats: int = 20
    num_cosines: int = 20
    num_steps: int = 1000
    step_size: float = 0.1
    seed: int = 0


def _parts(config: Config) -> list[Part]:
    def part(method, n):
        settings = {**dataclasses.asdict(config), "num_particles": n, "method": method}
        return Part(f"{method}, n = {n}", settings, lambda _: _compute(method, n, config))

    return [part(method, n) for n in config.num_particles for method in (PAPER, DEFAULT, _CARLO)]


def _compute(method: str, n: int, config: Config) -> dict:
    target = sf.models.GaussianMixture()
    optimizers = {PAPER: paper_svgd(adagrad_with_momentum(config.step_size)), DEFAULT: sf.SVGD()}
    omega_key, phase_key = jax.random.split(jax.random.key(config.seed + 1000))
    omegas = jax.random.normal(omega_key, (config.num_cosines,))
    phases = jax.random.uniform(phase_key, (config.num_cosines,), maxval=2 * jnp.pi)
    cosines = jax.vmap(target.cosine)(omegas, phases)
    errors = {name: [] for name in _FUNCTIONS}
    for repeat in range(config.num_repeats):
        if method == _CARLO:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), repeat), n)
            x = jax.vmap(target.sample)(keys)[:, 0]
        else:
            key = config.seed + repeat
            result = fit(target, optimizers[method], num_particles=n, num_steps=config.num_steps, key=key)
            x = result.unconstrained[:, 0]
        errors["mean"].append(float((jnp.mean(x) - target.mean()[0]) ** 2))
        errors["square"].append(float((jnp.mean(x**2) - target.second_moment()[0]) ** 2))
        found = jnp.mean(jnp.cos(omegas[:, None] * x + phases[:, None]), axis=1)
        errors["cosine"].append(float(jnp.mean((found - cosines) ** 2)))
    return {"method": method, "n": n, "squared_errors": errors}


def _curves(values: Values):
    """Yield method, numbers of particles, and mean and standard error of the squared errors by function."""
    for (method,), entries in groups(values, "method"):
        ns = [entry["n"] for entry in entries]
        yield method, ns, {f: np.array([mean_and_error(e["squared_errors"][f]) for e in entries]) for f in _FUNCTIONS}


def _draw(config: Config, values: Values, folder: Path) -> None:
    with plots.style() as plt:
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained")
        for axis, (function, label) in zip(axes, _FUNCTIONS.items(), strict=True):
            for method, ns, curves in _curves(values):
                mean, error = curves[function].T
                low = np.minimum(error, 0.8 * mean)  # a log axis has no room for bars through zero
                axis.errorbar(
                    ns,
                    mean,
                    np.stack([low, error]),
                    color=COLORS[method],
                    marker="o",
                    markersize=3.5,
                    capsize=2,
                    label=method,
                )
            ns = np.array(config.num_particles)
            theory = _EXACT[function] / ns
            axis.plot(ns, theory, color=COLORS[_CARLO], linestyle=":", linewidth=1, label="Monte Carlo, in theory")
            axis.set(xscale="log", yscale="log", xlabel="particles", title=f"estimating {label}")
            axis.set_xticks(ns, map(str, ns))
            axis.xaxis.set_minor_locator(plt.NullLocator())
        axes[0].set_ylabel("mean squared error")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle("Errors of expectations under the mixture: lower is better", fontsize=11)
        figure.savefig(folder / "expectations.png")
        plt.close(figure)


def _page(config: Config, values: Values) -> str:
    rows, better = [], {}
    found = {
        (m, n): {f: curves[f][i] for f in _FUNCTIONS} for m, ns, curves in _curves(values) for i, n in enumerate(ns)
    }
    for (method, n), errors in found.items():
        rows.append([method, str(n), *(f"{errors[f][0]:.2g} ± {errors[f][1]:.1g}" for f in _FUNCTIONS)])
        if method != _CARLO:
            better.setdefault(method, []).extend(errors[f][0] <= _EXACT[f] / n for f in _FUNCTIONS)
    verdict = "; ".join(f"{method}: {sum(wins)} of {len(wins)}" for method, wins in better.items())
    rows.sort(key=lambda row: (list(COLORS).index(row[0]), int(row[1])))
    return f"""
The same mixture and start as above with n particles, {config.num_steps} steps, {config.num_repeats} repeats
from different
starts; for the cosine the error is also averaged over {config.num_cosines} draws of ω ~ N(0, 1) and b ~ U(0,
2π). Bars are
standard errors over repeats; dotted is the exact error of independent draws.

![Mean squared errors of three expectations against the number of particles](images/results/expectations.png)

{table(["method", "n", *_FUNCTIONS.values()], rows)}

The paper (a figure without numbers) finds SVGD's error similar to Monte Carlo's or smaller. Cases, one for
each function and number of particles, in which the error is at or below the exact one of independent draws: {verdict}.
"""


EXPERIMENT = Experiment(
    title="Figure 2: expectations",
    summary="errors of expectations against the number of particles",
    full=Config(),
    quick=Config(num_particles=(10, 50), num_repeats=5),
    parts=_parts,
    draw=_draw,
    page=_page,
)
