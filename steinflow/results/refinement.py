r"""Improving an answer after the run: weights that minimise KSD, fewer points that keep it low, a check by NUTS.

With $u_p$ the Stein kernel of the particles, $\sum_{ij} w_i w_j u_p(x_i, x_j)$ is the squared KSD of particles with
weights w. Weights on the simplex that minimise it are Stein importance weights (Liu & Lee, AISTATS 2017); points
chosen greedily to keep it low are Stein thinning (Riabiz et al., JRSS B 2022). Both need the scores that are known
already, and no further evaluation of the density. All of it works in the coordinates of the cloud, so that scale and
correlation do not matter, and with an IMQ plus a linear kernel, so that mean and covariance count as well as the shape.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.methods.svgd.metrics import Cloud
from steinflow.stein.bandwidths import Wide
from steinflow.stein.discrepancy import stein_kernel_rows
from steinflow.stein.kernels import IMQ, Linear
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Particles, PRNGKeyArray, Scores

_MAX_PARTICLES = 5000  # n^2 numbers and a least-squares problem of that size
_EVENNESS = 0.01  # a hundredth of the variance of independent draws, so that of equally good weights the even ones win
_TARGET_ACCEPTANCE = 0.8
_MAX_DOUBLINGS = 8  # of a trajectory: all particles wait for the longest


@eqx.filter_jit
def _stein_kernel_matrix(particles, scores):
    frame = Cloud().frame(particles)
    points = frame.points(particles)
    kernel = (IMQ(Wide()) + Linear()).adapt(points)
    matrix = stein_kernel_rows(points, frame.scores(scores), kernel)(jnp.arange(len(points)))
    return matrix / jnp.mean(jnp.diagonal(matrix))


def stein_weights(particles: Particles, scores: Scores) -> np.ndarray:
    r"""Return the weights on the simplex that minimise $w^\top U w$, KSD squared, plus a little of their unevenness.

    This is a problem of nonnegative least squares. On the ray from the origin through a point w of the simplex, the
    least value of $w^\top U w + (1 - 1^\top w)^2$ is $q / (1 + q)$ with $q = w^\top U w$, which grows with q: the
    minimiser over w >= 0, divided by its sum, is the answer.

    Raises:
        ValueError: where there are more than 5,000 particles.
    """
    from scipy.optimize import nnls  # it takes a moment to import

    n = len(particles)
    if n > _MAX_PARTICLES:
        raise ValueError(
            f"Stein weights need all pairs of particles, so they take at most {_MAX_PARTICLES} of them; got {n}. Thin "
            "the result first: result.thinned(1000).reweighted()."
        )
    matrix = np.asarray(_stein_kernel_matrix(particles, scores), float) + _EVENNESS * np.eye(n)
    eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    root = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * vectors.T
    weights, _ = nnls(np.vstack([root, np.ones(n)]), np.r_[np.zeros(n), 1.0])
    return weights / np.sum(weights)


def stein_thinning(particles: Particles, scores: Scores, num_points: int) -> np.ndarray:
    """Return the indices of `num_points` particles, each chosen so that the KSD of all so far is least.

    A particle may come twice where that is better than one in the wrong position.

    Raises:
        ValueError: where `num_points` is not between 1 and the number of particles.
    """
    if not 1 <= num_points <= len(particles):
        raise ValueError(
            f"Thinning takes a number of points between 1 and the {len(particles)} particles; got {num_points}."
        )
    return np.asarray(_greedy(particles, scores, num_points))


@eqx.filter_jit
def _greedy(particles, scores, num_points):
    frame = Cloud().frame(particles)
    points, scores = frame.points(particles), frame.scores(scores)
    rows = stein_kernel_rows(points, scores, (IMQ(Wide()) + Linear()).adapt(points))
    everywhere = jnp.arange(len(points))
    own = jax.lax.map(lambda i: rows(i[None])[0, i], everywhere, batch_size=64)

    def choose(sums, _):
        chosen = jnp.argmin(own / 2 + sums)
        return sums + rows(chosen[None])[0], chosen

    return jax.lax.scan(choose, jnp.zeros_like(own), None, length=num_points)[1]


class Moves(NamedTuple):
    """Where NUTS took every particle, as deviations from the mean at the start, and how often it accepted.

    `mean` and `mean_square` are over the later moves of each particle, `last` is where it is at the end.
    """

    mean: Array
    mean_square: Array
    last: Particles
    acceptance: Array


def nuts_moves(target: FlatTarget, particles: Particles, num_moves: int, *, key: PRNGKeyArray) -> Moves:
    """Move every particle by NUTS on all of the data, in the coordinates of the cloud.

    The first half of the moves finds the step size and forgets where the particles were; means are over the second.

    Raises:
        ValueError: where there are fewer than 2 moves.
        ImportError: where BlackJAX is not installed.
    """
    if num_moves < 2:
        raise ValueError(f"A check needs at least 2 moves, half of them to tune; got {num_moves}.")
    return _move(target, particles, num_moves, key, *_nuts())


@functools.cache  # the same functions every time, so that a second check does not compile again
def _nuts():
    try:
        import blackjax
    except ImportError as error:
        raise ImportError("A check by moves of NUTS needs BlackJAX: pip install 'steinflow[blackjax]'.") from error
    return blackjax.nuts.init, blackjax.nuts.build_kernel()


@eqx.filter_jit
def _move(target, particles, num_moves, key, init, kernel):
    frame, dtype = Cloud().frame(particles), particles.dtype
    center = jnp.mean(particles, axis=0)

    def position(u):
        return frame.center + frame.moves(u)

    def log_density(u):
        return target.log_density(position(u[None])[0])

    def move(carry, step):
        states, log_step_size, total, total_square = carry
        keys = jax.random.split(jax.random.fold_in(key, step), len(particles))
        settings = {"step_size": jnp.exp(log_step_size), "inverse_mass_matrix": jnp.ones(target.dim, dtype)}
        states, information = jax.vmap(
            lambda key, state: kernel(key, state, log_density, max_num_doublings=_MAX_DOUBLINGS, **settings)
        )(keys, states)
        acceptance = jnp.mean(information.acceptance_rate).astype(dtype)
        tuning = step < num_moves // 2
        log_step_size += jnp.where(tuning, 2 * (acceptance - _TARGET_ACCEPTANCE) / jnp.sqrt(1 + step.astype(dtype)), 0)
        deviations = jnp.where(tuning, 0.0, position(states.position) - center)
        return (states, log_step_size, total + deviations, total_square + deviations**2), acceptance

    start = frame.points(particles)
    zeros = jnp.zeros_like(start)
    log_step_size = jnp.asarray(-0.25 * np.log(target.dim), dtype)
    states = jax.vmap(lambda u: init(u, log_density))(start)
    (states, _, total, total_square), acceptances = jax.lax.scan(
        move, (states, log_step_size, zeros, zeros), jnp.arange(num_moves)
    )
    kept = num_moves - num_moves // 2
    return Moves(total / kept, total_square / kept, position(states.position), jnp.mean(acceptances[num_moves // 2 :]))


@dataclasses.dataclass(frozen=True)
class Check:
    """What a few moves of NUTS from every particle change: nothing but noise if the particles were right.

    Attributes:
        mean_drift: how far the mean of every unconstrained coordinate moved, in posterior sds.
        mean_noise: the standard error of that.
        sd_ratio: sd of the particles divided by the sd after the moves; below 1 if they had too little spread.
        sd_noise: the standard error of that.
        acceptance: the mean acceptance rate of the moves. If it is far below 0.8, the check says little.
        moved: the result after the last move of every particle.
    """

    mean_drift: np.ndarray
    mean_noise: np.ndarray
    sd_ratio: np.ndarray
    sd_noise: np.ndarray
    acceptance: float
    moved: Any

    @classmethod
    def of(cls, particles: Particles, moves: Moves, moved: Any) -> "Check":
        """Compare the particles with where they went."""
        n = len(particles)
        before = np.std(np.asarray(particles, float), axis=0)
        means, squares = np.asarray(moves.mean, float), np.asarray(moves.mean_square, float)
        drift = np.mean(means, axis=0)
        # Particles move independently of each other, so the scatter of their averages is the noise.
        deviations = squares - 2 * means * drift + drift**2
        variance = np.mean(deviations, axis=0)
        sd = np.sqrt(np.maximum(variance, np.finfo(np.float32).tiny))
        ratio = before / sd
        return cls(
            mean_drift=drift / sd,
            mean_noise=np.std(means, axis=0) / sd / np.sqrt(n),
            sd_ratio=ratio,
            sd_noise=ratio * np.std(deviations, axis=0) / variance / 2 / np.sqrt(n),
            acceptance=float(moves.acceptance),
            moved=moved,
        )

    @property
    def passed(self) -> bool:
        """Whether in every coordinate mean and spread changed by less than a tenth plus twice the noise."""
        drifts = np.abs(self.mean_drift) <= 0.1 + 2 * self.mean_noise
        ratios = np.abs(np.log(np.maximum(self.sd_ratio, 1e-6))) <= 0.1 + 2 * self.sd_noise / self.sd_ratio
        return bool(np.all(drifts) and np.all(ratios) and self.acceptance > 0.4)

    def __str__(self):
        worst = np.argmax(np.abs(self.mean_drift))
        return (
            f"{'passed' if self.passed else 'failed'}: the mean moved by at most {abs(self.mean_drift[worst]):.2f} "
            f"(± {self.mean_noise[worst]:.2f}) sds; the sd before the moves is {self.sd_ratio.min():.2f} to "
            f"{self.sd_ratio.max():.2f} (± {np.median(self.sd_noise):.2f}) times the sd after them; acceptance rate "
            f"{self.acceptance:.2f}"
        )

    __repr__ = __str__
