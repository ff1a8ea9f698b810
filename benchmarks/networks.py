"""Networks for tables: test errors and log-likelihoods beside rivals, with core-seconds.

    python -m benchmarks.networks                             # all, into docs/networks-measured.md; hours on two cores
    python -m benchmarks.networks published --sets airfoil --seeds 5
    python -m benchmarks.networks uci --sets boston yacht --seeds 3
    python -m benchmarks.networks digits

`published` needs `regression/airfoil.npz` and `bikesharing.npz`, with the rows `train` and `test` of the published
split, in the folder named by STEINFLOW_DATA. `uci` takes the standard splits of the nine sets of
`steinflow.paper.datasets`, split k for seed k. What is measured goes into the page, whatever part of it that is.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import steinflow as sf
from benchmarks.pages import put
from steinflow.paper import datasets, networks

PAGE = "docs/networks-measured.md"
DEEP = (16, 16, 16, 16)
STEPS_OF_DEEP_ENSEMBLE, MEMBERS = 6_000, 10  # as many as ours takes to arrive
# RMSE, negative log-likelihood (normal, of standardised y) and seconds on ten cores as its authors state them.
BDE = {"airfoil": (0.1215, -0.9126, 240), "bikesharing": (0.2261, -0.7315, 2550)}

Rows = tuple[np.ndarray, np.ndarray]
Fit = Callable[[Rows, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


class Score(NamedTuple):
    """How good predictive means and sds are on test rows, and what they cost."""

    rmse: float
    nll: float
    coverage: float
    core_seconds: float


def ours(hidden: Sequence[int]) -> Fit:
    def fit(train, X_test, seed):
        return sf.SteinRegressor(hidden=tuple(hidden), random_state=seed).fit(*train).predict(X_test, return_std=True)

    return fit


def deep_ensemble(hidden: Sequence[int]) -> Fit:
    """Ten networks of the same kind, each at its own maximum of the posterior density."""

    def fit(train, X_test, seed):
        family = sf.models.VaryingGaussian()
        model = sf.models.NeuralNetwork(
            *train, hidden, "tanh", family=family, prior_scale=4.0, batch_size=min(100, len(train[1]))
        )
        key = jax.random.key(seed)
        start = jax.vmap(model.sample_prior)(jax.random.split(key, MEMBERS))
        parts = sf.models.uncertainty(model, _trained(model, start, key), X_test)
        return np.asarray(parts.mean, float), np.asarray(parts.total, float)

    return fit


@eqx.filter_jit
def _trained(model, params, key):
    optimizer = optax.adam(optax.cosine_decay_schedule(2 * 10.0 / STEPS_OF_DEEP_ENSEMBLE, STEPS_OF_DEEP_ENSEMBLE))

    def step(carry, number):
        params, state = carry
        batch = model.data.minibatch(key, number)
        scores = jax.vmap(jax.grad(model.log_density), in_axes=(0, None))(params, batch)
        updates, state = optimizer.update(jax.tree.map(jnp.negative, scores), state)
        return (optax.apply_updates(params, updates), state), None

    steps = jnp.arange(STEPS_OF_DEEP_ENSEMBLE)
    return jax.lax.scan(step, (params, optimizer.init(params)), steps)[0][0]


def boosting(train, X_test, seed):
    """Boosted trees for the mean; their 16% and 84% quantiles give the sd."""
    mean = HistGradientBoostingRegressor(max_iter=500, random_state=seed).fit(*train).predict(X_test)
    low, high = (
        HistGradientBoostingRegressor(loss="quantile", quantile=level, max_iter=500, random_state=seed)
        .fit(*train)
        .predict(X_test)
        for level in stats.norm.cdf([-1, 1])
    )
    return mean, np.maximum(0.5 * (high - low), 1e-3 * np.std(train[1]))


def scored(fit: Fit, train: Rows, test: Rows, seed: int) -> Score:
    started = time.process_time()
    mean, sd = fit(train, test[0], seed)
    seconds = time.process_time() - started
    errors = test[1] - mean
    coverage = np.mean(np.abs(errors) < stats.norm.ppf(0.95) * sd)
    rmse, nll = np.sqrt(np.mean(errors**2)), -np.mean(stats.norm.logpdf(test[1], mean, sd))
    return Score(float(rmse), float(nll), float(coverage), seconds)


def published(sets: Sequence[str] | None, num_seeds: int) -> str:
    methods = {
        f"`SteinRegressor(hidden={DEEP})`": ours(DEEP),
        "deep ensemble of the same networks": deep_ensemble(DEEP),
        "HistGradientBoosting, quantiles": boosting,
    }
    lines = [
        "| set | method | seeds | RMSE | NLL | 90% intervals hold | core-seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sets or BDE:
        train, test = _published_split(name)
        for method, fit in methods.items():
            scores = [scored(fit, train, test, seed) for seed in range(num_seeds)]
            lines.append(f"| {name} | {method} | {num_seeds} | " + " | ".join(_cells(scores)) + " |")
            print(lines[-1], flush=True)
        rmse, nll, seconds = BDE[name]
        lines.append(f"| {name} | `bde`, as published | | {rmse} | {nll} | | {seconds:,} s on 10 cores |")
    return "\n".join([*lines, ""])


def uci(sets: Sequence[str] | None, num_splits: int) -> str:
    lines = ["| set | splits | RMSE | log-likelihood | core-seconds for one |", "|---|---|---|---|---|"]
    for name in sets or networks.SETS:
        found = []
        for split in range(num_splits):
            (X, y), (X_test, y_test) = datasets.load(name).split(split)
            started = time.process_time()
            estimator = sf.SteinRegressor(hidden=(50,), random_state=split).fit(X, y)
            seconds = time.process_time() - started
            rmse = np.sqrt(np.mean((estimator.predict(X_test) - y_test) ** 2))
            found.append((rmse, np.mean(estimator.log_predictive(X_test, y_test)), seconds))
        rmse, log_likelihood, seconds = np.mean(found, axis=0)
        lines.append(f"| {name} | {num_splits} | {rmse:.4g} | {log_likelihood:.3f} | {seconds:.0f} |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def digits(sets: Sequence[str] | None, num_seeds: int) -> str:
    """Half of scikit-learn's digits, and pixels in random order: what the network has never seen."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    strange = np.random.default_rng(0).permuted(X_test, axis=1)
    lines = [
        "| network | accuracy | log-likelihood | epistemic, digits | epistemic, shuffled pixels | core-seconds |",
        "|---|---|---|---|---|---|",
    ]
    found = []
    for seed in range(num_seeds):
        started = time.process_time()
        target = sf.from_network(
            lambda key: eqx.nn.MLP(64, 10, width_size=32, depth=1, key=key),
            X,
            y,
            family=sf.models.Categorical(10),
            batch_size=100,
        )
        result = sf.fit(target, key=seed, progress=False)
        seconds = time.process_time() - started
        metrics = target.evaluate(result.particles, X_test, y_test)
        usual, other = (sf.models.uncertainty(target, result.particles, rows).epistemic for rows in (X_test, strange))
        found.append(
            [metrics["accuracy"], metrics["log_likelihood"], float(usual.mean()), float(other.mean()), seconds]
        )
    cells = " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0)[:-1])
    lines.append(f"| 64-32-10, `sf.fit(target)`, {num_seeds} seeds | {cells} | {np.mean(found, axis=0)[-1]:.0f} |")
    print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def _published_split(name: str) -> tuple[Rows, Rows]:
    """Return the rows to train and to test, y standardised by the former, as in the published figures."""
    for folder in datasets.folders():
        if (path := folder / "regression" / f"{name}.npz").is_file():
            data = np.load(path)
            X, y = data["X"].astype(float), data["y"].astype(float)
            y = (y - y[data["train"]].mean()) / y[data["train"]].std()
            return (X[data["train"]], y[data["train"]]), (X[data["test"]], y[data["test"]])
    raise SystemExit(f"There is no regression/{name}.npz in the folder named by STEINFLOW_DATA.")


def _cells(scores: list[Score]) -> list[str]:
    values = np.array(scores)
    means, sds = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(4)
    rmse, nll = (f"{mean:.4f}" + (f" ± {sd:.4f}" if sd else "") for mean, sd in zip(means[:2], sds[:2], strict=True))
    return [rmse, nll, f"{100 * means[2]:.0f}%", f"{means[3]:,.0f}"]


PARTS = {"published": published, "uci": uci, "digits": digits}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--sets", nargs="+", help="of one part")
    parser.add_argument("--seeds", type=int, default=5, help="or splits")
    options = parser.parse_args()
    for part in options.parts:
        put(PAGE, part, PARTS[part](options.sets, options.seeds))


if __name__ == "__main__":
    main()
