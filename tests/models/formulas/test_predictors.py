"""Linear predictors against loops over rows, in both coordinates."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.models.formulas.design import Arrays
from steinflow.models.formulas.predictions import predictor_rows
from steinflow.models.formulas.predictors import Block, Predictor, Term, _by_level, _matrix

RNG = np.random.default_rng()
TERMS = Term("x", 1, False), Term("z", 2, True)
BLOCKS = (
    Block("g", (Term("1|g", 1, False), Term("x|g", 1, False)), 3, True),
    Block("h", (Term("z|h", 2, True),), 2, False),
)
PREDICTOR = Predictor(
    prefix="",
    terms=TERMS,
    blocks=BLOCKS,
    means=np.array([20.0, 0.3, 0.2]),
    sds=np.array([3.0, 0.5, 0.4]),
    shift=np.asarray(100.0),
    unit=np.asarray(7.0),
    has_intercept=True,
    has_thresholds=False,
    plain=frozenset(),
)
ORDERED = dataclasses.replace(PREDICTOR, has_intercept=False, has_thresholds=True, shift=np.zeros(()), unit=np.ones(()))
KINDS = {
    "one output": PREDICTOR,
    "two outputs": dataclasses.replace(PREDICTOR, num_outputs=2),
    "bounds": dataclasses.replace(PREDICTOR, plain=frozenset({"x", "Intercept"})),
    "ordered classes": ORDERED,
    "of an auxiliary parameter": dataclasses.replace(PREDICTOR, prefix="sigma_"),
}


def predictor_of(name):
    """In the precision of the test."""
    return jax.tree.map(jnp.asarray, KINDS[name])


def users(predictor):
    """Parameters as users read them."""
    outputs = predictor.outputs
    shapes = {"x": (), "z": (2,), "1|g": (3,), "x|g": (3,), "z|h": (2, 2), "1+x|g_cor": (1,)}
    shapes |= {"1|g_sigma": (), "x|g_sigma": (), "z|h_sigma": (2,)}
    values = {name: RNG.normal(size=(*shape, *outputs)) for name, shape in shapes.items()}
    values |= {name: np.exp(value) for name, value in values.items() if name.endswith("sigma")}
    values["1+x|g_cor"] = np.full((1, *outputs), -0.6)
    if predictor.has_intercept:
        values["Intercept"] = RNG.normal(90, 1, outputs)
    if predictor.has_thresholds:
        values["threshold"] = np.array([-1.0, 0.5, 2.0])
    return {predictor.named(name): jnp.asarray(value, float) for name, value in values.items()}


def table(num_rows=8):
    g, h = RNG.integers(0, 3, num_rows), RNG.integers(0, 2, num_rows)
    X = np.column_stack([RNG.normal(20, 3, num_rows), RNG.integers(0, 2, (num_rows, 2))])
    groups = [(g, np.column_stack([np.ones(num_rows), X[:, 0]])), (h, X[:, 1:])]
    return Arrays(X, RNG.normal(size=num_rows), groups)


def loop(predictor, values, arrays):
    """The linear predictor of every row, in the units of the table; thresholds are not part of it."""
    p = {name.removeprefix(predictor.prefix): np.asarray(value, float) for name, value in values.items()}
    total = []
    for i, x in enumerate(arrays.X):
        (g, _), (h, _) = arrays.groups
        one = p.get("Intercept", 0.0) + arrays.offset[i] + x[0] * p["x"] + x[1] * p["z"][0] + x[2] * p["z"][1]
        one = one + p["1|g"][g[i]] + x[0] * p["x|g"][g[i]] + x[1] * p["z|h"][h[i], 0] + x[2] * p["z|h"][h[i], 1]
        total.append(one)
    return np.array(total)


@pytest.mark.parametrize("name", KINDS)
def test_the_predictor_is_that_of_a_loop_over_rows(name, x64):
    predictor, arrays = predictor_of(name), table()
    values = users(predictor)

    @jax.jit
    def found(values):
        params = predictor.from_user(values)
        return params, predictor(params, predictor_rows(predictor, arrays)), predictor.to_user(params)

    params, standardised, back = found(values)
    assert set(back) == set(values)
    for name, value in values.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-10, err_msg=name)
    expected = loop(predictor, values, arrays)
    if predictor.has_thresholds:  # they take up what the slopes add at the means
        expected = expected - values["threshold"][0] + params["threshold"][0]
    np.testing.assert_allclose(predictor.shift + predictor.unit * standardised, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["one output", "two outputs", "bounds"])
def test_the_volume_is_the_determinant_of_the_way_to_what_priors_are_about(name, x64):
    predictor = predictor_of(name)
    names = ("Intercept", "x", "z")
    params = users(predictor)
    others = {n: v for n, v in params.items() if n not in names}

    def values(own):
        found = predictor.prior_values(others | own)
        return jnp.concatenate([found[n].ravel() for n in names])

    own = {n: params[n] for n in names}
    jacobian = jax.jit(jax.jacobian(values))(own)
    matrix = np.concatenate([np.asarray(jacobian[n]).reshape(len(values(own)), -1) for n in names], axis=1)
    np.testing.assert_allclose(predictor.log_volume(), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    back = predictor.from_prior(predictor.prior_values(others | own))
    for n in names:
        np.testing.assert_allclose(back[n], own[n], rtol=1e-12)


def test_effects_by_level_of_few_and_of_many(monkeypatch):
    effects, index, Z = RNG.normal(size=(5, 2, 3)), RNG.integers(0, 5, 9), RNG.normal(size=(9, 2))
    arrays = [jnp.asarray(part, float) for part in (effects, index, Z)]
    arrays[1] = arrays[1].astype(int)
    expected = np.array([Z[i] @ effects[index[i]] for i in range(9)])
    np.testing.assert_allclose(_by_level(*arrays), expected, rtol=1e-5)
    monkeypatch.setattr("steinflow.models.formulas.predictors._SHARED", 1)
    np.testing.assert_allclose(_by_level(*arrays), expected, rtol=1e-5)


def test_correlations_as_a_matrix():
    np.testing.assert_array_equal(
        _matrix(jnp.array([0.1, 0.2, 0.3]), 3), np.float32([[1, 0.1, 0.2], [0.1, 1, 0.3], [0.2, 0.3, 1]])
    )


def test_names():
    assert BLOCKS[0].correlations == "1+x|g_cor"
    assert [block.width for block in BLOCKS] == [2, 2]
    assert KINDS["of an auxiliary parameter"].named("x") == "sigma_x"
