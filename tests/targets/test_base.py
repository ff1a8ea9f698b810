import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.targets.flat import flatten


def test_pytrees_are_raveled_and_back():
    def log_density(params):
        return -0.5 * params["a"] ** 2 - jnp.sum(params["b"][0] ** 2) - params["c"]

    target = sf.Density(log_density, constraints={"a": None, "b": None, "c": sf.constraints.positive})
    particles = {"a": jnp.arange(4.0), "b": [jnp.ones((4, 2, 3))], "c": jnp.arange(1.0, 5.0)}
    flat, matrix = flatten(target, particles)
    assert matrix.shape == (4, 8)
    back = flat.to_user(matrix)
    assert jax.tree.structure(back) == jax.tree.structure(particles)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), back, particles)
    np.testing.assert_allclose(flat.log_density(matrix[2]), -2 - 6 - 3 + np.log(3), rtol=1e-6)  # with log-determinant
    scores = flat.scores(matrix)
    np.testing.assert_allclose(scores, jax.vmap(jax.grad(flat.log_density))(matrix))


def test_dtype_is_kept(dtype):
    flat, matrix = flatten(sf.Density(lambda x: -jnp.sum(x**2)), jnp.ones((3, 2), dtype))
    log_densities, scores = flat.log_densities_and_scores(matrix)
    assert matrix.dtype == log_densities.dtype == scores.dtype == dtype


def test_integers_and_bools_become_floats():
    for start in [np.arange(6).reshape(3, 2), np.array([[True], [False]])]:
        assert flatten(sf.Density(lambda x: -jnp.sum(x**2)), start)[1].dtype == jnp.float32


def test_prior_draws():
    target = sf.Density(
        lambda x: -jnp.sum(x), prior=lambda key: jax.random.exponential(key, (2,)), constraints=sf.constraints.positive
    )
    result = sf.fit(target, num_particles=7, num_steps=2, progress=False)
    assert result.particles.shape == (7, 2)
    assert jnp.all(result.particles > 0)


def test_no_prior():
    with pytest.raises(ValueError, match=r"particles=x0.*prior"):
        sf.fit(lambda x: -x, num_steps=1, progress=False)


def posterior(**changes):
    arguments = {
        "log_prior": lambda w: -0.5 * w**2,
        "log_likelihood": lambda w, rows: -0.5 * (rows - w) ** 2,
        "data": np.arange(10.0),
        **changes,
    }
    return sf.Posterior(**arguments)


def test_posterior_scales_its_batch():
    rows = jnp.array([1.0, 4.0])
    value = posterior().log_density(jnp.array(0.5), rows)
    np.testing.assert_allclose(value, -0.125 - 5 * 0.5 * (0.25 + 12.25))


@pytest.mark.parametrize("batch_size", [0, -1, 11, 2.0, "all"])
def test_batch_size_out_of_range(batch_size):
    with pytest.raises(ValueError, match="between 1 and the 10 rows"):
        posterior(batch_size=batch_size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.ones(3), np.ones(4)), "same leading axis"),
        ({"x": np.ones(3), "n": 3.0}, "same leading axis"),
        ({}, "same leading axis"),
        (np.ones((0, 2)), "no rows"),
    ],
)
def test_data_must_be_rows(data, message):
    with pytest.raises(ValueError, match=message):
        posterior(data=data)


def test_data_must_be_numbers():
    with pytest.raises(TypeError, match="numbers"):
        posterior(data=np.array(["a", "b"]))


@pytest.mark.parametrize(
    "log_likelihood",
    [lambda w, rows: jnp.sum(rows - w), lambda w, rows: jnp.ones((10, 2)) * w, lambda w, rows: (rows - w)[:3]],
)
def test_one_value_per_row(log_likelihood):
    with pytest.raises(ValueError, match=r"one value per row, shape \(10,\)"):
        sf.fit(posterior(log_likelihood=log_likelihood), particles=jnp.ones(3), num_steps=1, progress=False)


@pytest.mark.parametrize("target", [None, 3.0, "normal"])
def test_not_a_target(target):
    with pytest.raises(TypeError, match="function of one particle"):
        sf.fit(target, particles=jnp.ones((3, 1)), num_steps=1, progress=False)
