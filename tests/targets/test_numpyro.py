"""NumPyro models: the posteriors of long NUTS runs of NumPyro, minibatches, predictions, names, and what is refused."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import references
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.reparam import LocScaleReparam
from references import EFFECTS, ERRORS, eight_schools, logistic, logistic_data

import steinflow as sf

pytestmark = pytest.mark.usefixtures("standard_promotion")
QUICK = sf.SVGD.paper()  # for tests of what is around a run: it compiles in a fraction of the default's time


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eight schools", "logistic", "poisson"])
def test_defaults_agree_with_nuts(name):
    model, args = references.NUMPYRO[name]
    references.check(sf.from_numpyro(model, *args), "numpyro", name)


@pytest.fixture(scope="module")
def schools():
    target = sf.from_numpyro(eight_schools, ERRORS, effects=EFFECTS)
    return target, sf.fit(target, QUICK, num_steps=50, progress=False)


def test_log_density_is_that_of_numpyro():
    X, y = logistic_data()
    target = sf.from_numpyro(eight_schools, ERRORS, EFFECTS)
    params = {"mu": jnp.array(1.0), "tau": jnp.log(2.0), "z": jnp.arange(8.0) / 8}

    @jax.jit
    def expected(z):
        priors = dist.Normal(0, 5).log_prob(1.0) + dist.HalfCauchy(5).log_prob(2.0) + dist.Normal().log_prob(z).sum()
        return priors + dist.Normal(1 + 2 * z, ERRORS).log_prob(EFFECTS).sum() + np.log(2.0)

    log_density = eqx.filter_jit(target.log_density)
    np.testing.assert_allclose(log_density(params), expected(params["z"]), rtol=1e-5)
    # An epoch of minibatches averages to all rows.
    target = sf.from_numpyro(logistic, X, y, batch_size=100)
    params = {"w": jnp.array([0.3, 0.1, -1.0]), "b": jnp.array(0.2)}
    batches = [target.data.minibatch(jax.random.key(0), jnp.asarray(step)) for step in range(3)]
    assert sorted(np.concatenate([batch["row"] for batch in batches])) == list(range(300))
    log_density = eqx.filter_jit(target.log_density)
    values = [log_density(params, batch) for batch in batches]
    np.testing.assert_allclose(np.mean(values), log_density(params), rtol=1e-5)


def test_there_and_back(schools):
    target, result = schools
    assert result.particles["theta"].shape == (100, 8)
    one = {name: np.asarray(values)[0] for name, values in result.particles.items()}
    back = jax.jit(lambda one: target.constrain(target.unconstrain(one)))(one)
    for name, values in one.items():
        np.testing.assert_allclose(back[name], values, rtol=1e-4)
    again = sf.fit(target, QUICK, particles=result.particles, num_steps=1, progress=False)  # deterministic sites too
    assert set(again.particles) == {"mu", "tau", "z", "theta"}
    with pytest.raises(ValueError, match=r"\['tau', 'z'\] are missing"):
        target.unconstrain({"mu": 0.0})


def test_starts_from_the_prior():
    target = sf.from_numpyro(eight_schools, ERRORS, EFFECTS)
    draws = jax.jit(jax.vmap(target.sample_prior))(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_allclose(draws["mu"].mean(), 0, atol=0.3)
    np.testing.assert_allclose(draws["mu"].std(), 5, rtol=0.05)
    np.testing.assert_allclose(np.median(draws["tau"]), 5, rtol=0.1)

    def flat(y):
        m = numpyro.sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(m, 1), obs=y)

    sample = jax.jit(jax.vmap(sf.from_numpyro(flat, np.ones(3)).sample_prior))
    draws = sample(jax.random.split(jax.random.key(0), 100))
    assert draws["m"].std() > 0.5


def test_arviz_groups(schools):
    target, result = schools
    data = result.to_arviz(coords={"school": list("ABCDEFGH")})
    for group in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data"):
        assert group in data
    assert data["posterior"]["theta"].dims == ("chain", "draw", "school")
    assert data["posterior_predictive"]["effect"].dims == ("chain", "draw", "school")
    assert list(data["posterior"]["theta"].coords["school"].values) == list("ABCDEFGH")
    np.testing.assert_allclose(data["observed_data"]["effect"], EFFECTS)
    expected = dist.Normal(result.particles["theta"], ERRORS).log_prob(EFFECTS)
    np.testing.assert_allclose(data["log_likelihood"]["effect"][0], expected, rtol=1e-4)
    few = result.to_arviz(log_likelihood=False, posterior_predictive=False)
    assert "log_likelihood" not in few
    draws = target.observations.predictive(
        {name: np.repeat(v[:1], 5000, 0) for name, v in result.particles.items()}, key=jax.random.key(0)
    )
    np.testing.assert_allclose(draws["effect"].mean(0), result.particles["theta"][0], atol=1.0)
    np.testing.assert_allclose(draws["effect"].std(0), ERRORS, rtol=0.05)
    # NumPyro's own tools take the particles too.
    predicted = Predictive(eight_schools, result.particles)(jax.random.key(0), ERRORS)
    assert predicted["effect"].shape == (100, 8)


def test_plates_are_data():
    X, y = logistic_data()
    data = sf.from_numpyro(logistic, X, y, batch_size=50).data
    assert (data.num_rows, data.batch_size, data.batches_per_epoch, data.host) == (300, 50, 6.0, None)
    epoch = [data.minibatch(jax.random.key(0), jnp.asarray(step)) for step in range(6)]
    [name] = epoch[0]
    assert sorted(np.concatenate([batch[name] for batch in epoch])) == list(range(300))
    assert sf.from_numpyro(logistic, X, y, batch_size=300).data is None


@pytest.mark.slow
def test_many_rows_of_a_plate_with_the_defaults():
    """10^5 rows, from prior draws, in several keys; the scale is positive, the truth is Laplace's approximation."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100_000, 3)).astype(np.float32)
    y = (X @ [1.0, -1.0, 0.5] + 2 * rng.normal(size=len(X))).astype(np.float32)

    def model(X, y):
        w = numpyro.sample("w", dist.Normal(0, 10).expand([3]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(5))
        with numpyro.plate("row", len(y), subsample_size=500) as rows:
            numpyro.sample("y", dist.Normal(X[rows] @ w, scale), obs=y[rows])

    target = sf.from_numpyro(model, X, y)
    X = X.astype(float)
    mean = np.linalg.solve(X.T @ X, X.T @ y)
    scale = np.std(y - X @ mean)
    mean, sds = (
        np.append(mean, scale),
        np.append(scale * np.sqrt(np.diag(np.linalg.inv(X.T @ X))), scale / (2 * len(y)) ** 0.5),
    )
    for key in range(3):
        result = sf.fit(target, key=key, progress=False)
        found = np.c_[result.particles["w"], result.particles["scale"]]
        assert result.verdict.level == "good", result.verdict
        assert np.abs((found.mean(0) - mean) / sds).max() < 0.05
        np.testing.assert_allclose(found.std(0) / sds, 1, atol=0.05)


@pytest.mark.slow
def test_minibatched_model_predicts_all_rows():
    X, y = logistic_data()
    target = sf.from_numpyro(logistic, X, y, batch_size=50)
    result = sf.fit(target, QUICK, num_particles=5, num_steps=5, progress=False)
    data = result.to_arviz()
    assert data["log_likelihood"]["y"].shape == data["posterior_predictive"]["y"].shape == (1, 5, 300)
    np.testing.assert_array_equal(data["observed_data"]["y"], y)


def test_models_may_look_at_values():
    def grouped(group, y):
        with numpyro.plate("group", int(np.max(group)) + 1):
            m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(m[group], 1), obs=y)

    target = sf.from_numpyro(grouped, np.array([0, 1, 1]), np.array([0.0, 1.0, 1.0]))
    result = sf.fit(target, QUICK, num_particles=5, num_steps=5, progress=False)
    assert result.particles["m"].shape == (5, 2)


@pytest.mark.parametrize(
    "prior",
    [
        pytest.param(dist.TruncatedDistribution(dist.StudentT(3, 0, 1), low=0), marks=pytest.mark.slow),
        dist.ImproperUniform(dist.constraints.positive, (), ()),
    ],
    ids=["truncated Student t", "improper uniform"],
)
def test_priors_that_cannot_be_drawn_from(prior):
    def model(y):
        sd = numpyro.sample("sd", prior)
        numpyro.sample("y", dist.Normal(0, sd), obs=y)

    y = np.array([-1.0, 1.0, 2.0])
    target = sf.from_numpyro(model, y)
    result = sf.fit(target, QUICK, num_particles=5, num_steps=5, progress=False)
    assert np.all(result.particles["sd"] > 0)
    np.testing.assert_array_equal(result.to_arviz()["observed_data"]["y"], y)  # the prior is not drawn from here either


def test_masked_rows_do_not_count():
    def model(y, use):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("row", len(y)), handlers.mask(mask=use):
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    use = np.array([True, False, True])
    y = np.array([1.0, 50.0, 2.0])
    masked, rest = sf.from_numpyro(model, y, use), sf.from_numpyro(model, y[use], use[use])
    params = {"mean": jnp.array(0.3)}
    np.testing.assert_allclose(masked.log_density(params), rest.log_density(params), rtol=1e-6)
    values = masked.observations.log_likelihoods({"mean": np.array([0.3])})["y"]
    np.testing.assert_allclose(values, [[-0.5 * 0.7**2 - 0.9189385, 0, -0.5 * 1.7**2 - 0.9189385]], rtol=1e-5)


def test_reparametrised_models(schools):
    """Centred and made non-centred by a handler: the density of the one that was written so."""

    def centred(errors, effects=None):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("school", len(errors)):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("effect", dist.Normal(theta, errors), obs=effects)

    written, _ = schools
    model = handlers.reparam(centred, config={"theta": LocScaleReparam(centered=0)})
    target = sf.from_numpyro(model, ERRORS, EFFECTS)
    params = {"mu": jnp.array(1.0), "tau": jnp.log(2.0), "z": jnp.arange(8.0) / 8}
    same = {"mu": params["mu"], "tau": params["tau"], "theta_decentered": params["z"]}
    np.testing.assert_allclose(target.log_density(same), written.log_density(params), rtol=1e-6)
    np.testing.assert_allclose(target.constrain(same)["theta"], 1 + 2 * params["z"], rtol=1e-6)
    with pytest.raises(ValueError, match=r"LocScaleReparam\(centered=0\)"):
        sf.from_numpyro(handlers.reparam(centred, config={"theta": LocScaleReparam()}), ERRORS, EFFECTS)


@pytest.mark.slow  # funsor takes long to trace
def test_enumerated_sites_are_summed_out():
    pytest.importorskip("funsor")

    def mixture(y=None):
        share = numpyro.sample("share", dist.Beta(2, 2))
        with numpyro.plate("row", 3):
            z = numpyro.sample("z", dist.Bernoulli(share), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(3.0 * z, 1), obs=y)

    y = np.array([0.1, 2.8, 1.6], np.float32)
    target = sf.from_numpyro(mixture, y)
    share = 0.3
    normals = dist.Normal(jnp.array([0.0, 3.0]), 1).log_prob(y[:, None])
    expected = dist.Beta(2, 2).log_prob(share) + jax.nn.logsumexp(normals + jnp.log(jnp.array([0.7, 0.3])), 1).sum()
    jacobian = np.log(share * (1 - share))
    value = eqx.filter_jit(target.log_density)({"share": jnp.log(share / (1 - share))})
    np.testing.assert_allclose(value, expected + jacobian, rtol=1e-5)
    result = sf.fit(target, QUICK, num_particles=5, num_steps=5, progress=False)
    assert set(result.particles) == {"share"}
    data = result.to_arviz()
    assert "log_likelihood" not in data  # it would need values of z
    assert data["posterior_predictive"]["y"].shape == (1, 5, 3)


@pytest.mark.slow
def test_predictions_for_new_arguments():
    X, y = logistic_data()

    def model(X, y=None, batch_size=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("row", len(X), subsample_size=batch_size) as rows:
            mean = numpyro.deterministic("mean", X[rows] @ w)
            numpyro.sample("y", dist.Normal(mean, 0.1), obs=None if y is None else y[rows])

    result = sf.fit(sf.from_numpyro(model, X, y, batch_size=100), QUICK, num_particles=4, num_steps=2, progress=False)
    new = np.eye(3, dtype=np.float32)
    predicted = result.predictive(new)
    np.testing.assert_allclose(predicted["mean"], result.particles["w"], rtol=1e-6)
    assert 0 < np.abs(predicted["y"] - predicted["mean"]).max() < 0.5
    assert result.predictive()["y"].shape == (4, 300)
    assert result.predictive(X[:6], batch_size=2, key=1)["y"].shape == (4, 6)  # every row of the plate
    first = jnp.array([1.0, 0, 0, 0])
    repeated = dataclasses.replace(result, weights=first).predictive(new)
    np.testing.assert_allclose(repeated["mean"], np.repeat(result.particles["w"][:1], 4, 0), rtol=1e-6)
    with pytest.raises(ValueError, match=r"result\.predictive\(target=target\)"):
        dataclasses.replace(result, target=None).predictive(new)

    def only_if_observed(y=None):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        if y is not None:
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    target = sf.from_numpyro(only_if_observed, y)
    with pytest.raises(ValueError, match=r"does not come to \['y'\].*obs=None"):
        target.observations.predictive({"mean": np.zeros(2)}, None, key=jax.random.key(0))
