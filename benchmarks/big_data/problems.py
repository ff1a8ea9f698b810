"""Posteriors of many rows, and the truth about them."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import benchmarks.kept
import steinflow as sf
from benchmarks.big_data.skewed import mean_and_sds
from steinflow.paper import datasets

RESULTS = Path(__file__).parents[1] / "results" / "big_data"
BLOCK = 50_000  # rows at once, so that derivatives fit into memory


class Problem(NamedTuple):
    """A posterior with its rows, and a point from where Newton's method finds its mode."""

    log_likelihood: object
    data: dict
    batch_size: int
    near: np.ndarray
    whole: bool = True  # rows fit into memory
    skewed: bool = False  # Laplace's approximation is not the truth

    @property
    def dim(self):
        return len(self.near)

    def posterior(self, batch_size):
        dim = self.dim
        return sf.Posterior(
            log_prior,
            self.log_likelihood,
            self.data,
            batch_size,
            prior=lambda key: jax.random.normal(key, (dim,)),
        )


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def logistic_likelihood(w, rows):
    z = rows["x"] @ w
    return rows["y"] * z - jax.nn.softplus(z)


def poisson_likelihood(w, rows):
    z = rows["x"] @ w
    return rows["y"] * z - jnp.exp(z)


def mixing_of(rng, dim):
    return np.eye(dim) + 0.3 * rng.normal(size=(dim, dim)) / dim**0.5


def features(rng, num_rows, dim, mixing=None):
    mixing = mixing_of(rng, dim) if mixing is None else mixing
    x = (rng.normal(size=(num_rows, dim)) @ mixing).astype(np.float32)
    x[:, 0] = 1
    return x


def logistic(num_rows, batch_size, dim=20):
    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), rng.normal(size=dim)
        y = (rng.random(num_rows) < 1 / (1 + np.exp(-x @ w))).astype(np.float32)
        return Problem(logistic_likelihood, {"x": x, "y": y}, batch_size, w)

    return make


def poisson(num_rows, batch_size, dim=6):
    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), 0.3 * rng.normal(size=dim)
        y = rng.poisson(np.exp(x @ w)).astype(np.float32)
        return Problem(poisson_likelihood, {"x": x, "y": y}, batch_size, w)

    return make


def separated(num_rows, batch_size, dim=6, rare=(20, 50, 200)):
    """Logistic regression with columns of 0 and 1 that few rows fill, all of one class: skewed, with a tail."""

    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), rng.normal(size=dim)
        y = (rng.random(num_rows) < 1 / (1 + np.exp(-x @ w))).astype(np.float32)
        dummies = np.zeros((num_rows, 2 * len(rare)), np.float32)
        for column, count in enumerate(2 * rare):
            rows = rng.choice(np.flatnonzero(y == column % 2), count, replace=False)
            dummies[rows, column] = 1
        near = np.append(w, 2.0 * (np.arange(2 * len(rare)) % 2) - 1)
        return Problem(logistic_likelihood, {"x": np.c_[x, dummies], "y": y}, batch_size, near, skewed=True)

    return make


def rare_counts(num_rows, batch_size, dim=6, rare=(5, 20, 100)):
    """Poisson regression with columns of 0 and 1 that few rows fill, where nothing or next to nothing was counted."""

    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), 0.3 * rng.normal(size=dim)
        dummies = np.zeros((num_rows, len(rare)), np.float32)
        for column, count in enumerate(rare):
            dummies[rng.choice(num_rows, count, replace=False), column] = 1
        y = rng.poisson(np.exp(x @ w - 5 * dummies.sum(axis=1))).astype(np.float32)

        near = np.append(w, -np.ones(len(rare)))
        return Problem(poisson_likelihood, {"x": np.c_[x, dummies], "y": y}, batch_size, near, skewed=True)

    return make


def linear(num_rows, batch_size, dim=6):
    """Regression with unknown noise; the last parameter is its log sd."""

    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), rng.normal(size=dim)
        y = (x @ w + 0.5 * rng.normal(size=num_rows)).astype(np.float32)

        def log_likelihood(p, rows):
            return -0.5 * (rows["y"] - rows["x"] @ p[:-1]) ** 2 * jnp.exp(-2 * p[-1]) - p[-1]

        return Problem(log_likelihood, {"x": x, "y": y}, batch_size, np.append(w, np.log(0.5)))

    return make


def softmax(num_rows, batch_size, dim=6, classes=7):
    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), rng.normal(size=(dim, classes - 1))
        scores = np.c_[x @ w, np.zeros(num_rows)] + rng.gumbel(size=(num_rows, classes))
        y = np.eye(classes, dtype=np.float32)[scores.argmax(axis=1)]

        def log_likelihood(p, rows):
            z = rows["x"] @ p.reshape(dim, classes - 1)
            z = jnp.concatenate([z, jnp.zeros_like(z[:, :1])], axis=1)
            return jnp.sum(rows["y"] * jax.nn.log_softmax(z), axis=1)

        return Problem(log_likelihood, {"x": x, "y": y}, batch_size, w.ravel())

    return make


def mapped_logistic(num_rows, batch_size, dim=20):
    """The same from files, written by blocks: neither they nor the run hold all rows in memory."""

    def make():
        folder = Path(tempfile.mkdtemp(prefix="steinflow-big-data-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        rng = np.random.default_rng(0)
        w = rng.normal(size=dim)
        files = {name: folder / f"{name}.npy" for name in "xy"}
        x = np.lib.format.open_memmap(files["x"], "w+", np.float32, (num_rows, dim))
        y = np.lib.format.open_memmap(files["y"], "w+", np.float32, (num_rows,))
        for start in range(0, num_rows, BLOCK):
            rows = slice(start, min(start + BLOCK, num_rows))
            x[rows] = block = features(rng, rows.stop - start, dim, mixing=mixing_of(np.random.default_rng(1), dim))
            y[rows] = rng.random(len(block)) < 1 / (1 + np.exp(-block @ w))
        for array in (x, y):
            array.flush()
        data = {name: np.load(path, mmap_mode="r") for name, path in files.items()}
        return Problem(logistic_likelihood, data, batch_size, w, whole=False)

    return make


def covertype(batch_size, *, all_scaled=False):
    """All 581,012 rows, the binary task: ten numbers of sd 1, and columns of 0 and 1 as they are, or of sd 1 as well.

    The 44 columns of 0 and 1 are two groups that each sum to one, so that only the prior holds two directions. In six
    of the columns all rows are of one class, and the posterior is skewed there; one of these columns has three rows,
    which at sd 1 are at 440.
    """

    def make():
        found = datasets.load("covertype")
        x = np.asarray(found.X, np.float32)
        present = (x > x.min(axis=0)).astype(np.float32)
        scaled = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-6)
        x = scaled if all_scaled else np.where(np.arange(x.shape[1]) < 10, scaled, present)
        x = np.c_[np.ones(len(x), np.float32), x].astype(np.float32)
        y = (np.asarray(found.y) > 0).astype(np.float32)
        return Problem(logistic_likelihood, {"x": x, "y": y}, batch_size, np.zeros(x.shape[1]), skewed=True)

    return make


PROBLEMS = {
    "logistic, 10^4 rows": logistic(10**4, 50),
    "logistic, 10^5 rows": logistic(10**5, 500),
    "logistic, 10^6 rows": logistic(10**6, 500),
    "logistic, 10^7 mapped rows": mapped_logistic(10**7, 1000),
    "Poisson, 10^6 rows": poisson(10**6, 500),
    "linear, unknown noise, 10^6 rows": linear(10**6, 500),
    "softmax of 7 classes, 10^6 rows": softmax(10**6, 500),
    "logistic, separated columns, 10^5 rows": separated(10**5, 500),
    "Poisson, rare columns, 10^5 rows": rare_counts(10**5, 500),
    "Covertype": covertype(500),
    "Covertype, all columns of sd 1": covertype(500, all_scaled=True),
}
SMALL = {  # the same code in seconds
    "small": logistic(2000, 50, dim=3),
    "small, mapped": mapped_logistic(2000, 50, dim=3),
}


@functools.cache
def problem_of(name):
    """Return a problem, made once."""
    return {**PROBLEMS, **SMALL}[name]()


def kept(name, compute, *arguments):
    """Return the figures of that name, from their file if it is there."""
    return benchmarks.kept.kept(RESULTS / f"{name}.json", compute, *arguments)


@functools.cache
def truth(name):
    """Return mean and sds of the posterior."""
    mean, sds = kept(f"truth {name}", lambda: [part.tolist() for part in computed_truth(name)])
    return np.array(mean), np.array(sds)


def computed_truth(name):
    """Return mean and sds of the posterior: Newton's mode and Laplace's covariance, in double precision.

    The mean is off the mode by half of the covariance times the third derivatives' trace with it, the leading term of
    the posterior's skewness. Where that is not enough, NUTS goes on from there.
    """
    problem = problem_of(name)

    def log_likelihood(w, rows):
        return jnp.sum(problem.log_likelihood(w, rows))

    def trace(w, covariance, rows):
        return jnp.sum(covariance * jax.hessian(log_likelihood)(w, rows))

    with jax.enable_x64(True):
        gradient, hessian, skew = map(jax.jit, (jax.grad(log_likelihood), jax.hessian(log_likelihood), jax.grad(trace)))

        def summed(function, *arguments):
            num_rows, total = len(problem.data["y"]), 0.0
            for start in range(0, num_rows, BLOCK):
                rows = {name: values[start : start + BLOCK].astype(float) for name, values in problem.data.items()}
                total = total + np.asarray(function(*arguments, rows))
            return total

        w, prior_precision = np.asarray(problem.near, float), np.eye(len(problem.near))
        move, sds = np.inf, 1.0
        while np.max(np.abs(move) / sds) > 1e-3:
            covariance = np.linalg.inv(prior_precision - summed(hessian, w))
            move, sds = covariance @ (summed(gradient, w) - w), np.sqrt(np.diag(covariance))
            w = w + move
        covariance = np.linalg.inv(prior_precision - summed(hessian, w))
        if problem.skewed:
            return mean_and_sds(problem, w, covariance)
        return w + 0.5 * covariance @ summed(skew, w, covariance), np.sqrt(np.diag(covariance))
