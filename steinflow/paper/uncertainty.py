"""Appendix: what three methods, and the default, believe away from the data: maps of the predictive probability."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

import steinflow as sf
from steinflow.paper.fits import DEFAULT, PAPER, fit
from steinflow.paper.parts import Experiment, Part, Values, table
from steinflow.results import plots


@dataclasses.dataclass(frozen=True)
class Config:
    """Two Gaussian classes; the paper's own toy set is not described. AdaGrad of 0.05 is."""

    num_rows: int = 40
    seed: int = 0
    num_particles: int = 100
    step_size: float = 0.05
    num_steps: int = 5000
    default_steps: int = 1000
    num_draws: int = 1000
    npv_steps: int = 10
    extent: float = 7.0
    resolution: int = 81


def _rows(config: Config):
    random = np.random.default_rng(config.seed)
    y = np.where(np.arange(config.num_rows) % 2, 1, -1)
    X = random.normal(size=(config.num_rows, 2)) + 1.2 * y[:, None] * np.array([1.0, 0.6])
    return X, y


def _grid(config: Config):
    line = np.linspace(-config.extent, config.extent, config.resolution)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def _parts(config: Config) -> list[Part]:
    particles: Any = {"num_particles": config.num_particles, "key": config.seed}

    def npv(model):
        method = sf.NPV(draws_per_component=10, laplacian=model.laplacian)
        return fit(model, method, num_steps=config.npv_steps, **particles)

    runs = {
        "NUTS": lambda model: fit(model, sf.NUTS(num_chains=1), num_steps=config.num_draws, key=config.seed),
        "NPV": npv,
        PAPER: lambda model: fit(model, sf.SVGD.paper(config.step_size), num_steps=config.num_steps, **particles),
        DEFAULT: lambda model: fit(model, sf.SVGD(), num_steps=config.default_steps, **particles),
    }

    def part(name):
        def compute(_):
            X, y = _rows(config)
            model = sf.models.LogisticRegression(X, y)
            result = runs[name](model)
            probability = np.asarray(model.predict(result.particles, _grid(config)))
            return {
                "method": name,
                "probability": np.round(probability, 4),
                "mean": result.mean(),
                "sd": result.sd(),
                "seconds": result.info["seconds"],
            }

        return Part(name, {**dataclasses.asdict(config), "method": name}, compute)

    return [part(name) for name in runs]


def _draw(config: Config, values: Values, folder: Path) -> None:
    X, y = _rows(config)
    line = np.linspace(-config.extent, config.extent, config.resolution)
    with plots.style() as plt:
        figure, axes = plt.subplots(
            1,
            len(values),
            figsize=(2.6 * len(values) + 0.6, 3.1),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        image = None
        for axis, (name, entry) in zip(axes[0], values.items(), strict=True):
            probability = np.asarray(entry["probability"]).reshape(config.resolution, config.resolution)
            image = axis.contourf(line, line, probability, levels=np.linspace(0, 1, 21), cmap="RdBu_r")
            axis.contour(
                line, line, probability, levels=[0.05, 0.5, 0.95], colors="#26323f", linewidths=[0.7, 1.3, 0.7]
            )
            for label, marker, color in ((1, "o", "#7a1f1f"), (-1, "s", "#1b3a63")):
                axis.scatter(*X[y == label].T, s=14, marker=marker, color=color, edgecolor="white", linewidth=0.5)
            axis.set(title=name, xlabel="first feature", aspect="equal")
        axes[0, 0].set_ylabel("second feature")
        figure.colorbar(image, ax=axes, label="probability of the red class", shrink=0.8, ticks=[0, 0.25, 0.5, 0.75, 1])
        figure.suptitle("Predictive probability; lines at 0.05, 0.5 and 0.95", fontsize=11)
        figure.savefig(folder / "uncertainty.png", dpi=130)
        plt.close(figure)


def _page(config: Config, values: Values) -> str:
    reference = values.get("NUTS")
    rows = []
    for name, entry in values.items():
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(entry["mean"]["w"], entry["sd"]["w"], strict=True)]
        if reference is None:
            gap = ["", ""]
        else:
            gaps = np.abs(np.subtract(entry["probability"], reference["probability"]))
            gap = [f"{gaps.mean():.3f}", f"{gaps.max():.3f}"]
        rows.append([name, *cells, *gap, f"{entry['seconds']:.1f}"])
    header = ["method", "first weight", "second weight", "intercept", "mean gap to NUTS", "largest gap", "seconds"]
    return f"""
Bayesian logistic regression on {config.num_rows} points of two features (two Gaussian classes; the paper does
not describe its
toy set). Where the data say little, the probability should fade towards one half; a method that is too sure of its
weights shows as a narrow band between the outer lines.

![Maps of the predictive probability](images/results/uncertainty.png)

{table(header, rows)}

Weights are posterior mean ± standard deviation. The gap is the absolute difference of the predictive
probability from that of NUTS, over the map. The paper (a figure) finds the three methods similar.
"""


EXPERIMENT = Experiment(
    title="Appendix: uncertainty on two features",
    summary="maps of the predictive probability",
    full=Config(),
    quick=Config(num_steps=500, default_steps=300, num_draws=300, resolution=41),
    parts=_parts,
    draw=_draw,
    page=_page,
)
