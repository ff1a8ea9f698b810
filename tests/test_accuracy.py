"""Mean AND variance on targets of known moments."""

import jax
import numpy as np
import pytest
import scenarios

import steinflow as sf


def check(result, scenario, mean_error, variance_error):
    """Errors of the mean in sds, of the variance relative to it."""
    sd = jax.tree.map(np.sqrt, scenario.variance)
    means = jax.tree.map(lambda value, true, sd: np.max(np.abs(value - true) / sd), result.mean(), scenario.mean, sd)
    ratios = jax.tree.map(lambda value, sd: np.asarray(value) ** 2 / sd**2 - 1, result.sd(), sd)
    worst_mean = max(jax.tree.leaves(means))
    worst_variance = max(np.max(np.abs(ratio)) for ratio in jax.tree.leaves(ratios))
    assert worst_mean < mean_error, f"the mean is {worst_mean:.3f} sds off"
    assert worst_variance < variance_error, f"the variance is {worst_variance:.1%} off"


def marked(*quick):
    """All scenarios, those of other names as slow tests."""
    return [
        pytest.param(scenario, marks=() if scenario.name in quick else pytest.mark.slow, id=scenario.name)
        for scenario in scenarios.ALL
    ]


@pytest.mark.parametrize("scenario", marked("Correlated(0.5)", "Correlated(-0.9)", "paper's mixture"))
def test_default(scenario):
    result = sf.fit(scenario.target, particles=scenario.particles(100), num_steps=1000, key=0, progress=False)
    check(result, scenario, mean_error=0.1, variance_error=0.15)


@pytest.mark.parametrize("scenario", marked("Normal(3)"))
def test_paper(scenario):
    """Algorithm 1 with a step size that suits problems of scale one: RBF kernels lose some variance."""
    method = sf.SVGD.paper(1.0)
    result = sf.fit(scenario.target, method, particles=scenario.particles(100), num_steps=2000, key=0, progress=False)
    check(result, scenario, mean_error=0.1, variance_error=0.2)


def test_linear_kernel_is_exact_on_gaussians():
    """Its fixed point satisfies Stein's identity for linear functions: mean and covariance of a Gaussian are exact."""
    scenario = scenarios.correlated(0.8)
    method = sf.SVGD(
        kernel=sf.kernels.IMQ() + sf.kernels.Linear("full"), metric=sf.svgd.Euclidean(), optimizer=sf.svgd.adagrad(0.5)
    )
    result = sf.fit(scenario.target, method, particles=scenario.particles(50), num_steps=2000, progress=False)
    check(result, scenario, mean_error=0.01, variance_error=0.05)
