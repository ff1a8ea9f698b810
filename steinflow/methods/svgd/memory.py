r"""What particles remember of their way: moments and states of the whole trajectory, n times hundreds of them.

Every particle is a chain, and the chains are independent, but for the metric that they share: the scatter of their
averages says how precise the moments are. Stein's identity makes them more so, at no cost (control variates; Mira,
Solgi & Imparato 2013). For z, a coordinate of a particle, and $g = M s$, the score times the covariance that the moves
assume, under the target

$$E[g_k] = 0, \qquad E[(z_k - \mu_k)\, g_k] = -M_{kk},$$

and on a Gaussian target with covariance M, $z_k + g_k$ and $(z_k - \mu_k)(z_k - \mu_k + g_k)$ are constants: what an
average of g says of the chance in an average of z is taken out, as far as the chains show the one to explain the other.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from steinflow.typing import Array, Particles, Scalar

_STATES = 4000  # of all particles together; enough for a tail, little beside the rest


class Moments(eqx.Module):
    """Mean and sd of every coordinate, and their standard errors in units of the sd."""

    mean: Array
    sd: Array
    mean_error: Array
    sd_error: Array


class Trajectory(eqx.Module):
    """Sums over the way of every particle, in units of the cloud at its start, and some of the states."""

    center: Array
    scale: Array
    count: Scalar
    positions: Array
    squares: Array
    pulls: Array
    products: Array
    level: Array
    states: Array  # in turns, the last row being a scrap
    filled: Array

    @classmethod
    def empty(cls, particles: Particles, num_steps: int) -> "Trajectory":
        """Return a memory of nothing, with room for the states of `num_steps` steps or fewer."""
        num_particles, dim = particles.shape
        num_states = min(max(-(-_STATES // num_particles), 4), max(num_steps, 1))
        zeros, nothing = jnp.zeros_like(particles), jnp.zeros(dim, particles.dtype)
        states = jnp.zeros((num_states + 1, num_particles, dim), particles.dtype)
        return cls(nothing, nothing + 1, nothing[0], zeros, zeros, zeros, zeros, nothing, states, jnp.asarray(0))

    def begin(self, particles: Particles, *, where: Array) -> "Trajectory":
        """Return the memory with its units taken from this cloud, where so: small numbers add up precisely."""
        sds = jnp.std(particles, axis=0)
        center = jnp.where(where, jnp.mean(particles, axis=0), self.center)
        scale = jnp.where(where & (sds > 0), sds, self.scale)
        return dataclasses.replace(self, center=center, scale=scale)

    @property
    def complete(self) -> Array:
        """Whether there is nothing more to come."""
        return self.filled == len(self.states) - 1

    def add(
        self, particles: Particles, pulls: Array, level: Array, *, part: Scalar, remembering: Array
    ) -> "Trajectory":
        """Return the memory with one more state.

        Args:
            particles: the state.
            pulls: M s there.
            level: the diagonal of M.
            part: which part of all that is to be remembered is done.
            remembering: whether to; states outside are not added.
        """
        z, g = (particles - self.center) / self.scale, pulls / self.scale
        last = len(self.states) - 1
        slot = jnp.where(remembering, jnp.clip((part * last).astype(int), 0, last - 1), last)

        def plus(total, new):
            return total + jnp.where(remembering, new, 0.0)

        return dataclasses.replace(
            self,
            count=plus(self.count, 1.0),
            positions=plus(self.positions, z),
            squares=plus(self.squares, z**2),
            pulls=plus(self.pulls, g),
            products=plus(self.products, z * g),
            level=jnp.where(remembering, level / self.scale**2, self.level),
            states=self.states.at[slot].set(particles),
            filled=jnp.where(remembering, slot + 1, self.filled),
        )

    def moments(self, *, controlled: bool = True) -> Moments:
        """Return the moments of all states, with or without control variates."""
        count = jnp.maximum(self.count, 1.0)
        positions, squares, pulls, products = (
            total / count for total in (self.positions, self.squares, self.pulls, self.products)
        )
        average = _controlled if controlled else _plain
        mean, mean_error = average(positions, pulls)
        about = squares - 2 * positions * mean + mean**2
        variance, variance_error = average(about, products - mean * pulls + self.level)
        variance = jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)
        sd = jnp.sqrt(variance)
        return Moments(
            self.center + self.scale * mean, self.scale * sd, mean_error / sd, 0.5 * variance_error / variance
        )

    def mixing(self) -> Scalar:
        """Return the worst R-hat of any coordinate: 1 where every chain has seen what all have seen."""
        count = jnp.maximum(self.count, 1.0)
        means = self.positions / count
        within = jnp.mean(self.squares / count - means**2, axis=0)
        return jnp.sqrt(1 + jnp.max(jnp.var(means, axis=0) / jnp.maximum(within, 1e-30)))

    def imprinted(self, particles: Particles) -> Particles:
        """Return the particles with the marginals of the trajectory, as far as it knows better than they.

        First the shapes of the marginals, particle by particle in their order; then mean and sd, which control variates
        make more precise. What is no further from the particles than its own error is left as it is.
        """
        plain = self.moments(controlled=False)
        moved = self._marginals(plain)
        ranks = jnp.argsort(jnp.argsort(particles, axis=0), axis=0)
        shifts = jnp.take_along_axis(moved, ranks, axis=0) - particles
        distance = jnp.mean(shifts**2, axis=0) / plain.sd**2
        shaped = particles + _believed(distance, plain.mean_error**2 + plain.sd_error**2) * shifts

        best = self.moments()
        mean, sd = jnp.mean(shaped, axis=0), jnp.std(shaped, axis=0)
        shift, stretch = (best.mean - mean) / best.sd, jnp.log(best.sd / sd)
        shift *= _believed(shift**2, best.mean_error**2)
        stretch *= _believed(stretch**2, best.sd_error**2)
        return mean + shift * best.sd + jnp.exp(stretch) * (shaped - mean)

    def _marginals(self, plain):
        """Return n values of every coordinate in ascending order, each for an n-th part of the remembered states."""
        num_parts = self.positions.shape[0]
        states = jnp.sort(self.states[:-1].reshape(-1, self.states.shape[-1]), axis=0)
        deviations = states.reshape(num_parts, -1, states.shape[1]) - plain.mean
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
