import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import steinflow as sf
from steinflow.targets.transforms import constrain, unconstrain

c = sf.constraints
SPACES = {
    "real": (None, jnp.array([0.3, -1.0])),
    "positive": (c.positive, jnp.array([0.3, 2.0])),
    "unit interval": (c.unit_interval, jnp.array([0.3, 0.9])),
    "interval": (c.interval(-2.0, 5.0), jnp.array([0.3, 4.0])),
    "greater than": (c.greater_than(1.0), jnp.array([1.3, 4.0])),
    "ordered": (c.ordered_vector, jnp.array([-1.0, 0.5, 2.0])),
    "simplex": (c.simplex, jnp.array([0.2, 0.5, 0.3])),
    "tree": ({"a": c.positive, "b": None}, {"a": jnp.array(2.0), "b": jnp.array([-1.0, 1.0])}),
    "prefix": ({"a": c.positive}, {"a": {"x": jnp.array(2.0), "y": [jnp.array([1.0, 3.0])]}}),
}


@pytest.mark.parametrize("name", SPACES)
def test_there_and_back_with_the_log_determinant(name):
    constraints, params = SPACES[name]
    x = unconstrain(constraints, params)
    back, log_determinant = jax.jit(lambda x: constrain(constraints, x))(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), back, params)
    flat, unravel = ravel_pytree(x)
    jacobian = jax.jit(jax.jacfwd(lambda flat: ravel_pytree(constrain(constraints, unravel(flat))[0])[0]))(flat)
    jacobian = jacobian[: len(flat)]  # the last probability of a simplex follows from the others
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(jacobian)[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("constraints", "inside", "outside"),
    [
        (c.positive, [1.0], [-1.0]),
        (c.positive, [1.0], [0.0]),
        (c.unit_interval, [0.5], [1.5]),
        (c.simplex, [0.2, 0.3, 0.5], [0.5, 0.4, 0.4]),
        (c.simplex, [0.2, 0.3, 0.5], [0.7, 0.6, -0.3]),
        (c.ordered_vector, [0.0, 1.0], [1.0, 0.0]),
        (None, [0.0], [float("inf")]),
        (None, [0.0], [float("nan")]),
    ],
)
def test_start_outside_of_the_support(constraints, inside, outside):
    target = sf.Density(jnp.sum, constraints=constraints)
    with pytest.raises(ValueError, match=r"1 of 2 particles .* inside the support"):
        sf.fit(target, particles=jnp.array([inside, outside]), num_steps=1, progress=False)


@pytest.mark.parametrize("constraints", [{"b": c.positive}, {"a": c.positive, "b": None}, [c.positive]])
def test_tree_must_match(constraints):
    target = sf.Density(lambda params: -params["a"], constraints=constraints)
    with pytest.raises(ValueError, match="pytree that matches the particle"):
        sf.fit(target, particles={"a": jnp.ones(3)}, num_steps=1, progress=False)


def test_not_a_constraint():
    target = sf.Density(lambda x: -x, constraints="positive")
    with pytest.raises(TypeError, match=r"sf\.constraints"):
        sf.fit(target, particles=jnp.ones(3), num_steps=1, progress=False)
