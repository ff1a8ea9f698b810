"""Generalised linear models: the paper's log density, its gradient and Laplacian, starts, predictions and metrics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import steinflow as sf
from steinflow.methods.npv import trace_of_hessian


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=60)


def test_logistic_log_density_is_the_papers(rows, x64):
    X, z = rows
    y = np.where(z > 0, 1, -1)
    model = sf.models.LogisticRegression(X, y, batch_size=20)
    features = np.c_[X, np.ones(60)]
    w, log_alpha, d = np.array([0.3, -0.2, 0.1, 0.4]), -0.7, 4
    alpha = np.exp(log_alpha)
    params = {"w": jnp.asarray(w), "log_alpha": jnp.asarray(log_alpha)}
    # Sum of log sigma(y w'x) + d/2 l - alpha |w|^2 / 2 + (a - 1) l - b alpha + l, with a = 1 and b = 0.01.
    likelihood = -np.log1p(np.exp(-y * (features @ w)))
    expected = likelihood.sum() + d / 2 * log_alpha - alpha * w @ w / 2 - 0.01 * alpha + log_alpha
    np.testing.assert_allclose(eqx.filter_jit(model.log_density)(params), expected, rtol=1e-12)

    batch = jax.tree.map(lambda leaf: leaf[:20], model.data.values)
    gradient = jax.jit(jax.grad(model.log_density))(params, batch)
    residuals = (y[:20] + 1) / 2 - 1 / (1 + np.exp(-features[:20] @ w))
    np.testing.assert_allclose(gradient["w"], 3 * residuals @ features[:20] - alpha * w, rtol=1e-10)
    np.testing.assert_allclose(gradient["log_alpha"], d / 2 - alpha * w @ w / 2 - 0.01 * alpha + 1, rtol=1e-10)


@pytest.mark.parametrize("num_classes", [None, 3])
def test_closed_form_laplacian(rows, num_classes, x64):
    X, z = rows
    y = np.digitize(z, [-1, 1]) if num_classes else z > 0
    model = sf.models.LogisticRegression(X, y, num_classes=num_classes)
    params = eqx.filter_jit(model.sample_prior)(jax.random.key(0))
    x, unravel = ravel_pytree(params)
    generic = jax.jit(lambda x: trace_of_hessian(lambda x: model.log_density(unravel(x)), x))
    laplacian = eqx.filter_jit(model.laplacian)(params)
    np.testing.assert_allclose(laplacian, generic(x), rtol=1e-9)
    if num_classes is None:
        assert laplacian < 0


def test_starts_are_draws_of_the_prior(rows):
    model = sf.models.LogisticRegression(rows[0], rows[1] > 0)
    draws = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 4000))
    alpha = np.exp(draws["log_alpha"])
    np.testing.assert_allclose(np.mean(alpha), 100.0, rtol=0.1)
    np.testing.assert_allclose(np.std(draws["w"] * np.sqrt(alpha)[:, None]), 1, rtol=0.05)


def test_linear_regression_recovers_the_line(rows):
    X, y = rows
    model = sf.models.LinearRegression(X, 1000 + 100 * y)
    mode = sf.fit(model, sf.MAP(), num_particles=2, num_steps=500, progress=False)
    slopes = np.asarray(mode.particles["w"])[0, :3] / X.std(axis=0) * model.responses.scale
    np.testing.assert_allclose(slopes, [100, -200, 50], atol=25)
    noise = np.exp(-0.5 * mode.particles["log_gamma"][0]) * model.responses.scale
    np.testing.assert_allclose(noise, 50, rtol=0.25)
    figures = model.evaluate(mode.particles, X, 1000 + 100 * y)
    assert figures["rmse"] == pytest.approx(50, rel=0.25)
    assert figures["log_likelihood"] == pytest.approx(-np.log(50) - 0.5 * np.log(2 * np.pi) - 0.5, abs=0.3)


def test_poisson_predicts(rows):
    X, _ = rows
    counts = np.random.default_rng(1).poisson(np.exp(1 + 0.5 * X[:, 0]))
    model = sf.models.PoissonRegression(X, counts)
    mode = sf.fit(model, sf.MAP(), num_particles=2, num_steps=500, progress=False)
    np.testing.assert_allclose(mode.particles["w"][0], [0.5, 0, 0, 1], atol=0.3)
    assert np.corrcoef(model.predict(mode.particles, X), counts)[0, 1] > 0.5


@pytest.mark.slow
def test_softmax_predicts_in_minibatches(rows):
    X, _ = rows
    classes = np.argmax(X @ [[2, -1, -1], [0, 2, -2], [1, 1, -2]], axis=1)
    model = sf.models.LogisticRegression(X, classes, num_classes=3, batch_size=30)
    mode = sf.fit(model, sf.MAP(), num_particles=2, num_steps=500, progress=False)
    probabilities = model.predict(mode.particles, X)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, rtol=1e-5)
    assert model.evaluate(mode.particles, X, classes)["accuracy"] > 0.9


def test_evaluation_is_the_papers_and_knows_weights(rows, x64):
    X, z = rows
    y = np.where(z > 0, 1, -1)
    model = sf.models.LogisticRegression(X, y)
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 7))
    weights = np.arange(7) / 21
    margins = y * (np.c_[X, np.ones(60)] @ np.asarray(particles["w"]).T).T
    p = weights @ (1 / (1 + np.exp(-margins)))
    figures = model.evaluate(particles, X, y, weights=weights)
    assert figures["accuracy"] == pytest.approx(np.mean(p > 0.5))
    assert figures["log_likelihood"] == pytest.approx(np.mean(np.log(p)))
    # A margin of -2000 has probability 0 in floating point, but not in the log.
    far = {"w": jnp.full((1, 4), 1e4), "log_alpha": jnp.zeros(1)}
    assert np.all(np.isfinite(model.log_predictive(far, X, y)))


@pytest.mark.parametrize("family", ["linear", "poisson", "classes"])
def test_arviz_gets_what_was_observed_and_predicted(rows, family):
    X, z = rows
    model = {
        "linear": lambda: sf.models.LinearRegression(X, 5 + z),
        "poisson": lambda: sf.models.PoissonRegression(X, np.round(np.exp(0.1 * z))),
        "classes": lambda: sf.models.LogisticRegression(X, np.digitize(z, [-1, 1]), num_classes=3),
    }[family]()
    particles = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), 5))
    assert model.observations.observed()["y"].shape == (60,)
    predictive = model.observations.predictive(particles, key=jax.random.key(1))["y"]
    assert predictive.shape == (5, 60)
    log_likelihoods = model.observations.log_likelihoods(particles)["y"]
    assert log_likelihoods.shape == (5, 60)
    if family == "linear":
        np.testing.assert_allclose(model.observations.observed()["y"], 5 + z, rtol=1e-5)
    expected = model.log_predictive(
        jax.tree.map(lambda leaf: np.asarray(leaf)[:1], particles), X, model.observations.observed()["y"]
    )
    np.testing.assert_allclose(log_likelihoods[0], expected, rtol=1e-4, atol=1e-4)


def test_a_second_model_of_the_same_shape_does_not_compile_again(rows):
    count = 0

    class Counted(sf.models.Gaussian):
        def log_density(self, forms, rows):
            nonlocal count
            count += 1
            return super().log_density(forms, rows)

    def run(y):
        model = sf.models.GeneralizedLinear(rows[0], y, Counted())
        sf.fit(model, sf.SVGD.paper(), num_particles=5, num_steps=3, progress=False)
        return count

    first = run(rows[1])
    assert run(rows[1] + 1) <= first + 1  # the shapes are checked once more, nothing is compiled


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: sf.models.LogisticRegression(X, np.arange(60)), "labels 0 and 1"),
        (lambda X: sf.models.LogisticRegression(X, np.arange(60), num_classes=3), r"0 \.\. 2"),
        (lambda X: sf.models.LogisticRegression(X, np.zeros(59)), "one entry per row"),
        (lambda X: sf.models.LogisticRegression(X[:, 0], np.zeros(60)), "matrix"),
        (lambda X: sf.models.LinearRegression(X, np.full(60, np.nan)), "missing"),
        (lambda X: sf.models.LinearRegression(X * np.nan, np.zeros(60)), "missing"),
        (lambda X: sf.models.PoissonRegression(X, np.full(60, 0.5)), "counts"),
    ],
)
def test_errors_say_what_was_expected(rows, make, message):
    with pytest.raises(ValueError, match=message):
        make(rows[0])


@pytest.mark.parametrize("num_classes", [None, 3])
def test_an_intercept_may_have_a_prior_of_its_own(rows, x64, num_classes):
    X, z = rows
    family = sf.models.Bernoulli() if num_classes is None else sf.models.Categorical(3)
    y = z > 0 if num_classes is None else np.digitize(z, [-1, 1])
    rng, outputs = np.random.default_rng(1), () if num_classes is None else (3,)
    center, w = rng.normal(size=outputs), rng.normal(size=(4, *outputs))
    params = {"w": jnp.asarray(w), "log_alpha": jnp.asarray(0.3)}
    own = sf.models.GeneralizedLinear(X, y, family, intercept_prior=(center, 2.5))
    shared = sf.models.GeneralizedLinear(X, y, family)
    # The normal prior of the intercept takes the place of its share in the hierarchical one.
    share = 0.5 * w[-1].size * 0.3 - 0.5 * np.exp(0.3) * np.sum(w[-1] ** 2)
    expected = -0.5 * np.sum(((w[-1] - center) / 2.5) ** 2) - share
    np.testing.assert_allclose(own.log_prior(params) - shared.log_prior(params), expected, rtol=1e-10)
    drawn = jax.vmap(own.sample_prior)(jax.random.split(jax.random.key(0), 2000))["w"][:, -1]
    np.testing.assert_allclose(drawn.mean(axis=0), center, atol=0.25)
    np.testing.assert_allclose(drawn.std(axis=0), 2.5, rtol=0.08)
    with pytest.raises(ValueError, match="no intercept"):
        sf.models.GeneralizedLinear(X, y, family, intercept=False, intercept_prior=(0.0, 1.0))
