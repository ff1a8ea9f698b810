r"""What particles remember of their way: moments and states of the whole trajectory, n times hundreds of them.

Every particle is a chain, and the chains are independent, but for the metric that they share: the scatter of their
averages says how precise the moments are. Stein's identity makes them more so, at no cost (control variates; Mira,
Solgi & Imparato 2013). For u, a particle in coordinates of unit scale, and g = M s, the pull of its score there, M
being the covariance that the walk assumes, with a diagonal of ones, under the target

$$E[g_k] = 0, \qquad E[(u_k - \mu_k)\, g_k] = -1,$$

and on a Gaussian target with covariance M, $u_k + g_k$ and $(u_k - \mu_k)(u_k - \mu_k + g_k)$ are constants: what an
average of g says of the chance in an average of u is taken out, as far as the chains show the one to explain the other.
The same identities say whether the trajectory is one of the target: that is for the verdict.

The coordinates are those of the walk, in which M = I. Sums are compiled with the steps; what they say is worked out on
the host, in NumPy.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.methods.svgd.metrics import Frame
from steinflow.methods.svgd.modes import Modes
from steinflow.typing import Array, Particles, Scalar

_STATES = 4000  # of all particles together; enough for a tail, little beside the rest
_GOLDEN = 2654435769  # 2^32 over the golden ratio
_FEWEST = 50  # steps before the chains can say whether they agree
_ONE_MODE = 1.2  # R-hat up to which nobody looks for modes
_PRECISE, _MIXED = 0.01, 1.05  # error of mean and sd in sds, that of 10,000 draws; R-hat


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


class Trajectory(eqx.Module):
    """Sums over the way of every particle, and some of its states."""

    frame: Frame  # the coordinates of the sums
    count: Scalar
    points: Array
    squares: Array
    pulls: Array
    products: Array
    states: Array  # of some steps, in the particles' own coordinates; the last row is a scrap
    log_densities: Array  # there
    times: Array  # which steps these are

    @classmethod
    def empty(cls, particles: Particles, frame: Frame, num_steps: int) -> "Trajectory":
        """Return a memory of nothing, with room for the states of `num_steps` steps or fewer."""
        num_particles, dim = particles.shape
        num_states = min(max(-(-_STATES // num_particles), 4), max(num_steps, 1))
        zeros = jnp.zeros_like(particles)
        states = jnp.zeros((num_states + 1, num_particles, dim), particles.dtype)
        times = jnp.zeros(num_states + 1, jnp.int32)
        return cls(frame, jnp.zeros((), jnp.int32), zeros, zeros, zeros, zeros, states, states[..., 0], times)

    def add(
        self, particles: Particles, log_densities: Array, pulls: Array, frame: Frame, *, remembering: Array
    ) -> "Trajectory":
        """Return the memory with one more state.

        Args:
            particles: the state.
            log_densities: there, up to a constant.
            pulls: the scores there, times the covariance that the walk assumes, in the coordinates of the frame.
            frame: the coordinates to remember it in, the same for all states.
            remembering: whether to; states outside are not added.
        """
        u, slot = frame.points(particles), jnp.where(remembering, self._slot(), len(self.states) - 1)

        def plus(total, new):
            return total + jnp.where(remembering, new, 0.0)

        return Trajectory(
            frame=jax.tree.map(lambda old, new: jnp.where(remembering, new, old), self.frame, frame),
            count=self.count + remembering.astype(self.count.dtype),
            points=plus(self.points, u),
            squares=plus(self.squares, u**2),
            pulls=plus(self.pulls, pulls),
            products=plus(self.products, u * pulls),
            states=self.states.at[slot].set(particles),
            log_densities=self.log_densities.at[slot].set(log_densities),
            times=self.times.at[slot].set(self.count),
        )

    def _slot(self) -> Array:
        """Return where the next state goes, so that at any time all steps so far are equally likely to be kept.

        This is reservoir sampling: the (t + 1)-th state replaces one of the m that are kept with probability
        m / (t + 1). The multiples of the golden ratio take the place of random numbers.
        """
        last = len(self.states) - 1
        fraction = (self.count.astype(jnp.uint32) * jnp.uint32(_GOLDEN)).astype(jnp.float32) * np.float32(2.0**-32)
        drawn = (fraction * (self.count + 1).astype(jnp.float32)).astype(jnp.int32)
        return jnp.where(self.count < last, self.count, jnp.minimum(drawn, last))

    @property
    def enough(self) -> bool:
        """Whether the moments are as precise as those of 10,000 independent draws, and the chains agree."""
        if int(self.count) < _FEWEST:
            return False
        found = self.findings()
        return found["mixing"] < _MIXED and max(found["mean_error"], found["sd_error"]) < _PRECISE

    def host_frame(self) -> Any:
        """Return the frame in double precision; NumPy's arrays go through it as JAX's do."""
        return jax.tree.map(lambda leaf: np.asarray(leaf, float), self.frame)

    def kept_states(self) -> np.ndarray:
        """Return the states that are kept, in the order of time, shape (m, n, d)."""
        return np.asarray(self.states)[self._in_time()]

    def modes(self) -> Modes | None:
        """Return the modes between which chains do not pass; None where all have seen the same, or log p is unknown."""
        states, log_densities = self.kept_states(), np.asarray(self.log_densities, float)[self._in_time()].ravel()
        if self.mixing() < _ONE_MODE or np.all(np.isnan(log_densities)):
            return None
        _, num_chains, dim = states.shape
        points = np.asarray(self.host_frame().points(states), float).reshape(-1, dim)
        return Modes.of(points, log_densities, np.arange(len(points)) % num_chains)

    def _in_time(self) -> np.ndarray:
        return np.argsort(np.asarray(self.times)[: min(int(self.count), len(self.states) - 1)])

    def moments(self, *, controlled: bool = True) -> Moments:
        """Return the moments of all states in the coordinates of the frame, with or without control variates."""
        points, squares, pulls, products = self._averages()
        average = _controlled if controlled else _plain
        mean, mean_error = average(points, pulls)
        about = squares - 2 * points * mean + mean**2
        variance, variance_error = average(about, products - mean * pulls + 1)
        variance = np.maximum(variance, np.finfo(np.float32).tiny)
        sd = np.sqrt(variance)
        return Moments(mean, sd, mean_error / sd, 0.5 * variance_error / variance)

    def pull(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the average pull in every coordinate, zero under the target, and its standard error."""
        return _plain(self._averages()[2])

    def dispersion(self) -> tuple[np.ndarray, np.ndarray]:
        """Return -E[(u - mean) g] in every coordinate, one under the target, and its standard error."""
        points, _, pulls, products = self._averages()
        return _plain(np.mean(points, axis=0) * pulls - products)

    def mixing(self) -> float:
        """Return the worst R-hat of any coordinate: 1 where every chain has seen what all have seen."""
        means, squares, *_ = self._averages()
        within = np.mean(squares - means**2, axis=0)
        return float(np.sqrt(1 + np.max(np.var(means, axis=0) / np.maximum(within, 1e-30))))

    def findings(self, modes: Modes | None = None) -> dict[str, float]:
        """Return what the trajectory says about itself, for the verdict; R-hat is that within modes, where they are."""
        moments, (pull, pull_error), (dispersion, error) = self.moments(), self.pull(), self.dispersion()
        drift = np.mean(np.maximum(pull**2 - 4 * pull_error**2, 0.0))  # beyond chance
        low, high = np.argmin(dispersion), np.argmax(dispersion)
        return {
            "mixing": self.mixing() if modes is None else modes.mixing(),
            "modes": 1 if modes is None else modes.count,
            "mean_error": float(np.sqrt(np.mean(moments.mean_error**2) + drift)),
            "sd_error": float(np.max(moments.sd_error)),
            "dispersion": float(np.median(dispersion)),
            "dispersion_min": float(dispersion[low]),
            "dispersion_min_error": float(error[low]),
            "dispersion_max": float(dispersion[high]),
            "dispersion_max_error": float(error[high]),
        }

    def _averages(self):
        count = max(float(self.count), 1.0)
        sums = self.points, self.squares, self.pulls, self.products
        return tuple(np.asarray(total, float) / count for total in sums)


def _plain(values, control=None):
    """Return the mean of what all chains say, and its standard error."""
    return np.mean(values, axis=0), np.std(values, axis=0) / len(values) ** 0.5


def _controlled(values, control):
    """The same less what `control`, whose expectation is zero, explains; trusted as far as it explains anything."""
    v, c = values - np.mean(values, axis=0), control - np.mean(control, axis=0)
    squares = np.maximum(np.sum(c**2, axis=0), 1e-30)
    slope = np.sum(v * c, axis=0) / squares
    explained = slope**2 * squares / np.maximum(np.sum(v**2, axis=0), 1e-30)
    return _plain(values - explained * slope * control)
