"""Whether the densities are those of the reference draws, by Stein's identities, in double precision.

Over draws from p, in unconstrained space, the mean score is zero, and -mean[(x_k - mean x_k) s_k] is 1 (dispersion).
Both are compared with their Monte Carlo error over 400 draws.
"""

import equinox as eqx
import jax
import numpy as np

import steinflow as sf
from benchmarks.posteriordb.models import problem, problems

FAR = 4.0  # Monte Carlo errors, in any coordinate


def check(words):
    """Print a line for every posterior: how far both identities are off, in Monte Carlo errors."""
    for name in problems():
        if not words or any(word in name for word in words):
            print(f"{name:50} {checked(name)}", flush=True)
            jax.clear_caches()


def checked(name: str) -> str:
    """Return what the check of one posterior says."""
    with jax.enable_x64(True):
        posterior = problem(name)
        particles = posterior.reference_particles()
        if particles is None:
            return _finite_somewhere(posterior)
        flat, x = sf.flatten(posterior.target, particles)
        scores = eqx.filter_jit(flat.scores)(x)
    x, scores = np.asarray(x), np.asarray(scores)
    # Where coordinates are nearly collinear their scores are mostly noise; in those of the cloud they are not.
    root = np.linalg.cholesky(np.cov(x, rowvar=False))
    u, t = np.linalg.solve(root, (x - x.mean(axis=0)).T).T, scores @ root
    off, ranges = zip(*(_identities(*pair) for pair in ((x, scores), (u, t))), strict=True)
    word = "passes" if np.max(off) < FAR else "FAILS"
    numbers = zip(("coordinates", "cloud"), off, ranges, strict=True)
    return f"{word}; " + "; ".join(
        f"{where}: mean score off by {mean:.1f}, dispersion {low:.2f} .. {high:.2f} by {spread:.1f}"
        for where, (mean, spread), (low, high) in numbers
    )


def _identities(x, scores):
    """Return by how many Monte Carlo errors the identities are off at worst, and the range of the dispersion."""
    mean, mean_error = _mean_and_error(scores)
    dispersion, dispersion_error = _mean_and_error(-(x - x.mean(axis=0)) * scores)
    off = np.max(np.abs(mean / mean_error)), np.max(np.abs((dispersion - 1) / dispersion_error))
    return off, (dispersion.min(), dispersion.max())


def _mean_and_error(values):
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def _finite_somewhere(posterior) -> str:
    flat, x = sf.flatten(posterior.target, posterior.start(0, 100))
    values, scores = eqx.filter_jit(flat.log_densities_and_scores)(x)
    return f"no draws: finite at {np.sum(flat.finite(values, scores))} of 100 starting points"
