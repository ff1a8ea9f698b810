r"""Annealing: any method on a target that starts flat and sharpens (Neal 1996; for SVGD D'Angelo & Fortuin 2021).

$$\log p_t(x) = \beta_t \log p(x), \qquad \beta_t = \beta_0^{\,1 - t / a}$$

for t, the part of the run that is done, below a; then $\beta = 1$. At a high temperature 1 / \beta the valleys between
modes are shallow: particles spread over all of them before the valleys deepen.
"""

import jax.numpy as jnp

from steinflow.methods.base import Method


class Annealed(Method):
    """A method that first runs on flatter versions of the target, for separated modes: `sf.Annealed(sf.SVGD())`.

    Known bias: modes that separate while the target is still flat keep the number of particles that they have at that
    moment. A density whose tails fall more slowly than |x|^(-d / start) cannot be normalised at first; use a larger
    `start` for it.

    Args:
        method: the method to run.
        start: the inverse temperature of the first step, between 0 and 1.
        until: the fraction of the run over which it rises to 1.

    Raises:
        TypeError: if `method` is no method.
        ValueError: if `start` or `until` is not above 0 and at most 1.
    """

    method: Method
    start: float = 0.1
    until: float = 0.4

    def __check_init__(self):
        if not isinstance(self.method, Method):
            raise TypeError(f"Annealed needs a method, as in sf.Annealed(sf.SVGD()); got {self.method!r}.")
        if not 0 < self.start <= 1 or not 0 < self.until <= 1:
            raise ValueError(
                "start (an inverse temperature) and until (a fraction of the run) must be above 0 and at most 1; "
                f"got {self.start} and {self.until}."
            )

    def init(self, target, particles, *, num_steps, key):
        return self.method.init(target, particles, num_steps=num_steps, key=key)

    def step(self, target, state, batch, *, time, key):
        done = jnp.minimum(time.fraction / self.until, 1.0)
        return self.method.step(target.tempered(self.start ** (1 - done)), state, batch, time=time, key=key)

    def done(self, state):
        return self.method.done(state)

    def settle(self, target, state):
        return self.method.settle(target, state)

    def draws(self, target, state, *, key):
        return self.method.draws(target, state, key=key)
