"""Digits by a perceptron and by a convolution, beside deep ensembles; noise and turned digits are unlike all rows."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import steinflow as sf
from benchmarks.networks.rivals import MEMBERS, climbed
from benchmarks.networks.runs import RESULTS, ROOT, cell, commits, run
from steinflow.targets.forecasts import calibration_of_classes

FIGURE = "docs/images/unlike-digits.png"
STEPS = 10_000  # the default of `sf.fit` for networks
ENSEMBLES = {"deep ensemble, 1,500 steps": 1_500, "deep ensemble, 10,000 steps": STEPS}
KINDS = ("digits", "turned", "noise")
COLORS = dict(zip(KINDS, ("#2a6f97", "#e07a3f", "#8a8a8a"), strict=True))


class Convolution(eqx.Module):
    """Two convolutions and a linear layer: 1,898 weights for 8 x 8 pixels."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.first = eqx.nn.Conv2d(1, 8, 3, key=keys[0])
        self.second = eqx.nn.Conv2d(8, 16, 3, stride=2, key=keys[1])
        self.last = eqx.nn.Linear(64, 10, key=keys[2])

    def __call__(self, pixels):
        hidden = jax.nn.relu(self.first(pixels.reshape(1, 8, 8)))
        return self.last(jax.nn.relu(self.second(hidden)).ravel())


NETWORKS = {
    "64-32-10": lambda key: eqx.nn.MLP(64, 10, width_size=32, depth=1, key=key),
    "convolution": Convolution,
}


def digits(sets: Sequence[str] | None, num_seeds: int) -> str:
    """Half of scikit-learn's digits to train; the other half, turned by 90 degrees, and noise of the same pixels."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    turned = np.rot90(X_test.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)
    rows = dict(zip(KINDS, (X_test, turned, np.random.default_rng(0).permuted(X_test, axis=1)), strict=True))
    lines = [
        "| network | method | runs | accuracy | log-likelihood | calibration error | epistemic: digits | turned "
        "| noise | core-seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    done = []
    for name in sets or NETWORKS:
        target = sf.from_network(NETWORKS[name], X, y, family=sf.models.Categorical(10), batch_size=100)
        for method in ("steinflow", *ENSEMBLES):
            found = [
                run("digits", name, method, seed, lambda: _measured(target, method, seed, rows, y_test, name))  # noqa: B023
                for seed in range(num_seeds)
            ]
            metrics = ["accuracy", "log_likelihood", "calibration_error", *(f"epistemic_{kind}" for kind in KINDS)]
            cells = " | ".join(cell(found, metric, ".3f") for metric in metrics)
            seconds = np.mean([one["core_seconds"] for one in found])
            lines.append(f"| {name} | {method} | {len(found)} | {cells} | {seconds:,.0f} |")
            done += found
    _draw(sets or NETWORKS)
    return "\n".join([*lines, "", commits(done)])


def _measured(target, method, seed, rows: Mapping[str, np.ndarray], y_test, name):
    if method == "steinflow":
        particles = sf.fit(target, key=seed, progress=False).particles
    else:
        key = jax.random.key(seed)
        start = jax.vmap(target.sample_prior)(jax.random.split(key, MEMBERS))
        particles = climbed(target, start, key, ENSEMBLES[method])
    epistemic = {kind: np.asarray(sf.models.uncertainty(target, particles, X).epistemic) for kind, X in rows.items()}
    if seed == 0:  # for the figure
        RESULTS.mkdir(parents=True, exist_ok=True)
        np.savez(_saved(name, method), **epistemic)
    probabilities = np.asarray(target.predict(particles, rows["digits"]), float)
    return {
        **target.evaluate(particles, rows["digits"], y_test),
        "calibration_error": calibration_of_classes(probabilities, y_test)["calibration_error"],
        **{f"epistemic_{kind}": np.mean(values) for kind, values in epistemic.items()},
    }


def _saved(name, method):
    return RESULTS / f"epistemic, {name}, {method}.npz"


def _draw(names) -> None:
    """Draw how much of every kind of row has at least so much epistemic uncertainty, by the first seed."""
    methods = ("steinflow", next(iter(ENSEMBLES)))
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.2), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for method, style in zip(methods, ("-", ":"), strict=True):
            with np.load(_saved(name, method)) as saved:
                for kind in KINDS:
                    values = np.sort(saved[kind])
                    shares = 1 - np.arange(len(values)) / len(values)
                    axis.plot(values, shares, style, color=COLORS[kind], label=f"{kind}, {method.split(',')[0]}")
        axis.set(title=name, xlabel="epistemic uncertainty (nats)", xlim=(0, None), ylim=(0, 1.02))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("share of rows above")
    axes[0, -1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(ROOT / FIGURE, dpi=110)
    plt.close(figure)
