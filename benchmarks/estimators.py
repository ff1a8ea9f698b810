"""Test log-likelihood of the estimators beside scikit-learn's, on the paper's data sets, with times.

    python -m benchmarks.estimators                               # all sets, into docs/guides/tables.md
    python -m benchmarks.estimators regression --sets boston yacht
    python -m benchmarks.estimators classification --splits 5

The data sets and their splits are those of `steinflow.paper.datasets`.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steinflow as sf
from benchmarks.pages import put
from steinflow.paper import datasets, networks

MAX_GP_ROWS = 1000  # its cost grows with the cube
NETWORK = {"hidden": (50,), "random_state": 0}


def gaussian_log_density(y, mean, sd):
    return float(np.mean(-0.5 * ((y - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))))


def stein(estimator):
    def run(train, test):
        return float(np.mean(estimator.fit(*train).log_predictive(*test)))

    return run


def ridge(train, test):
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(*train)
    return gaussian_log_density(test[1], *model.predict(test[0], return_std=True))


def mlp_regressor(train, test):
    """A network with early stopping; its noise is the error on the rows that it held out."""
    model = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(50,), early_stopping=True, max_iter=2000, random_state=0)
    )
    (X, y), cut = train, round(0.9 * len(train[1]))
    shift, scale = y.mean(), y.std()
    model.fit(X[:cut], (y[:cut] - shift) / scale)
    sd = scale * np.std((y[cut:] - shift) / scale - model.predict(X[cut:]))
    return gaussian_log_density(test[1], shift + scale * model.predict(test[0]), sd)


def classifier(model):
    def run(train, test):
        pipeline = make_pipeline(StandardScaler(), model).fit(*train)
        probabilities = pipeline.predict_proba(test[0])
        own = probabilities[np.arange(len(test[1])), np.searchsorted(pipeline.classes_, test[1])]
        return float(np.mean(np.log(np.maximum(own, 1e-12))))

    return run


KINDS = {
    "regression": (
        networks.SETS,
        {
            "SteinRegressor": stein(sf.SteinRegressor(random_state=0)),
            "SteinRegressor(hidden=(50,))": stein(sf.SteinRegressor(**NETWORK)),
            "BayesianRidge": ridge,
            "MLPRegressor": mlp_regressor,
        },
    ),
    "classification": (
        datasets.SMALL_CLASSIFICATION,
        {
            "SteinClassifier": stein(sf.SteinClassifier(random_state=0)),
            "SteinClassifier(hidden=(50,))": stein(sf.SteinClassifier(**NETWORK)),
            "LogisticRegressionCV": classifier(LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000)),
            "GaussianProcessClassifier": classifier(GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0)),
            "MLPClassifier": classifier(
                MLPClassifier(hidden_layer_sizes=(50,), early_stopping=True, max_iter=2000, random_state=0)
            ),
        },
    ),
}


def table(names, methods, num_splits):
    """Print and return the lines of a table, a line per set."""
    lines = ["| set | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    print(*lines, sep="\n")
    for name in names:
        cells = [cell(method, run, name, num_splits) for method, run in methods.items()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def cell(method, run, name, num_splits):
    values, started = [], time.perf_counter()
    for train, test in map(datasets.load(name).split, range(num_splits)):
        if method == "GaussianProcessClassifier" and len(train[1]) > MAX_GP_ROWS:
            return "too slow"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", FutureWarning)
            values.append(run(train, test))
    return f"{np.mean(values):.3f} ({(time.perf_counter() - started) / num_splits:.1f} s)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=list(KINDS))
    parser.add_argument("--sets", nargs="+", help="of one kind; all are put into the page")
    parser.add_argument("--splits", type=int, default=1)
    options = parser.parse_args()
    for kind in options.kinds:
        names, methods = KINDS[kind]
        found = table(options.sets or names, methods, options.splits)
        if options.sets is None:
            put("docs/guides/tables.md", kind, found)


if __name__ == "__main__":
    main()
