"""Scores from outside JAX: PyTorch, Stan, a simulator with an adjoint. Compiled code does the rest."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.base import ConstrainedTarget
from steinflow.typing import Params, PRNGKeyArray, PyTree, Scalar


def from_score(
    function: Callable[[Params], PyTree],
    *,
    with_log_density: bool = False,
    prior: Callable[[PRNGKeyArray], Params] | None = None,
    constraints: PyTree = None,
) -> "ScoreTarget":
    """Return a target given by a function that computes the scores of all particles with NumPy.

    The function is called once a step, with all particles at once. It must not call JAX. Methods that compare densities
    (NUTS, NPV) need `with_log_density`; SVGD and SGLD do not.

    Args:
        function: a function of all particles (NumPy arrays with a leading axis, in the structure that `fit` was given)
            that returns the gradient of the log density at each of them, in the same structure.
        with_log_density: whether the function returns a pair: the scores, and one log density per particle.
        prior: a function of a key that returns one starting particle.
        constraints: as for `sf.Density`; scores and log densities refer to the user's space.

    Raises:
        TypeError: if `function` cannot be called.

    Example:
        ```python
        import numpy as np, steinflow as sf

        target = sf.from_score(lambda x: -(x - 3) / 0.25)
        result = sf.fit(target, particles=np.random.default_rng(0).normal(size=(50, 2)))
        ```
    """
    if not callable(function):
        raise TypeError(f"from_score takes a function from particles to their scores; got {function!r}.")
    return ScoreTarget(_Outside(function, with_log_density=with_log_density), prior=prior, constraints=constraints)


class ScoreTarget(ConstrainedTarget):
    """A target whose scores come from outside JAX; `from_score` makes it."""

    outside: "_Outside"  # compared by identity: JAX does not look inside

    @property
    def knows_log_density(self):
        return self.outside.with_log_density

    def user_log_density(self, params, batch):
        return jnp.asarray(_log_density(self.outside, params))


class _Outside:
    """The user's function, as JAX calls it."""

    def __init__(self, function, *, with_log_density: bool):
        self.function = function
        self.with_log_density = with_log_density

    def __call__(self, params: Params) -> tuple[Scalar, Params]:
        """Return the log density and the score of one particle; under vmap, one call serves all particles."""
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params)
        first = jax.tree.leaves(like)[0]

        def evaluate(params):
            leading = jnp.shape(jax.tree.leaves(params)[0])
            leading = leading[: len(leading) - len(first.shape)]  # the axes of vmap
            particles = jax.tree.map(lambda x, one: np.asarray(x).reshape(-1, *one.shape), params, like)
            values, scores = self._checked(particles)
            scores = jax.tree.map(lambda x, one: x.astype(one.dtype).reshape(*leading, *one.shape), scores, like)
            return values.astype(first.dtype).reshape(leading), scores

        value = jax.ShapeDtypeStruct((), first.dtype)
        return jax.pure_callback(evaluate, (value, like), params, vmap_method="broadcast_all")

    def _checked(self, particles):
        """Call the user's function and say what is wrong with what it returns."""
        returned = self.function(particles)
        num_particles = len(jax.tree.leaves(particles)[0])
        values = np.full(num_particles, np.nan)
        if self.with_log_density:
            if not (isinstance(returned, tuple) and len(returned) == 2):
                raise ValueError(
                    "With with_log_density=True the function must return a pair: scores and one log density per "
                    f"particle; got {type(returned).__name__}."
                )
            returned, values = returned[0], np.asarray(returned[1])
        if values.shape != (num_particles,):
            raise ValueError(f"The function must return {num_particles} log densities; got shape {values.shape}.")
        expected, found = jax.tree.map(np.shape, particles), jax.tree.map(np.shape, returned)
        if expected != found:
            raise ValueError(f"The scores must have the shape of the particles, {expected}; got {found}.")
        return values, jax.tree.map(np.asarray, returned)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_density(outside, params):
    return outside(params)[0]


def _forward(outside, params):
    return outside(params)


def _backward(outside, score, cotangent):
    return (jax.tree.map(lambda x: cotangent * x, score),)


_log_density.defvjp(_forward, _backward)
