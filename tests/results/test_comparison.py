"""Comparison of models against closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.results.comparison import leave_one_out
from steinflow.results.outcome import Ending

ROWS = 12
Y = np.random.default_rng(0).normal(1.5, 1, ROWS).astype(np.float32)


def normal_mean(center, y=Y):
    """The exact posterior, as 1,000 evenly spread particles, of a mean with prior N(center, 1) and unit noise."""
    target = sf.Posterior(
        lambda mean: jax.scipy.stats.norm.logpdf(mean, center, 1.0),
        lambda mean, rows: jax.scipy.stats.norm.logpdf(rows, mean, 1.0),
        y,
        prior=jax.random.normal,
    )
    levels = (np.arange(1000) + 0.5) / 1000
    x = stats.norm.ppf(levels, (center + y.sum()) / (len(y) + 1), (len(y) + 1) ** -0.5).astype(np.float32)
    points = jnp.asarray(np.random.default_rng(1).permutation(x))
    return sf.Result(
        particles=points,
        weights=None,
        history={},
        ending=Ending(sf.Outcome.STEP_LIMIT, "all steps are done."),
        unconstrained=points[:, None],
        scores=points[:, None],
        log_densities=points,
        num_chains=1,
        info={"num_steps": 1},
        target=target,
    )


def exact_loo(center):
    mean = (center + Y.sum() - Y) / ROWS
    return stats.norm.logpdf(Y, mean, (1 + 1 / ROWS) ** 0.5)


def exact_evidence(center):
    return stats.multivariate_normal(np.full(ROWS, center), np.eye(ROWS) + 1).logpdf(Y)


@pytest.fixture(scope="module")
def results():
    return {"far": normal_mean(-3.0), "near": normal_mean(1.0)}


def test_leave_one_out_is_exact(results):
    comparison = sf.compare(results)
    assert comparison.names == ["near", "far"]
    expected = exact_loo(1.0), exact_loo(-3.0)
    np.testing.assert_allclose(comparison.values, [each.sum() for each in expected], atol=0.03)
    difference = expected[1] - expected[0]
    np.testing.assert_allclose(comparison.differences, [0, difference.sum()], atol=0.03)
    np.testing.assert_allclose(comparison.difference_errors, [0, difference.std() * ROWS**0.5], rtol=0.05)
    assert np.all(comparison.pareto_k < 0.7)
    assert comparison.reasons == ["", ""]
    rows, _ = leave_one_out(results["near"])
    np.testing.assert_allclose(rows, expected[0], atol=0.02)


def test_evidence_is_exact_and_has_its_errors(results):
    comparison = sf.compare(results, by="evidence")
    assert comparison.names == ["near", "far"]
    np.testing.assert_allclose(comparison.values, [exact_evidence(1.0), exact_evidence(-3.0)], atol=0.05)
    np.testing.assert_allclose(comparison.difference_errors, [0, np.hypot(*comparison.errors)])
    assert 0 < comparison.errors[0] < 0.05


def test_it_prints_itself_and_is_a_table(results):
    lines = str(sf.compare(results)).splitlines()
    assert lines[0] == "elpd by leave-one-out"
    assert lines[2].split()[0] == "near"
    table = sf.compare(results).to_dataframe()
    assert list(table) == ["model", "value", "error", "difference", "difference_error", "pareto_k", "reason"]
    assert table["difference"][0] == 0


def test_what_is_not_known_comes_last_with_its_reason(results, monkeypatch):
    from steinflow.results import evidence

    known = sf.compare(results, by="evidence").values[1]
    real = evidence.psis
    found = iter([0.9, 0.1])
    monkeypatch.setattr(evidence, "psis", lambda weights: (real(weights)[0], np.array(next(found))))
    comparison = sf.compare({"near": results["near"], "far": results["far"]}, by="evidence")
    assert comparison.names == ["far", "near"]
    np.testing.assert_allclose(comparison.values, [known, np.nan])
    assert "Pareto k is 0.90" in comparison.reasons[1]
    assert "?" in str(comparison)


def test_a_row_that_rules_its_posterior_is_reported():
    y = np.append(Y, np.float32(40.0))
    comparison = sf.compare({"one": normal_mean(0.0, y), "two": normal_mean(1.0, y)})
    assert "above 0.7 for 1 of 13 rows" in comparison.reasons[0]


@pytest.mark.parametrize(
    ("change", "by", "expected"),
    [
        (lambda found: {"far": found["far"]}, "loo", "at least two models"),
        (lambda found: {**found, "short": normal_mean(0.0, Y[:5])}, "loo", "'short': 5"),
        (lambda found: found, "aic", "by is"),
        (
            lambda found: {**found, "bare": dataclasses.replace(found["far"], target=sf.Density(lambda x: -(x**2)))},
            "loo",
            "bare does not have",
        ),
    ],
    ids=["one", "other rows", "by what", "no rows"],
)
def test_what_cannot_be_compared(results, change, by, expected):
    with pytest.raises(ValueError, match=expected):
        sf.compare(change(results), by=by)


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 1])
def test_the_evidence_of_a_formula_is_that_of_quadrature(key):
    table = {"y": Y.astype(float), "x": 10 + 4 * np.linspace(-1, 1, ROWS)}
    priors = {"Intercept": "Normal(0, 2)", "sigma": "Exponential(1)"}
    formulas = {"1": priors, "x": priors | {"x": "Normal(0, 0.3)"}}
    fits = {
        formula: sf.fit(sf.formula(f"y ~ {formula}", table, priors=priors), key=key, progress=False)
        for formula, priors in formulas.items()
    }
    comparison = sf.compare(fits, by="evidence", key=key)
    found = dict(zip(comparison.names, comparison.values, strict=True))
    # Given sigma all is normal; the intercept of the prior is that at the mean of x.
    log_sigma, centred = np.linspace(-2, 1.5, 400), table["x"] - np.mean(table["x"])
    for formula, slope_variance in (("1", 0.0), ("x", 0.3**2)):
        prior = 4 + slope_variance * np.outer(centred, centred)
        logs = [
            stats.multivariate_normal(np.zeros(ROWS), prior + np.exp(2 * log) * np.eye(ROWS)).logpdf(Y)
            + stats.expon.logpdf(np.exp(log))
            + log
            for log in log_sigma
        ]
        np.testing.assert_allclose(found[formula], np.log(np.trapezoid(np.exp(logs), log_sigma)), atol=0.05)
    assert comparison.reasons == ["", ""]
