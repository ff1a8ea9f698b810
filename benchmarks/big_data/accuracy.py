"""How far a run is from the truth, with anchors and without."""

import time

import jax
import numpy as np

import steinflow as sf
from benchmarks.big_data.problems import kept, log_prior, problem_of, truth

KEYS = (0, 1, 2)


def once(problem):
    """Return the same batches from a stream that cannot be read again, whose noise stays."""
    data, dim = problem.posterior(problem.batch_size).data, problem.dim

    def batches(step):
        read = jax.jit(lambda step: data.minibatch(jax.random.key(0), step))
        while True:
            yield jax.tree.map(np.asarray, read(step))
            step += 1

    stream = sf.data.Stream(batches, data.num_rows)
    return sf.Posterior(log_prior, problem.log_likelihood, stream, prior=lambda key: jax.random.normal(key, (dim,)))


def error_and_ratios(draws, name, weights=None):
    """Return the error of the mean, root mean square in sds, and the smallest and largest sd over the true one."""
    mean, sd = truth(name)
    draws = np.asarray(draws, float)
    found = np.average(draws, axis=0, weights=weights)
    ratios = np.sqrt(np.average((draws - found) ** 2, axis=0, weights=weights)) / sd
    return tuple(map(float, (np.sqrt(np.mean(((found - mean) / sd) ** 2)), ratios.min(), ratios.max())))


def accuracy(names):
    """Yield the lines of the table: for each problem three keys with anchors, one without."""
    yield "| posterior | batch | scores | mean error, sds | sds, over the truth | passes | verdict |"
    yield "|---|---|---|---|---|---|---|"
    for name in names:
        problem = problem_of(name)
        yield _line(name, problem, "anchored", KEYS)
        if problem.whole:
            yield _line(name, problem, "plain", KEYS[:1])


def _line(name, problem, scores, keys):
    found = kept(f"accuracy {name}, {scores}", _measured, name, scores, keys)
    errors, lows, highs, passes, verdicts = zip(*found, strict=True)
    return (
        f"| {name} | {problem.batch_size} | {scores} | {max(errors):.3f} | {min(lows):.2f} .. {max(highs):.2f} | "
        f"{max(passes):.1f} | {', '.join(dict.fromkeys(verdicts))} |"
    )


def _measured(name, scores, keys):
    problem, found = problem_of(name), []
    target = once(problem) if scores == "plain" else problem.posterior(problem.batch_size)
    for key in keys:
        clock = time.perf_counter()
        result = sf.fit(target, key=key, progress=False)
        seconds = time.perf_counter() - clock
        found.append([*error_and_ratios(result.particles, name), result.info["passes"], result.verdict.level])
        print(name, scores, key, found[-1], f"{seconds:.0f} s", flush=True)
    return found
