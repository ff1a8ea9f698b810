"""Heads: outputs as parameters of families, noise that depends on the row, and models of families that were not there.

Posteriors are compared with quadrature, or with the maximum of the likelihood and its Fisher information.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import steinflow as sf
from steinflow.models.families import Binomial

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(6, 2))
VARYING = {
    "normal": (sf.models.VaryingGaussian(), stats.norm(OUTPUTS[:, 0], np.exp(OUTPUTS[:, 1]))),
    "Student t": (sf.models.VaryingStudentT(5.0), stats.t(5.0, OUTPUTS[:, 0], np.exp(OUTPUTS[:, 1]))),
}


@pytest.mark.parametrize("name", VARYING)
def test_density_and_moments_of_varying_noise_are_scipys(name, x64):
    head, expected = VARYING[name]
    rows = {"y": RNG.normal(size=6)}

    @jax.jit
    def found(outputs):
        forms, family = head.forms(outputs, {}), head.family
        of_rows = family.log_density(forms, rows), family.cdf(forms, rows)
        return of_rows, family.mean(forms, {}), family.variance(forms, {})

    (density, below), mean, variance = found(OUTPUTS)
    np.testing.assert_allclose(density, expected.logpdf(rows["y"]), rtol=1e-10)
    np.testing.assert_allclose(mean, expected.mean())
    np.testing.assert_allclose(variance, expected.var(), rtol=1e-10)
    np.testing.assert_allclose(below, expected.cdf(rows["y"]), rtol=1e-8)
    for form, values in head.forms(OUTPUTS, {}).items():  # on the host
        np.testing.assert_allclose(values, head.forms(jnp.asarray(OUTPUTS), {})[form])


@pytest.mark.parametrize("name", [*VARYING, "constant"])
def test_draws_of_a_model_are_from_its_distribution(name):
    head = VARYING[name][0] if name in VARYING else sf.models.Head(sf.models.StudentT(), known={"nu": 5.0})
    X, y = RNG.normal(size=(4, 1)), 50 + 9 * RNG.normal(size=4)
    model = sf.models.GeneralizedLinear(X, y, head, standardize=True)
    particles = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(1), 2))
    particles["w"], many = 0.3 * particles["w"], 5000
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, many, axis=0), particles)
    drawn = np.reshape(model.observations.predictive(repeated, X, key=jax.random.key(0))["y"], (2, many, 4))
    forms = jax.vmap(lambda one: model.forms(one, model.inputs(jnp.asarray(X, float))))(particles)
    mu, sigma = (np.broadcast_to(forms[name], (2, 4)) for name in ("mu", "sigma"))
    location, scale = model.raw(mu), np.exp(sigma) * model.responses.scale
    expected = stats.norm(location, scale) if name == "normal" else stats.t(5.0, location, scale)
    ranks = expected.cdf(drawn.swapaxes(0, 1))
    np.testing.assert_allclose(ranks.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(ranks.std(axis=0), 1 / np.sqrt(12), rtol=0.03)


def test_particles_may_have_axes_in_front():
    head = sf.models.Head(sf.models.StudentT())
    params = {"log_gamma": RNG.normal(size=4), "auxiliary": {"log_nu": RNG.normal(size=4)}}
    outputs = RNG.normal(size=(4, 7))
    every = head.forms(outputs, params)
    one = head.forms(outputs[1], jax.tree.map(lambda leaf: leaf[1], params))
    for name in ("mu", "sigma", "nu"):
        np.testing.assert_allclose(every[name][1], one[name])
    np.testing.assert_allclose(every["sigma"], -0.5 * params["log_gamma"][:, None])


def test_who_climbs_does_not_explain_errors_away_by_noise():
    """The gradient of the location is that of rows with weights e^f2, relative to their mean; not through them."""
    head, rows = sf.models.VaryingGaussian(), {"y": RNG.normal(size=6)}

    def climbed(outputs):
        forms = head.forms(outputs, {})
        return jnp.sum(head.climbed(forms, head.family.log_density(forms, rows)))

    found = jax.grad(climbed)(OUTPUTS)
    scale, z = np.exp(OUTPUTS[:, 1]), (rows["y"] - OUTPUTS[:, 0]) / np.exp(OUTPUTS[:, 1])
    weights = scale / scale.mean()
    np.testing.assert_allclose(found, np.column_stack([weights * z / scale, weights * (z**2 - 1)]), rtol=1e-4)


def test_absurd_log_scales_are_bounded():
    forms = sf.models.VaryingGaussian().forms(np.array([[0.0, 1e9], [1.0, -1e9]]), {})
    np.testing.assert_array_equal(forms["mu"], [0, 1])
    assert np.all(np.abs(forms["sigma"]) < 20)


def test_log_scales_beyond_the_limits_keep_a_slope(x64):
    """Networks that have gone too far would never come back otherwise; within the limits nothing is changed."""
    head, outputs = sf.models.VaryingGaussian(), jnp.asarray([[0.0, -30.0], [0.0, -2.0], [0.0, 4.0], [0.0, 30.0]])
    slopes = jax.grad(lambda outputs: jnp.sum(head.forms(outputs, {})["sigma"]))(outputs)[:, 1]
    np.testing.assert_allclose(slopes, [0.1, 1.0, 1.0, 0.1])
    np.testing.assert_array_equal(head.forms(outputs, {})["sigma"][1:3], [-2.0, 4.0])


def test_usual_outputs_give_the_mean():
    y = np.array([1.0, 0, 0, 0, 0, 0, 0, 0])
    [output] = sf.models.Head(sf.models.Bernoulli()).usual_outputs(y)
    assert special.expit(output) == pytest.approx(1.5 / 9)
    [output] = sf.models.Head(sf.models.Poisson()).usual_outputs(np.array([1.0, 2, 6]))
    assert np.exp(output) == pytest.approx(3 + 0.5 / 3)
    outputs = sf.models.Head(sf.models.Categorical(3)).usual_outputs(np.array([0, 0, 1]))
    np.testing.assert_allclose(np.exp(outputs) / np.exp(outputs).sum(), np.array([2.5, 1.5, 0.5]) / 4.5)
    assert outputs.sum() == pytest.approx(0)
    y = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(sf.models.VaryingGaussian().usual_outputs(y), [3, np.log(y.std())])
    both = sf.models.Head(sf.models.ZeroInflatedPoisson(), varying=("zi",))
    np.testing.assert_allclose(both.usual_outputs(y), [np.log(3 + 0.5 / 3), 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sf.models.VaryingStudentT(2.0), "more than 2"),
        (lambda: sf.models.Head(sf.models.Gaussian(), varying=("nu",)), "no parameter 'nu'; besides mu it has sigma"),
        (
            lambda: sf.models.Head(sf.models.Poisson(), known={"nu": 4}),
            "no parameter 'nu'; besides mu it has none",
        ),
        (
            lambda: sf.models.Head(sf.models.StudentT(), varying=("nu",), known={"nu": 4.0}),
            "'nu' cannot be varying and known",
        ),
        (lambda: sf.models.Head(Binomial()), r"needs trials besides outputs.*sf.formula\(..., family='binomial'\)"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Families with an auxiliary parameter: how y is drawn, and the log density by SciPy of mu's form and of the parameter.
ROWS = 60
MU = 0.8
FAMILIES = {
    "negbinomial": (
        sf.models.NegativeBinomial(),
        lambda rng: rng.poisson(np.exp(MU) * rng.gamma(2.0, 1 / 2.0, ROWS)).astype(float),
        lambda y, mu, alpha: stats.nbinom(alpha, alpha / (alpha + np.exp(mu))).logpmf(y),
    ),
    "gamma": (
        sf.models.Gamma(),
        lambda rng: np.exp(MU) * rng.gamma(3.0, 1 / 3.0, ROWS),
        lambda y, mu, alpha: stats.gamma(alpha, scale=np.exp(mu) / alpha).logpdf(y),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_posteriors_of_new_families_are_those_of_quadrature(name):
    """A model of an intercept alone, N(0, 2²), and alpha, half-Cauchy: two numbers on a grid; three keys."""
    family, draw, log_density = FAMILIES[name]
    y = draw(np.random.default_rng(3))
    model = sf.models.GeneralizedLinear(np.zeros((ROWS, 1)), y, family, intercept_prior=(0.0, 2.0))
    mu, log_alpha = np.meshgrid(np.linspace(0, 1.8, 121), np.linspace(-1.5, 4, 121), indexing="ij")
    values = np.sum([log_density(each, mu, np.exp(log_alpha)) for each in y], axis=0)
    values += -0.5 * (mu / 2) ** 2 + stats.halfcauchy.logpdf(np.exp(log_alpha)) + log_alpha
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    for key in range(3):
        particles = sf.fit(model, num_steps=1000, key=key, progress=False).particles
        for found, grid in ((particles["w"][:, 1], mu), (particles["auxiliary"]["log_alpha"], log_alpha)):
            mean = np.sum(weights * grid)
            sd = np.sqrt(np.sum(weights * (grid - mean) ** 2))
            assert abs(np.mean(found) - mean) < 0.15 * sd
            assert abs(np.std(found) / sd - 1) < 0.12


def test_heavy_tails_with_one_noise_for_all_rows():
    """Beside the maximum of the likelihood: outliers move the slope of Student's t little."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    y = 2 * x + 0.5 * rng.standard_t(3, 300)
    model = sf.models.GeneralizedLinear(x[:, None], y, sf.models.StudentT())

    def loss(params):
        slope, intercept, log_sd, log_nu = params
        return -np.sum(stats.t.logpdf(y, np.exp(log_nu), slope * x + intercept, np.exp(log_sd)))

    best = optimize.minimize(loss, [2.0, 0.0, -0.7, 1.0])
    result = sf.fit(model, num_steps=500, key=0, progress=False)
    w, sds = np.asarray(result.particles["w"]), np.sqrt(np.diag(best.hess_inv))
    np.testing.assert_array_less(np.abs(w.mean(axis=0) - best.x[:2]), 0.4 * sds[:2])
    np.testing.assert_allclose(w.std(axis=0), sds[:2], rtol=0.25)
    sigma = np.exp(-0.5 * np.asarray(result.particles["log_gamma"]))
    assert abs(np.mean(np.log(sigma)) - best.x[2]) < sds[2]


@pytest.mark.parametrize("family", [sf.models.NegativeBinomial(), sf.models.LogNormal()], ids=["counts", "positive"])
def test_networks_of_new_families(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    y = rng.poisson(np.exp(1 + X[:, 0])) + (0.0 if family.counted else 0.5)
    model = sf.models.NeuralNetwork(X, y, hidden=(3,), activation="tanh", family=family, prior_scale=4.0)
    result = sf.fit(model, num_particles=4, num_steps=300, key=0, progress=False)
    assert model.evaluate(result.particles, X, y)["log_likelihood"] > np.mean(stats.norm.logpdf(y, y.mean(), y.std()))
    drawn = model.observations.predictive(result.particles, X, key=jax.random.key(0))["y"]
    family.check(np.asarray(drawn))
    parts = sf.models.uncertainty(model, result.particles, X)
    np.testing.assert_allclose(parts.total**2, parts.epistemic**2 + parts.aleatoric**2, rtol=1e-4)


@pytest.mark.slow
def test_a_linear_model_of_mean_and_noise():
    """Against the maximum of the likelihood, whose errors are those of Fisher's information: X'WX for both parts."""
    x = RNG.normal(size=400)
    sd = np.exp(-1 + 0.5 * x)
    y = 2 * x + sd * RNG.normal(size=400)
    model = sf.models.GeneralizedLinear(x[:, None], y, sf.models.VaryingGaussian())
    result = sf.fit(model, num_steps=500, key=0, progress=False)
    mean, log_scale = np.moveaxis(np.asarray(result.particles["w"]), -1, 0)
    X1 = np.column_stack([x, np.ones(400)])
    errors = [np.sqrt(np.diag(np.linalg.inv(X1.T @ (X1 * weights[:, None])))) for weights in (sd**-2, 2 + 0 * sd)]
    for found, truth, error in zip((mean, log_scale), ([2, 0], [0.5, -1]), errors, strict=True):
        np.testing.assert_array_less(np.abs(found.mean(axis=0) - truth), 4 * error)
        np.testing.assert_allclose(found.std(axis=0), error, rtol=0.3)
    parts = sf.models.uncertainty(model, result.particles, [[0.0], [2.0]])
    np.testing.assert_allclose(parts.aleatoric, np.exp([-1, 0]), rtol=0.2)
    np.testing.assert_allclose(parts.total**2, parts.epistemic**2 + parts.aleatoric**2, rtol=1e-4)
