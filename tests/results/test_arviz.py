"""With either ArviZ: what comes out of `to_arviz` and of files is what it works on."""

import dataclasses
from importlib import metadata

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from known_results import result_at

import steinflow as sf
from steinflow.results import arviz as groups

ARVIZ_1 = int(metadata.version("arviz").split(".")[0]) >= 1
ROWS = jnp.arange(4.0)

# ArviZ 0.23, the last for Python 3.11, uses what pandas 3 and Matplotlib 3.11 are about to remove.
last_of_its_kind = pytest.mark.filterwarnings(*([] if ARVIZ_1 else ["ignore::DeprecationWarning"]))


def result_of(particles, **fields):
    """The scores do not belong to these particles: they are not looked at here."""
    result = result_at(jnp.zeros((6, 2)), lambda x: -0.5 * jnp.sum(x**2))
    return dataclasses.replace(result, particles=particles, **fields)


def posterior():
    """Rows about an unknown mean."""
    return sf.Posterior(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2, ROWS)


@pytest.fixture(scope="module")
def data():
    """Draws of a mean with the likelihood of four rows, as ArviZ gets them."""
    draws = jnp.asarray(np.random.default_rng(0).normal(1.2, 0.4, size=200), jnp.float32)
    return dataclasses.replace(result_at(draws, posterior()), num_chains=2).to_arviz()


def test_groups():
    particles = {"w": np.ones((6, 2), np.float32) * np.arange(6.0)[:, None], "b": np.arange(6.0)}
    data = result_of(particles, num_chains=2).to_arviz()
    assert data.posterior["w"].shape == (2, 3, 2)
    assert data.posterior["w"].dims == ("chain", "draw", "w_dim_0")
    assert data.sample_stats["lp"].shape == (2, 3)
    assert data.posterior.attrs["inference_library"] == "steinflow"


@pytest.mark.parametrize(
    ("particles", "names"),
    [
        ({"scope/w": np.arange(6.0), "scope.w": np.arange(6.0)}, ["scope.w", "scope.w_"]),
        ({"draw": np.arange(6.0), "chain": np.arange(6.0)}, ["chain_", "draw_"]),
        ({"a.b": np.arange(6.0), "a": {"b": np.arange(6.0)}}, ["a.b", "a.b_"]),
    ],
)
def test_names_that_a_tree_does_not_allow(particles, names):
    assert sorted(result_of(particles).to_arviz().posterior.data_vars) == names


def test_names_with_slashes_keep_their_axes():
    result = result_of({"scope/w": np.ones((6, 2))})
    data = result.to_arviz(dims={"scope/w": ["scope/row"]}, coords={"scope/row": ["a", "b"]})
    assert list(data.posterior["scope.row"].values) == ["a", "b"]


def test_particles_are_repeated_in_proportion_to_their_weights():
    result = result_of({"b": np.arange(6.0)}, weights=jnp.array([0.5, 0, 0, 0, 0, 0.5]), num_chains=2)
    data = result.to_arviz()
    np.testing.assert_array_equal(data.posterior["b"], [[0, 0, 0, 5, 5, 5]])
    np.testing.assert_array_equal(data.sample_stats["lp"][0, ::3], result.log_densities[jnp.array([0, 5])])


def test_what_the_target_says_about_its_data():
    result = result_at(jnp.arange(3.0), posterior())
    data = result.to_arviz(
        dims={"x": ["ignored: it does not fit"], "likelihood": ["row"]}, coords={"row": list("abcd")}
    )
    expected = -0.5 * (ROWS - jnp.arange(3.0)[:, None]) ** 2
    np.testing.assert_allclose(data.log_likelihood["likelihood"][0], expected)
    assert list(data.log_likelihood["row"].values) == list("abcd")
    np.testing.assert_array_equal(data.observed_data["data"], ROWS)
    assert "log_likelihood" not in result.to_arviz(log_likelihood=False)


def test_the_installed_version_decides(data, monkeypatch):
    assert isinstance(data, xarray.DataTree) == ARVIZ_1
    result = result_of({"b": np.arange(6.0)})

    def not_installed(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(groups.metadata, "version", not_installed)
    assert isinstance(result.to_arviz(), xarray.DataTree)


def test_summary():
    import arviz as az

    particles = {"w": np.ones((6, 2), np.float32) * np.arange(6.0)[:, None], "b": np.arange(6.0)}
    table = az.summary(result_of(particles).to_arviz(), kind="stats", round_to="none")
    assert list(table.index) == ["b", "w[0]", "w[1]"]
    np.testing.assert_allclose(table["mean"], 2.5)


@last_of_its_kind
def test_leave_one_out_and_comparison(data):
    import arviz as az

    loo = az.loo(data)
    exact = -0.5 * np.var(ROWS) * len(ROWS)  # about: without the constant of the normal density
    assert abs((loo.elpd if ARVIZ_1 else loo.elpd_loo) - exact) < 2
    assert len(az.compare({"one": data, "other": data})) == 2


def test_diagnostics_of_chains(data):
    import arviz as az

    table = az.summary(data, kind="diagnostics", round_to="none")
    assert 0.99 < table["r_hat"]["x"] < 1.02
    assert 120 < table["ess_bulk"]["x"] < 300  # of 200 independent draws


# Where the two versions call the same plot by different names, that of ArviZ 1 comes first.
@last_of_its_kind
@pytest.mark.parametrize(
    "names",
    [("plot_trace",), ("plot_forest",), ("plot_rank",), ("plot_autocorr",), ("plot_dist", "plot_posterior")],
    ids=lambda names: names[0],
)
def test_plots(data, names):
    import arviz as az

    with mpl.rc_context({"backend": "agg"}):
        getattr(az, names[0] if ARVIZ_1 else names[-1])(data)
        assert plt.get_fignums()
        plt.close("all")


@last_of_its_kind
def test_predictive_checks():
    import arviz as az

    rng = np.random.default_rng(0)
    model = sf.models.LinearRegression(rng.normal(size=(12, 1)), rng.normal(size=12))
    particles = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 100))
    data = result_at(particles, model).to_arviz()
    with mpl.rc_context({"backend": "agg"}):
        (az.plot_ppc_dist if ARVIZ_1 else az.plot_ppc)(data)
        assert plt.get_fignums()
        plt.close("all")


def test_files_that_arviz_reads(tmp_path):
    import arviz as az

    result = result_of({"w": np.arange(6.0)}, num_chains=2)
    data = az.from_netcdf(result.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(data.posterior["w"], np.arange(6.0).reshape(2, 3))
    result.to_arviz().to_netcdf(tmp_path / "arviz.nc")
    np.testing.assert_array_equal(az.from_netcdf(tmp_path / "arviz.nc").posterior["w"], data.posterior["w"])
