"""Every exported method does what `Method` promises. A new one is found by itself, and asks for a line in CASES."""

import dataclasses
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf
from steinflow.methods.base import Time
from steinflow.targets.flat import flatten


def draw(key):
    return {"x": jax.random.normal(key, (2,))}


def log_density(params):
    return normal_log_density(params["x"])


def gaussian() -> sf.Target:
    """One function for all methods: what does not depend on the method is compiled once."""
    return sf.Density(log_density, prior=draw)


@dataclasses.dataclass(frozen=True)
class Case:
    """How to construct a method, and a small target that suits it."""

    method: Callable[[], sf.Method]
    target: Callable[[], sf.Target] = gaussian
    num_particles: int = 6
    num_steps: int = 4


def small_network() -> sf.Target:
    x = np.linspace(-1, 1, 12)[:, None]
    return sf.models.NeuralNetwork(x, x[:, 0] ** 2, hidden=(3,))


CASES = {
    "Annealed": Case(lambda: sf.Annealed(sf.SVGD.paper())),
    "DSVI": Case(sf.DSVI),
    "Ensemble": Case(sf.Ensemble),
    "MAP": Case(sf.MAP),
    "MonteCarlo": Case(lambda: sf.MonteCarlo(draw)),
    "NPV": Case(sf.NPV),
    "NUTS": Case(sf.NUTS),
    "PBP": Case(sf.PBP, small_network),
    "PMD": Case(sf.PMD),
    "ParallelSGLD": Case(sf.ParallelSGLD),
    "SGLD": Case(sf.SGLD),
    "SVGD": Case(sf.SVGD),
    "SVGD, paper": Case(sf.SVGD.paper),
    "SVGD, random features": Case(lambda: sf.SVGD(approximation=sf.svgd.RandomFeatures(8))),
    "SVGD, subsample": Case(lambda: sf.SVGD(approximation=sf.svgd.Subsample(3))),
}

EXPORTED = {
    name
    for name in sf.__all__
    if inspect.isclass(cls := getattr(sf, name)) and issubclass(cls, sf.Method) and cls is not sf.Method
}


def test_every_method_has_a_case():
    covered = {type(case.method()).__name__ for case in CASES.values()}
    assert not EXPORTED - covered, f"add these to CASES in {__file__}"


LONG = ("NPV", "NUTS", "PBP", "SVGD, random features")  # whose own tests see most of it


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in CASES])
def test_conformance(name, dtype, tmp_path):
    case = CASES[name]
    target, method = case.target(), case.method()
    keys = jax.random.split(jax.random.key(0), case.num_particles)
    particles = jax.tree.map(lambda leaf: leaf.astype(dtype), jax.jit(jax.vmap(target.sample_prior))(keys))
    arguments = {"particles": particles, "num_steps": case.num_steps, "key": 3, "progress": False}
    result = sf.fit(target, method, **arguments)

    n = len(result)
    assert n >= 1
    assert jax.tree.structure(result.particles) == jax.tree.structure(particles)
    for leaf, start in zip(jax.tree.leaves(result.particles), jax.tree.leaves(particles), strict=True):
        assert leaf.shape == (n, *start.shape[1:])
        assert leaf.dtype == dtype
        assert np.all(np.isfinite(leaf))
    assert result.unconstrained.shape == result.scores.shape
    assert result.log_densities.shape == (n,)
    assert n % result.num_chains == 0
    if result.weights is not None:
        assert result.weights.shape == (n,)
        assert np.all(result.weights >= 0)
        np.testing.assert_allclose(np.sum(result.weights), 1, rtol=1e-5)
    assert result.info["method"] == type(method).__name__
    assert "nan" not in str(result.summary()).lower()

    again = sf.fit(target, method, **arguments)
    jax.tree.map(np.testing.assert_array_equal, result.particles, again.particles)

    loaded = sf.load(result.save(tmp_path / "run.nc"))
    jax.tree.map(np.testing.assert_array_equal, result.particles, loaded.particles)
    assert loaded.outcome == result.outcome


@pytest.mark.parametrize("method", [sf.MAP(), sf.NUTS(), sf.NPV(), sf.PMD()], ids=lambda method: type(method).__name__)
def test_methods_that_compare_log_densities_refuse_scores_alone(method):
    target = sf.from_score(lambda x: -np.asarray(x))
    with pytest.raises(ValueError, match="only knows its score"):
        sf.fit(target, method, particles=jnp.ones((5, 1)), num_steps=1, progress=False)


@pytest.mark.parametrize("method", [sf.SGLD(), sf.DSVI()], ids=lambda method: type(method).__name__)
def test_methods_that_need_only_scores_take_them(method):
    target = sf.from_score(lambda x: -np.asarray(x))
    result = sf.fit(target, method, particles=jnp.full((50, 1), 3.0), num_steps=300, progress=False)
    assert abs(result.mean()[0]) < 2


def test_time_is_the_loops():
    time = Time(jnp.asarray(3), jnp.asarray(12))
    assert time.fraction == 0.25


@pytest.mark.parametrize("name", CASES)
def test_no_state_counts_its_steps(name):
    """The loop does; a state, with all parts that a long run has, may count what only it knows."""
    target, method = CASES[name].target(), CASES[name].method()
    flat, x = flatten(target, jax.vmap(target.sample_prior)(jax.random.split(jax.random.key(0), 100)))
    state = jax.eval_shape(lambda x: method.init(flat, x, num_steps=1000, key=jax.random.key(0)), x)
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in jax.tree.leaves_with_path(state)]
    assert paths
    assert not {name for path in paths for name in path.split(".")} & {"step", "num_steps"}
