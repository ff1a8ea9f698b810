"""What a NumPyro model consists of, and what is refused."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import steinflow as sf
from steinflow.targets.numpyro_sites import Plate, inspect

pytestmark = pytest.mark.usefixtures("standard_promotion")


def everything(X, y):
    """A site of every kind, in plates one inside the other."""
    flat = numpyro.sample("flat", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("feature", 2):
        w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.deterministic("twice", 2 * w)
    numpyro.factor("penalty", -jnp.sum(w**2))
    with numpyro.plate("outer", 3, dim=-2), numpyro.plate("row", 4, subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(flat + (X @ w)[rows], 1), obs=y[:, rows])
    numpyro.sample("vector", dist.Normal(0, 1).expand([3]).to_event(1), infer={"event_dims": ["class"]})


def test_sites_by_their_kinds():
    sites = inspect(everything, (jnp.ones((4, 2)), jnp.zeros((3, 4))), {})
    assert sites.latent == ("flat", "w", "vector")
    assert sites.observed == ("y",)
    assert sites.deterministic == ("twice",)
    assert (sites.enumerated, sites.improper) == ((), ("flat",))
    assert sites.plates == (Plate("row", 4, 2),)
    assert sites.depth == 2
    assert dict(sites.dims) == {
        "flat": (),
        "w": ("feature",),
        "twice": (None,),
        "y": ("outer", "row"),
        "vector": ("class",),
    }
    assert isinstance(hash(sites), int)  # a part of what compiled code depends on


def test_refusals():
    def discrete(y):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def endless(y):
        z = numpyro.sample("z", dist.Poisson(2.0), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def point(y):
        z = numpyro.sample("z", dist.Delta(1.0))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def partly_observed(y):
        m = numpyro.sample("m", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(m, 1).expand([10]), obs=y, obs_mask=jnp.arange(10) < 5)

    def local(y):
        with numpyro.plate("row", 10, subsample_size=5) as rows:
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(z, 1), obs=y[rows])

    def learned(y):
        numpyro.sample("y", dist.Normal(numpyro.param("m", 0.0), 1), obs=y)

    y = np.zeros(10)
    for model in (discrete, endless):
        with pytest.raises(ValueError, match=r"'z' is discrete.*Sum it out.*'enumerate': 'parallel'"):
            sf.from_numpyro(model, y)
    with pytest.raises(ValueError, match=r"numpyro\.deterministic\('z', value\)"):
        sf.from_numpyro(point, y)
    with pytest.raises(ValueError, match=r"obs_mask of 'y'.*as a site of their own"):
        sf.from_numpyro(partly_observed, y)
    with pytest.raises(ValueError, match=r"subsampled plate 'row'.*Remove subsample_size"):
        sf.from_numpyro(local, y)
    with pytest.raises(ValueError, match="without a prior"):
        sf.from_numpyro(learned, y)
    with pytest.raises(ValueError, match="nothing to infer"):
        sf.from_numpyro(lambda y: numpyro.sample("y", dist.Normal(0, 1), obs=y), y)
