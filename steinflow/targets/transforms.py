"""From R^d to the user's space and back, by the bijections of NumPyro.

`constraints` is None (all real), one constraint for everything, or a pytree of constraints and Nones that is a prefix
of the parameters. `sf.constraints` is `numpyro.distributions.constraints`: positive, unit_interval, interval(a, b),
simplex, ordered_vector, corr_cholesky, and more.
"""

import jax
import jax.numpy as jnp

from steinflow.typing import Params, PyTree, Scalar


def constrain(constraints: PyTree, params: Params) -> tuple[Params, Scalar | float]:
    """Take one unconstrained particle to the user's space; return it with the log-determinant of the map."""
    if constraints is None:
        return params, 0.0
    leaves, structure = jax.tree.flatten(params)
    values, log_determinant = [], jnp.zeros(())
    for bijection, x in zip(_bijections(constraints, params), leaves, strict=True):
        y = bijection(x)
        values.append(y)
        log_determinant += jnp.sum(bijection.log_abs_det_jacobian(x, y))
    return jax.tree.unflatten(structure, values), log_determinant


def unconstrain(constraints: PyTree, params: Params) -> Params:
    """Take one particle from the user's space to the unconstrained one; NaN for a point outside."""
    if constraints is None:
        return params
    leaves, structure = jax.tree.flatten(params)
    bijections = _bijections(constraints, params)
    return jax.tree.unflatten(structure, [_inverse(b, y) for b, y in zip(bijections, leaves, strict=True)])


def _inverse(bijection, y):
    x = bijection.inv(y)
    # Some bijections take a point outside of the support to a finite one: only the way back shows it.
    back = bijection(x)
    return jnp.where(jnp.allclose(back, y, rtol=1e-2, atol=1e-3), x, jnp.nan)


def _bijections(constraints, params):
    """One bijection for every leaf of params."""
    from numpyro import distributions  # a third of a second, paid only where constraints are used

    def is_leaf(node):
        return node is None or isinstance(node, distributions.constraints.Constraint)

    try:
        matched = jax.tree.broadcast(constraints, params, is_leaf=is_leaf)
    except ValueError as error:
        raise ValueError(
            "constraints must be one constraint, or a pytree that matches the particle (or a prefix of it); "
            f"got {constraints!r} for a particle of structure {jax.tree.structure(params)}."
        ) from error
    leaves = jax.tree.leaves(matched, is_leaf=is_leaf)
    if wrong := [leaf for leaf in leaves if not is_leaf(leaf)]:
        raise TypeError(
            f"constraints must be None or from sf.constraints, such as sf.constraints.positive; got {wrong[0]!r}."
        )
    return [distributions.biject_to(distributions.constraints.real if leaf is None else leaf) for leaf in leaves]
