"""Functions and draws of a PyMC model."""

import jax
import numpy as np
import pytest

import steinflow as sf

pm = pytest.importorskip("pymc")

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def regression():
    """A regression on data that can be exchanged; a free variable depends on some of them."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pm.Model(coords={"row": [f"r{i}" for i in range(20)], "feature": ["a", "b"]}) as model:
        rows = pm.Data("X", X, dims=("row", "feature"))
        w = pm.Normal("w", 0, pm.Data("width", 100.0), dims="feature")
        mean = pm.Deterministic("mean", rows @ w, dims="row")
        pm.Normal("y", mean, 0.1, observed=X @ [1.0, 2.0], shape=mean.shape, dims="row")
    return model, X, sf.from_pymc(model)


def test_predictions_for_new_data(regression):
    model, X, target = regression
    w = np.array([[1.0, 2.0], [-1.0, 0.5]])
    predicted = target.observations.predictive({"w": w}, key=jax.random.key(0), X=np.eye(3, 2))
    np.testing.assert_allclose(predicted["mean"], w @ np.eye(3, 2).T, atol=1e-6)
    assert 0 < np.abs(predicted["y"] - predicted["mean"]).max() < 0.5
    assert model["X"].get_value().shape == (20, 2)  # the model is as it was
    assert model.coords["row"][-1] == "r19"
    # PyMC's own sampler draws w anew, because its prior depends on a pm.Data.
    replayed = target.observations.predictive({"w": w}, key=jax.random.key(0))
    assert set(replayed) == {"y"}
    np.testing.assert_allclose(replayed["y"], w @ X.T, atol=0.5)


def test_new_data_that_do_not_fit(regression):
    _, _, target = regression
    predictive = target.observations.predictive
    with pytest.raises(ValueError, match=r"no pm\.Data named \['Z'\]; it has \['X', 'width'\]"):
        predictive({"w": np.ones((1, 2))}, key=jax.random.key(0), Z=np.eye(3, 2))
    with pytest.raises(TypeError, match=r"result\.predictive\(X=X_new\)"):
        predictive({"w": np.ones((1, 2))}, np.eye(3, 2), key=jax.random.key(0))
    with pm.Model() as fixed:
        pm.Normal("y", pm.Data("x", np.ones(4)) * pm.Normal("w"), observed=np.ones(4))
    with pytest.raises(ValueError, match="shape") as error:
        sf.from_pymc(fixed).observations.predictive({"w": np.ones(1)}, key=jax.random.key(0), x=np.ones(2))
    assert any("shape=mean.shape" in note for note in error.value.__notes__)
    assert fixed["x"].get_value().shape == (4,)


def test_names_shapes_and_prior_draws(regression):
    graphs = regression[2].graphs
    assert (graphs.free, graphs.observed_names, graphs.reported) == (("w",), ("y",), ("w", "mean"))
    assert graphs.dims["mean"] == ("row",)
    assert graphs.coords["feature"] == ["a", "b"]
    assert graphs.rows() is None
    seeds = np.arange(6).reshape(3, 2)
    drawn = graphs.draw_prior(seeds)["w"]
    assert drawn.shape == (3, 2)
    np.testing.assert_array_equal(graphs.draw_prior(seeds[1:])["w"], drawn[1:])
    assert graphs.draw_prior(seeds[0])["w"].shape == (2,)
