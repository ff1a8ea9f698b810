r"""What particles remember of their way: moments and states of the whole trajectory, n times hundreds of them.

Every particle is a chain, and the chains are independent, but for the metric that they share: the scatter of their
averages says how precise the moments are. Stein's identity makes them more so, at no cost (control variates; Mira,
Solgi & Imparato 2013). For u, a particle in coordinates of unit scale, and g = M s, the pull of its score there, M
being the covariance that the walk assumes, with a diagonal of ones, under the target

$$E[g_k] = 0, \qquad E[(u_k - \mu_k)\, g_k] = -1,$$

and on a Gaussian target with covariance M, $u_k + g_k$ and $(u_k - \mu_k)(u_k - \mu_k + g_k)$ are constants: what an
average of g says of the chance in an average of u is taken out, as far as the chains show the one to explain the other.

The coordinates are those of the walk, in which M = I: a particle that is moved by a little there stays on the ridge
that strong correlations make of a posterior.
"""

import equinox as eqx
import jax.numpy as jnp

from steinflow.methods.svgd.metrics import Frame
from steinflow.typing import Array, Particles, Scalar

_STATES = 4000  # of all particles together; enough for a tail, little beside the rest


class Moments(eqx.Module):
    """Mean and sd of every coordinate, and their standard errors in units of the sd."""

    mean: Array
    sd: Array
    mean_error: Array
    sd_error: Array


class Trajectory(eqx.Module):
    """Sums over the way of every particle, and some of its states."""

    count: Scalar
    points: Array
    squares: Array
    pulls: Array
    products: Array
    states: Array  # in turns, the last row being a scrap
    filled: Array

    @classmethod
    def empty(cls, particles: Particles, num_steps: int) -> "Trajectory":
        """Return a memory of nothing, with room for the states of `num_steps` steps or fewer."""
        num_particles, dim = particles.shape
        num_states = min(max(-(-_STATES // num_particles), 4), max(num_steps, 1))
        zeros = jnp.zeros_like(particles)
        states = jnp.zeros((num_states + 1, num_particles, dim), particles.dtype)
        return cls(jnp.zeros((), particles.dtype), zeros, zeros, zeros, zeros, states, jnp.asarray(0))

    @property
    def complete(self) -> Array:
        """Whether there is nothing more to come."""
        return self.filled == len(self.states) - 1

    def add(
        self, particles: Particles, pulls: Array, frame: Frame, *, part: Scalar, remembering: Array
    ) -> "Trajectory":
        """Return the memory with one more state.

        Args:
            particles: the state.
            pulls: the scores there, times the covariance that the walk assumes, in the coordinates of the frame.
            frame: the coordinates to remember it in.
            part: which part of all that is to be remembered is done.
            remembering: whether to; states outside are not added.
        """
        u = frame.points(particles)
        last = len(self.states) - 1
        slot = jnp.where(remembering, jnp.clip((part * last).astype(int), 0, last - 1), last)

        def plus(total, new):
            return total + jnp.where(remembering, new, 0.0)

        return Trajectory(
            count=plus(self.count, 1.0),
            points=plus(self.points, u),
            squares=plus(self.squares, u**2),
            pulls=plus(self.pulls, pulls),
            products=plus(self.products, u * pulls),
            states=self.states.at[slot].set(particles),
            filled=jnp.where(remembering, slot + 1, self.filled),
        )

    def moments(self, *, controlled: bool = True) -> Moments:
        """Return the moments of all states in the coordinates of the memory, with or without control variates."""
        points, squares, pulls, products = self._averages()
        average = _controlled if controlled else _plain
        mean, mean_error = average(points, pulls)
        about = squares - 2 * points * mean + mean**2
        variance, variance_error = average(about, products - mean * pulls + 1)
        variance = jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)
        sd = jnp.sqrt(variance)
        return Moments(mean, sd, mean_error / sd, 0.5 * variance_error / variance)

    def mixing(self) -> Scalar:
        """Return the worst R-hat of any coordinate: 1 where every chain has seen what all have seen."""
        means, squares, *_ = self._averages()
        within = jnp.mean(squares - means**2, axis=0)
        return jnp.sqrt(1 + jnp.max(jnp.var(means, axis=0) / jnp.maximum(within, 1e-30)))

    def imprinted(self, particles: Particles, frame: Frame) -> Particles:
        """Return the particles with the marginals of the trajectory, as far as it knows better than they.

        First the shapes of the marginals, particle by particle in their order; then mean and sd, which control variates
        make more precise. What is no further from the particles than its own error is left as it is.
        """
        u, plain, best = frame.points(particles), self.moments(controlled=False), self.moments()
        ranks = jnp.argsort(jnp.argsort(u, axis=0), axis=0)
        shifts = jnp.take_along_axis(self._marginals(plain, frame), ranks, axis=0) - u
        distance = jnp.mean(shifts**2, axis=0) / plain.sd**2
        shaped = u + _believed(distance, plain.mean_error**2 + plain.sd_error**2) * shifts

        mean, sd = jnp.mean(shaped, axis=0), jnp.std(shaped, axis=0)
        shift, stretch = (best.mean - mean) / best.sd, jnp.log(best.sd / sd)
        shift *= _believed(shift**2, best.mean_error**2)
        stretch *= _believed(stretch**2, best.sd_error**2)
        told = mean + shift * best.sd + jnp.exp(stretch) * (shaped - mean)
        # Where nothing moved, or everything overflowed, there is nothing to tell.
        return particles + frame.moves(jnp.where(jnp.all(jnp.isfinite(told), axis=0), told - u, 0.0))

    def _averages(self):
        count = jnp.maximum(self.count, 1.0)
        return tuple(total / count for total in (self.points, self.squares, self.pulls, self.products))

    def _marginals(self, plain, frame):
        """Return n values of every coordinate in ascending order, each for an n-th part of the remembered states."""
        states = self.states[:-1].reshape(-1, self.states.shape[-1])
        points = jnp.sort(frame.points(states), axis=0)
        deviations = points.reshape(self.points.shape[0], -1, points.shape[1]) - plain.mean
        # The root mean square of a part, not its mean: the outermost parts are wide, and the sd should be right.
        sizes = jnp.sqrt(jnp.mean(deviations**2, axis=1))
        return plain.mean + jnp.sign(jnp.mean(deviations, axis=1)) * sizes


def _plain(values, control):
    """Return the mean of what all chains say, and its standard error."""
    return jnp.mean(values, axis=0), jnp.std(values, axis=0) / values.shape[0] ** 0.5


def _controlled(values, control):
    """The same less what `control`, whose expectation is zero, explains; trusted as far as it explains anything."""
    v, c = values - jnp.mean(values, axis=0), control - jnp.mean(control, axis=0)
    squares = jnp.maximum(jnp.sum(c**2, axis=0), 1e-30)
    slope = jnp.sum(v * c, axis=0) / squares
    explained = slope**2 * squares / jnp.maximum(jnp.sum(v**2, axis=0), 1e-30)
    return _plain(values - explained * slope * control, control)


def _believed(squared_difference, squared_error):
    """Return the part of a difference that is more than chance, between 0 and 1 (the James-Stein estimate of it)."""
    return 1 - squared_error / jnp.maximum(squared_difference, jnp.maximum(squared_error, 1e-30))
