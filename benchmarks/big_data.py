"""Minibatches at the accuracy of all rows: `python -m benchmarks.big_data [problem ...] [--page]`.

From prior draws, 100 particles and 1,000 steps. The truth is Laplace's approximation on all rows, its mean moved by the
leading term of the skewness. `--page` writes the table into docs/big-data.md.
"""

import argparse
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import steinflow as sf
from benchmarks.pages import put

KEYS = (0, 1, 2)
BLOCK = 50_000  # rows at once, so that derivatives fit into memory
METHODS = ("anchored", "plain")


class Problem(NamedTuple):
    """A posterior with its rows, and a point near its mode."""

    log_likelihood: object
    data: dict
    batch_size: int
    near: np.ndarray


def features(rng, num_rows, dim):
    mixing = np.eye(dim) + 0.3 * rng.normal(size=(dim, dim)) / dim**0.5
    x = (rng.normal(size=(num_rows, dim)) @ mixing).astype(np.float32)
    x[:, 0] = 1
    return x


def logistic(num_rows, batch_size, dim=20):
    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), rng.normal(size=dim)
        y = (rng.random(num_rows) < 1 / (1 + np.exp(-x @ w))).astype(np.float32)

        def log_likelihood(w, rows):
            z = rows["x"] @ w
            return rows["y"] * z - jax.nn.softplus(z)

        return Problem(log_likelihood, {"x": x, "y": y}, batch_size, w)

    return make


def poisson(num_rows, batch_size, dim=6):
    def make():
        rng = np.random.default_rng(0)
        x, w = features(rng, num_rows, dim), 0.3 * rng.normal(size=dim)
        y = rng.poisson(np.exp(x @ w)).astype(np.float32)

        def log_likelihood(w, rows):
            z = rows["x"] @ w
            return rows["y"] * z - jnp.exp(z)

        return Problem(log_likelihood, {"x": x, "y": y}, batch_size, w)

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


PROBLEMS = {
    "logistic, 10^4 rows": logistic(10**4, 50),
    "logistic, 10^5 rows": logistic(10**5, 500),
    "logistic, 10^6 rows": logistic(10**6, 500),
    "Poisson, 10^6 rows": poisson(10**6, 500),
    "linear, unknown noise, 10^6 rows": linear(10**6, 500),
    "softmax of 7 classes, 10^6 rows": softmax(10**6, 500),
}


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def truth(problem):
    """Return mean and sds of the posterior: Newton's mode and Laplace's covariance, in double precision.

    The mean is off the mode by half of the covariance times the third derivatives' trace with it, the leading term of
    the posterior's skewness.
    """

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
        for _ in range(8):
            precision = prior_precision - summed(hessian, w)
            w = w + np.linalg.solve(precision, summed(gradient, w) - w)
        covariance = np.linalg.inv(prior_precision - summed(hessian, w))
        return w + 0.5 * covariance @ summed(skew, w, covariance), np.sqrt(np.diag(covariance))


def once(target, dim):
    """Return a run on the same batches from a stream that cannot be read again, whose noise stays."""
    data = target.data

    def batches(step):
        read = jax.jit(lambda step: data.minibatch(jax.random.key(0), step))
        while True:
            yield jax.tree.map(np.asarray, read(step))
            step += 1

    stream = sf.data.Stream(batches, data.num_rows)
    return sf.Posterior(log_prior, target.log_likelihood, stream, prior=lambda key: jax.random.normal(key, (dim,)))


def rows_of(name):
    """Yield the lines of the table for one problem: three keys with anchors, one without."""
    problem = PROBLEMS[name]()
    mean, sd = truth(problem)
    dim = len(mean)
    target = sf.Posterior(
        log_prior,
        problem.log_likelihood,
        problem.data,
        problem.batch_size,
        prior=lambda key: jax.random.normal(key, (dim,)),
    )
    for method in METHODS:
        found = []
        for key in KEYS if method == "anchored" else KEYS[:1]:
            clock = time.perf_counter()
            result = sf.fit(target if method == "anchored" else once(target, dim), key=key, progress=False)
            error = np.sqrt(np.mean(((np.mean(result.particles, axis=0) - mean) / sd) ** 2))
            ratios = np.std(np.asarray(result.particles, float), axis=0) / sd
            verdict = result.verdict.level
            found.append((error, ratios.min(), ratios.max(), result.info["passes"], verdict))
            print(name, method, key, found[-1], f"{time.perf_counter() - clock:.0f} s", flush=True)
        errors, lows, highs, passes, verdicts = zip(*found, strict=True)
        yield (
            f"| {name} | {problem.batch_size} | {method} | {max(errors):.3f} | {min(lows):.2f} .. {max(highs):.2f} | "
            f"{max(passes):.1f} | {', '.join(dict.fromkeys(verdicts))} |"
        )


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_data", description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--page", action="store_true", help="write the table into docs/big-data.md")
    arguments = parser.parse_args()
    head = [
        "| posterior | batch | scores | mean error, sds | sds, over the truth | passes | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    table = "\n".join([*head, *(line for name in arguments.problems for line in rows_of(name))]) + "\n"
    print(table)
    if arguments.page:
        put("docs/big-data.md", "big data", table)


if __name__ == "__main__":
    main()
