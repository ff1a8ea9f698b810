import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf

RNG = np.random.default_rng(0)


def result_of(particles, weights=None, history=None, num_chains=1):
    n = len(jax.tree.leaves(particles)[0])
    x = jnp.asarray(RNG.normal(size=(n, 2)), jnp.float32)
    return sf.Result(
        particles=jax.tree.map(jnp.asarray, particles),
        weights=weights,
        history={"step": np.arange(3), "ksd": np.ones(3, np.float32)} if history is None else history,
        outcome=sf.Outcome("step limit", "all steps are done."),
        unconstrained=x,
        scores=-x,
        log_densities=jnp.arange(float(n)),
        num_chains=num_chains,
        info={"method": "SVGD", "num_steps": 3, "seconds": 0.5},
    )


ARRAY = RNG.normal(size=(4, 2)).astype(np.float32)
STRUCTURES = {
    "array": ARRAY,
    "scalars": ARRAY[:, 0],
    "matrices": RNG.normal(size=(4, 2, 3)).astype(np.float32),
    "dict": {"w": ARRAY, "b": ARRAY[:, 0]},
    "nested": {"layers": [{"w": ARRAY}, (ARRAY[:, 0], {"b": ARRAY})], "none": None},
    "list": [ARRAY, ARRAY[:, 0]],
    "tuple": (ARRAY, (ARRAY[:, 0],)),
    "integer keys": {0: ARRAY, 1: {2: ARRAY}},
    "clashing names": {"a.b": ARRAY, "a": {"b": 2 * ARRAY}},
    "slashes": {"scope/w": ARRAY, "scope.w": 2 * ARRAY},
    "names of axes": {"chain": ARRAY[:, 0], "draw": ARRAY},
    "empty dict": {"a": ARRAY, "empty": {}},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_save_and_load(name, tmp_path):
    particles = STRUCTURES[name]
    history = {"step": np.arange(2), "cloud": jax.tree.map(lambda leaf: np.stack([leaf, leaf]), particles)}
    weights = jnp.array([0.1, 0.2, 0.3, 0.4])
    saved = result_of(particles, weights, history, num_chains=2)
    path = saved.save(tmp_path / "run.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    loaded = sf.load(path)
    for field in dataclasses.fields(sf.Result):
        if field.name == "target":
            continue
        before, after = getattr(saved, field.name), getattr(loaded, field.name)
        assert jax.tree.structure(before) == jax.tree.structure(after), field.name
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
            assert np.asarray(a).dtype == np.asarray(b).dtype
    assert str(loaded.summary()) == str(saved.summary())


def test_save_replaces_and_leaves_nothing_behind(tmp_path):
    path = result_of(ARRAY).save(tmp_path / "run.nc")
    result_of({"a": ARRAY}).save(path)
    assert set(sf.load(path).particles) == {"a"}
    with pytest.raises(FileNotFoundError):
        sf.load(tmp_path / "nothing.nc")


def test_load_another_file(tmp_path):
    import xarray

    path = tmp_path / "other.nc"
    xarray.Dataset({"a": ("x", np.ones(3))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="not a result of steinflow"):
        sf.load(path)


def test_expectations_with_and_without_weights():
    x = np.array([0.0, 1.0, 2.0, 5.0], np.float32)
    equal = result_of({"x": x})
    np.testing.assert_allclose(equal.mean()["x"], 2.0)
    np.testing.assert_allclose(equal.sd()["x"], np.std(x), rtol=1e-6)
    np.testing.assert_allclose(equal.expectation(lambda p: p["x"] > 0.5), 0.75)
    weights = np.array([0.7, 0.1, 0.1, 0.1], np.float32)
    weighted = result_of({"x": x}, jnp.asarray(weights))
    np.testing.assert_allclose(weighted.mean()["x"], 0.8, rtol=1e-6)
    np.testing.assert_allclose(weighted.sd()["x"], np.sqrt(weights @ (x - 0.8) ** 2), rtol=1e-5)
    outer = weighted.expectation(lambda p: {"square": p["x"] ** 2})
    np.testing.assert_allclose(outer["square"], weights @ x**2, rtol=1e-6)


def test_summary_text():
    x = np.linspace(0, 1, 101, dtype=np.float32)
    text = str(result_of({"w": np.stack([x, 2 * x], 1), "b": 3 * x}).summary())
    lines = text.splitlines()
    assert lines[0].split() == ["mean", "sd", "5%", "50%", "95%"]
    rows = {line.split()[0]: [float(v) for v in line.split()[1:]] for line in lines[1:4]}
    expected = np.array([np.mean(x), np.std(x), *np.quantile(x, [0.05, 0.5, 0.95], method="hazen")])
    np.testing.assert_allclose(rows["w[1]"], 2 * expected, rtol=1e-3)
    np.testing.assert_allclose(rows["b"], 3 * expected, rtol=1e-3)
    for word in ["101 particles", "3 steps of SVGD", "KSD", "dispersion", "step limit"]:
        assert word in text
    many = str(result_of(np.zeros((4, 50), np.float32)).summary())
    assert "and 30 more parameters" in many


def test_weighted_quantiles_follow_the_weights():
    x = np.array([0.0, 1.0, 2.0], np.float32)
    summary = result_of(x, jnp.array([0.01, 0.01, 0.98])).summary()
    np.testing.assert_allclose(summary.columns["50%"], [2.0], atol=0.05)


def test_arviz():
    import arviz as az

    data = result_of({"w": np.ones((6, 2), np.float32) * np.arange(6.0)[:, None], "b": np.arange(6.0)}, num_chains=2)
    inference = data.to_arviz()
    assert inference.posterior["w"].shape == (2, 3, 2)
    assert inference.sample_stats["lp"].shape == (2, 3)
    table = az.summary(inference, kind="stats")
    assert list(table.index) == ["b", "w[0]", "w[1]"]
    np.testing.assert_allclose(table["mean"], 2.5)


def test_ksd_and_dispersion_are_the_diagnostics():
    x = jnp.asarray(RNG.normal(size=(30, 2)), jnp.float32)
    result = dataclasses.replace(result_of(x), unconstrained=x, scores=-x)
    np.testing.assert_allclose(result.ksd, sf.ksd(normal_log_density, x), rtol=1e-5)
    np.testing.assert_allclose(result.dispersion, sf.dispersion(normal_log_density, x), rtol=1e-5)
    assert len(result) == 30
