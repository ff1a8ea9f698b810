r"""What the chains say that exploring particles are: moments, their errors, whether the chains agree, and their modes.

Chains are independent, but for the metric that they share: the scatter of their averages says how precise the moments
are. Stein's identity makes them more so, at no cost (control variates; Mira, Solgi & Imparato 2013). For u, a particle
in coordinates of unit scale, and g = M s, the pull of its score there, M being the covariance that the walk assumes,
with a diagonal of ones, under the target

$$E[g_k] = 0, \qquad E[(u_k - \mu_k)\, g_k] = -1,$$

and on a Gaussian target with covariance M, $u_k + g_k$ and $(u_k - \mu_k)(u_k - \mu_k + g_k)$ are constants: what an
average of g says of the chance in an average of u is taken out, as far as the chains show the one to explain the other.
The same identities say whether the trajectory is one of the target: that is for the verdict.

A chain that stayed where there is no mass does not count. Seen as a Gaussian with the sds of its states, it has the log
mass

$$\frac1T \sum_t \log p(x_t) + \sum_k \log \mathrm{sd}_k,$$

up to a constant, and what lies far below the best of the others is lost: in a mode without mass, or on a plateau that
it will leave in a thousand steps more.

What a minibatch adds to the scores, it adds to those of all chains at once: their scatter does not show it. How much
that is, averages over all chains say, step by step: they vary by more than the scatter of the chains explains. A
control is trusted the less for it.

All is host work, in NumPy.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from steinflow.methods.svgd import functionals
from steinflow.methods.svgd.modes import Modes
from steinflow.stein.geometry import even_sample

_FEWEST = 50  # steps before the chains can say whether they agree
_ONE_MODE = 1.2  # R-hat up to which nobody looks for modes
_PRECISE, _MIXED = 0.01, 1.05  # error of mean and sd in sds, that of 10,000 draws; R-hat
_CHANCE = (
    4.42  # sds of a normal: chance goes further once in 100,000, or in one run of a hundred with 1,000 coordinates
)
_DECISIVE = 0.5  # times the error: errors are estimates too
_NO_MASS = 10.0  # nats: less than 1 in 20,000
_UNSURE = 0.1  # nats per dimension: a chain knows its own sds to about 10%, and these may all be off together


class Moments(NamedTuple):
    """Mean and sd of every coordinate, and their standard errors in units of the sd."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, states: np.ndarray) -> "Moments":
        """Return those of states, as if they were independent."""
        error = np.full(states.shape[1], len(states) ** -0.5)
        return cls(np.mean(states, axis=0), np.std(states, axis=0), error, error / 2**0.5)


class Path(NamedTuple):
    """Some of the states on the way of all chains, in any order: every array has the shape (m, n, ...).

    Attributes:
        steps: which of all steps these are, of shape (m,).
        states: in the particles' own coordinates.
        pulls: there, in the coordinates of the frame.
        log_densities: there.
        durations: how long the particles stayed there.
    """

    steps: np.ndarray
    states: np.ndarray
    pulls: np.ndarray
    log_densities: np.ndarray
    durations: np.ndarray

    def in_time(self) -> "Path":
        """Return it in the order of time, all but the states in double precision."""
        order = np.argsort(self.steps)
        pulls, log_densities, durations = (np.asarray(each, float)[order] for each in self[2:])
        return Path(self.steps[order], self.states[order], pulls, log_densities, durations)


@dataclasses.dataclass(frozen=True)
class Recollection:
    """Averages over the way of every chain that counts, in the coordinates of the frame, and some of its states.

    Attributes:
        count: the number of steps.
        blocked: the share of moves that were not made, because the density ends there.
        frame: the coordinates; NumPy's arrays go through it as JAX's do.
        time: that every chain took.
        home: which chains count; the others are lost.
        shares: of every chain that counts in the time of all of them; together 1.
        points: the average of u, one row per chain.
        squares: that of u^2.
        pulls: that of g.
        products: that of u g.
        path: some states of all chains.
        noisy: whether steps saw minibatches, and more than one.
    """

    count: int
    blocked: float
    frame: Any
    time: np.ndarray
    home: np.ndarray
    shares: np.ndarray
    points: np.ndarray
    squares: np.ndarray
    pulls: np.ndarray
    products: np.ndarray
    path: Path
    noisy: bool

    @classmethod
    def of(cls, count, blocked, frame, time, points, squares, pulls, products, heights, path, noisy) -> "Recollection":
        """Return it without the chains that are lost, given the time of each."""
        home = ~lost_chains(heights, squares - points**2)
        shares = time[home] / np.sum(time[home])
        points, squares, pulls, products = (each[home] for each in (points, squares, pulls, products))
        return cls(count, blocked, frame, time, home, shares, points, squares, pulls, products, path, noisy)

    @property
    def states(self) -> np.ndarray:
        """Some of the states, in the particles' own coordinates and in the order of time, of shape (m, n, d).

        They count equally: those where a particle stayed long come several times.
        """
        return self._evenly[0]

    @property
    def state_pulls(self) -> np.ndarray:
        """The pulls at these states, in the coordinates of the frame."""
        return self._evenly[1]

    @property
    def log_densities(self) -> np.ndarray:
        """The log densities at these states."""
        return self._evenly[2]

    @functools.cached_property
    def _evenly(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        path, shares = self.path.in_time(), np.where(self.home, self.time, 0.0) / np.sum(self.time[self.home])
        stayed = path.durations / np.sum(path.durations, axis=0)
        chosen = even_sample(stayed.size, stayed.size, (stayed * shares).T.ravel())
        return _taken(path.states, chosen), _taken(path.pulls, chosen), _taken(path.log_densities, chosen)

    @functools.cached_property
    def drift(self) -> float:
        """By how many sds the mean of a coordinate moved from the first half of the way to the second."""
        path, late = self.path.in_time(), np.arange(len(self.path.steps)) >= len(self.path.steps) // 2
        stayed = (path.durations / np.sum(path.durations, axis=0))[:, self.home]
        return float(drift_of(np.asarray(self.frame.points(path.states[:, self.home]), float), stayed, late))

    @property
    def lost(self) -> int:
        """How many chains do not count."""
        return int(np.sum(~self.home))

    @property
    def enough(self) -> bool:
        """Whether the moments are as precise as those of 10,000 independent draws, and the chains agree."""
        if self.count < _FEWEST or self.mixing() >= _MIXED:
            return False
        moments = self.moments()  # before the drift, for which all states are looked at
        precise = max(self.mean_error(moments), float(np.max(moments.sd_error))) < _PRECISE
        return precise and self.drift == 0

    @functools.cached_property
    def modes(self) -> Modes | None:
        """The modes between which chains do not pass; None where all have seen the same, or log p is unknown."""
        if not self.mixing() >= _ONE_MODE or np.all(np.isnan(self.log_densities)):  # R-hat is no number on overflow
            return None
        _, num_chains, dim = self.states.shape
        points = np.asarray(self.frame.points(self.states), float).reshape(-1, dim)
        return Modes.of(points, self.log_densities.ravel(), np.arange(len(points)) % num_chains)

    def moments(self, *, controlled: bool = True) -> Moments:
        """Return the moments of all states in the coordinates of the frame, with or without control variates.

        Where the density ends at an edge, their identities do not hold, and half of a Gaussian would be taken for all.
        """
        points, average = self.points, _controlled if controlled and not self.blocked else _plain
        of_pulls, of_products = self.chance_of_batches
        mean, mean_error = average(self.shares, points, self.pulls, of_pulls)
        about = self.squares - 2 * points * mean + mean**2
        variance, variance_error = average(self.shares, about, self.products - mean * self.pulls + 1, of_products)
        variance = np.maximum(variance, np.finfo(np.float32).tiny)
        sd = np.sqrt(variance)
        return Moments(mean, sd, mean_error / sd, 0.5 * variance_error / variance)

    @functools.cached_property
    def chance_of_batches(self) -> tuple[np.ndarray, np.ndarray]:
        """What minibatches add to the variances of the average pull, and of its product with the point."""
        if not self.noisy:
            return np.zeros(self.pulls.shape[1]), np.zeros(self.pulls.shape[1])
        u, g = self._kept()
        of_pulls, of_products = map(_shared_variance, (g, (u - self.shares @ self.points) * g))
        return of_pulls / self.count, of_products / self.count

    def _kept(self):
        """Return the kept states of chains that count, and the pulls there, in the coordinates of the frame."""
        u = self.frame.points(self.path.states[:, self.home])
        return np.asarray(u, float), np.asarray(self.path.pulls[:, self.home], float)

    @functools.cached_property
    def best_moments(self) -> Moments:
        """The same, with the means of control functionals in the coordinates in which these are far more precise.

        They take a moment, and are not tried where all means are precise enough. They need scores: where there are no
        more particles than dimensions, the pulls are none. Where the density ends at an edge, their identity does not
        hold. Separated modes are weighed by their mass. Where the two means differ by more than chance, the scores are
        not those of what the particles have seen. And those of minibatches are wrong for all chains at once, whose
        scatter is then not the error.
        """
        found, (_, num_chains, dim) = self.moments(), self.states.shape
        wanted = np.max(found.mean_error) > _PRECISE  # not where nothing is finite
        if not wanted or self.noisy or num_chains <= dim or self.blocked > 0 or self.modes is not None:
            return found
        u = np.asarray(self.frame.points(self.states), float)
        mean, error = functionals.average(u, self.state_pulls, u)
        moved, error = np.abs(mean - found.mean) / found.sd, error / found.sd
        better = (error < _DECISIVE * found.mean_error) & (moved < beyond_chance(num_chains) * found.mean_error)
        return Moments(
            np.where(better, mean, found.mean), found.sd, np.where(better, error, found.mean_error), found.sd_error
        )

    def correlations(self) -> np.ndarray:
        """Return those of the states, in a frame in which M = I, with control variates where the moments have them.

        On a Gaussian, uu' + (ug' + gu') / 2 is a constant. Every entry has a coefficient of its own: where the states
        are not as M says, those of steep directions are mostly noise.
        """
        dim = self.points.shape[1]
        u, g = (each.reshape(-1, dim) for each in (self.frame.points(self.states), self.state_pulls))
        if self.blocked:
            return np.corrcoef(u, rowvar=False).reshape(dim, dim)
        u, g = u - np.mean(u, axis=0), g - np.mean(g, axis=0)

        def twice(a, b):
            """Return the averages of a_i b_j + a_j b_i."""
            products = a.T @ b / len(u)
            return products + products.T

        covariance, control = 0.5 * twice(u, u), 0.5 * twice(u, g)
        shared = 0.5 * twice(u**2, u * g) - covariance * control
        control_variance = 0.25 * (twice(u**2, g**2) + twice(u * g, u * g)) - control**2
        variance = 0.5 * twice(u**2, u**2) - covariance**2
        slope = shared / np.maximum(control_variance, 1e-30)
        explained = slope * shared / np.maximum(variance, 1e-30)
        if self.noisy:
            by_chance = control_variance / len(u)
            explained *= by_chance / np.maximum(by_chance + self._chance_of_products(control_variance), 1e-30)
        covariance -= explained * slope * (control + np.eye(dim))
        sds = np.sqrt(np.maximum(np.diag(covariance), 1e-30))
        return covariance / sds[:, None] / sds

    def _chance_of_products(self, variance):
        """Return what minibatches add to the variances of averages of (u_i g_j + u_j g_i) / 2 over the kept states."""
        u, g = self._kept()
        u = u - self.shares @ self.points
        products = [(a.T @ b + b.T @ a) / (2 * len(a)) for a, b in zip(u, g, strict=True)]
        return np.maximum(np.var(products, axis=0, ddof=1) - variance / u.shape[1], 0.0) / len(products)

    def pull(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the average pull in every coordinate, zero under the target, and its standard error."""
        pull, error = _plain(self.shares, self.pulls)
        return pull, np.sqrt(error**2 + self.chance_of_batches[0])

    def dispersion(self) -> tuple[np.ndarray, np.ndarray]:
        """Return -E[(u - mean) g] in every coordinate, one under the target, and its standard error."""
        dispersion, error = _plain(self.shares, self.shares @ self.points * self.pulls - self.products)
        return dispersion, np.sqrt(error**2 + self.chance_of_batches[1])

    def mixing(self) -> float:
        """Return the worst R-hat of any coordinate: 1 where every chain has seen what all have seen."""
        within = self.shares @ (self.squares - self.points**2)
        between = self.shares @ (self.points - self.shares @ self.points) ** 2
        return float(np.sqrt(1 + np.max(between / np.maximum(within, 1e-30))))

    def labels_switch(self) -> bool:
        """Say whether the modes look like one with its labels switched."""
        return self.modes is not None and self.modes.switch_labels(self.states.reshape(-1, self.states.shape[2]))

    def mean_error(self, moments: Moments) -> float:
        """Return the error of the mean, in sds, root mean square: by chance, and by a pull beyond chance."""
        pull, error = self.pull()
        return float(np.sqrt(np.mean(moments.mean_error**2) + np.mean(np.maximum(pull**2 - 4 * error**2, 0.0))))

    def findings(self, moments: Moments) -> dict[str, float]:
        """Return what the trajectory says about itself, for the verdict; R-hat is that within modes, where they are."""
        dispersion, error = self.dispersion()
        low, high = np.argmin(dispersion), np.argmax(dispersion)
        return {
            "mixing": self.mixing() if self.modes is None else self.modes.mixing(),
            "modes": 1 if self.modes is None else self.modes.count,
            "labels_switch": float(self.labels_switch()),
            "drift": self.drift,
            "blocked": self.blocked,
            "lost": self.lost / len(self.home),
            "mean_error": self.mean_error(moments),
            "sd_error": float(np.max(moments.sd_error)),
            "dispersion": float(np.median(dispersion)),
            "dispersion_min": float(dispersion[low]),
            "dispersion_min_error": float(error[low]),
            "dispersion_max": float(dispersion[high]),
            "dispersion_max_error": float(error[high]),
        }


def lost_chains(log_densities: Any, variances: Any, xp: Any = np) -> Any:
    r"""Say of every chain whether it stayed where there is no mass: 10 + sqrt(d) + d/10 nats below the best twentieth.

    Chains of one mode scatter, the worst by 0.3 to 1.5 times sqrt(d) after fifty steps, by 3 in a narrow funnel, and in
    2,429 dimensions, where errors of the sds add up, by 0.1 d.

    Args:
        log_densities: the average of every chain.
        variances: of its states, one row per chain.
        xp: NumPy, or JAX's in compiled code.
    """
    dim = variances.shape[1]
    log_masses = log_densities + 0.5 * xp.sum(xp.log(xp.maximum(variances, 1e-30)), axis=1)
    below = xp.sort(log_masses)[-1 - len(log_masses) // 20] - log_masses
    return below > _NO_MASS + dim**0.5 + _UNSURE * dim  # nobody, where log p is unknown


def drift_of(points: Any, durations: Any, late: Any, xp: Any = np) -> Any:
    """Return by how many sds the mean of a coordinate moved from the first half of the way to the second.

    That of the coordinate that moved most; 0 where none moved further than chance explains, by the scatter of the
    chains. Chains that agree with each other may all be on their way.

    Args:
        points: states, of shape (m, n, d).
        durations: how long each was kept, of shape (m, n).
        late: which of the m are of the second half.
        xp: NumPy, or JAX's in compiled code.
    """
    weights = xp.maximum(durations, 1e-30)[..., None]

    def mean(values, weights, axis):
        return xp.sum(weights * values, axis=axis) / xp.maximum(xp.sum(weights, axis=axis), 1e-30)

    first, second = (xp.where(part[:, None, None], weights, 0.0) for part in (~late, late))
    moved = mean(points, second, 0) - mean(points, first, 0)
    shift, error = xp.mean(moved, axis=0), xp.std(moved, axis=0) * len(moved) ** -0.5
    both = (0, 1)
    variances = mean((points - mean(points, weights, both)) ** 2, weights, both)
    clearly = xp.any(~late) & (xp.abs(shift) > beyond_chance(len(moved)) * error)
    return xp.max(xp.where(clearly, xp.abs(shift) / xp.sqrt(xp.maximum(variances, 1e-30)), 0.0))


def beyond_chance(num_chains: int) -> float:
    """Return by how many of its standard errors a mean of so many chains moves by chance once in 100,000.

    This is Student's t by Wallace's formula (1959): ten chains do not know their own scatter well.
    """
    free = max(num_chains - 1, 1)
    return math.sqrt(free * math.expm1(_CHANCE**2 * (free - 5 / 6) / (free - 2 / 3 + 0.1 / free) ** 2))


def _taken(states, chosen):
    """Return as many of the states (m, n, ...), given their numbers, which count chain after chain."""
    by_chain = np.swapaxes(states, 0, 1)
    return np.swapaxes(by_chain.reshape(-1, *states.shape[2:])[chosen].reshape(by_chain.shape), 0, 1)


def _shared_variance(values):
    """Return the variance of what all chains (m, n, d) share at a step, which is not the same at all steps."""
    scatter = np.mean(np.var(values, axis=1), axis=0) / values.shape[1]
    return np.maximum(np.var(np.mean(values, axis=1), axis=0, ddof=1) - scatter, 0.0)


def _plain(shares, values, control=None, shared=None):
    """Return the mean of what all chains say, and its standard error: that of a ratio of two sums over the chains."""
    mean = shares @ values
    return mean, np.sqrt(shares**2 @ (values - mean) ** 2)


def _controlled(shares, values, control, shared):
    """The same less what `control`, whose expectation is zero under the target, explains, as far as it is trusted.

    That is as far as it explains anything (R²). And where its own mean is further from zero than chance puts it, it
    tells of the length of the steps rather than of chance; on a Gaussian, where R² is 1, it cannot. `shared` is the
    variance that all chains have in common, and values have not.
    """
    mean, control_mean = shares @ values, shares @ control
    v, c = values - mean, control - control_mean
    variance = np.maximum(shares**2 @ c**2, 1e-30)
    slope = shares**2 @ (v * c) / variance
    explained = slope**2 * variance / np.maximum(shares**2 @ v**2, 1e-30)
    bias = (1 - explained) * np.maximum(control_mean**2 - variance - shared, 0.0)
    slope = explained * variance / (variance + bias + shared) * slope
    mean, error = _plain(shares, values - slope * control)
    return mean, np.sqrt(error**2 + slope**2 * shared)
