"""Numbers: the published split of airfoil and bikesharing, the nine UCI sets, and small noisy tables, beside rivals."""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split

from benchmarks.networks.rivals import Fit, Rows, methods, ridge
from benchmarks.networks.runs import cell, commits, run
from steinflow.paper import datasets, networks

DEEP = (16, 16, 16, 16)
ONE_LAYER = (50,)
TWO_LAYERS = (32, 32)
# RMSE, negative log-likelihood (normal, of standardised y) and seconds on ten cores as its authors state them.
BDE = {"airfoil": (0.1215, -0.9126, 240), "bikesharing": (0.2261, -0.7315, 2550)}
HEAD = "| set | method | runs | RMSE | NLL, normal | 90% intervals hold | core-seconds |\n|---|---|---|---|---|---|---|"


def published(sets: Sequence[str] | None, num_seeds: int) -> str:
    """Return the table of the published split, whose y is standardised."""
    lines, done = [HEAD], []
    for name in sets or BDE:
        train, test = _published_split(name)
        for method, fit in methods(DEEP).items():
            found = [
                run("published", name, method, seed, lambda: scored(fit, train, test, seed))  # noqa: B023
                for seed in range(num_seeds)
            ]
            lines.append(_line(name, method, found))
            done += found
        rmse, nll, seconds = BDE[name]
        lines.append(f"| {name} | `bde`, as published | | {rmse} | {nll} | | {seconds:,} s on 10 cores |")
    return "\n".join([*lines, "", commits(done)])


def uci(sets: Sequence[str] | None, num_splits: int) -> str:
    """Return the table of the standard splits, in the units of y."""
    lines, done = [HEAD], []
    for name in sets or networks.SETS:
        for method, fit in methods(ONE_LAYER).items():
            found = []
            for split in range(num_splits):
                train, test = datasets.load(name).split(split)
                found.append(run("uci", name, method, split, lambda: scored(fit, train, test, split)))  # noqa: B023
            lines.append(_line(name, method, found))
            done += found
    return "\n".join([*lines, "", commits(done)])


def noisy(sets: Sequence[str] | None, num_seeds: int) -> str:
    """Return the table of small and noisy tables, with more weights than rows; y is standardised by its sd."""
    lines, done = [HEAD], []
    for name in sets or NOISY:
        for method, fit in {**methods(TWO_LAYERS), "BayesianRidge": ridge}.items():
            found = []
            for seed in range(num_seeds):
                X, y = NOISY[name](np.random.default_rng(seed))
                X_train, X_test, y_train, y_test = train_test_split(X, y / np.std(y), train_size=250, random_state=seed)
                rows = (X_train, y_train), (X_test, y_test)
                found.append(run("noisy", name, method, seed, lambda: scored(fit, *rows, seed)))  # noqa: B023
            lines.append(_line(name, method, found))
            done += found
    return "\n".join([*lines, "", commits(done)])


def _line_and_noise(rng):
    X = rng.normal(size=(2000, 5))
    return X, X @ [1.0, 0.5, 0.0, 0.0, -1.0] + rng.normal(size=2000)


def _noise(rng):
    return rng.normal(size=(2000, 8)), rng.normal(size=2000)


def _curve(rng):
    X = rng.uniform(-3, 3, size=(2000, 1))
    return X, np.sin(2 * X[:, 0]) + np.where(X[:, 0] > 0, 0.35, 0.05) * rng.normal(size=2000)


def _wide(rng):
    X = rng.normal(size=(2000, 30))
    return X, X[:, :3] @ [1.0, 0.5, -1.0] + 0.5 * rng.normal(size=2000)


def _friedman(rng):
    return make_friedman1(2000, 10, noise=1.0, random_state=rng.integers(1000))


# Half of them have a line, or nothing, for a network to find.
NOISY = {
    "line": _line_and_noise,
    "nothing but noise": _noise,
    "line, 30 columns": _wide,
    "curve, noise on one side": _curve,
    "Friedman's": _friedman,
    "diabetes": lambda rng: load_diabetes(return_X_y=True),
}


def scored(fit: Fit, train: Rows, test: Rows, seed: int) -> dict[str, float]:
    """Return how good predictive means and sds are on test rows."""
    mean, sd = fit(train, test[0], seed)
    errors = test[1] - mean
    return {
        "rmse": np.sqrt(np.mean(errors**2)),
        "nll": -np.mean(stats.norm.logpdf(test[1], mean, sd)),
        "coverage": np.mean(np.abs(errors) < stats.norm.ppf(0.95) * sd),
    }


def _line(name, method, runs):
    seconds = np.mean([found["core_seconds"] for found in runs])
    coverage = 100 * np.mean([found["coverage"] for found in runs])
    numbers = f"{cell(runs, 'rmse', '.4f')} | {cell(runs, 'nll', '.3f')} | {coverage:.0f}% | {seconds:,.0f}"
    return f"| {name} | {method} | {len(runs)} | {numbers} |"


def _published_split(name: str) -> tuple[Rows, Rows]:
    """Return the rows to train and to test, y standardised by the former, as in the published figures."""
    for folder in datasets.folders():
        if (path := folder / "regression" / f"{name}.npz").is_file():
            data = np.load(path)
            X, y = data["X"].astype(float), data["y"].astype(float)
            y = (y - y[data["train"]].mean()) / y[data["train"]].std()
            return (X[data["train"]], y[data["train"]]), (X[data["test"]], y[data["test"]])
    raise SystemExit(f"There is no regression/{name}.npz in the folder named by STEINFLOW_DATA.")
