"""The same three models in NumPyro and in PyMC, and their moments from long NUTS runs of both libraries.

`python references.py` runs NUTS (4 chains of 2,500 draws, a few minutes) and writes the moments to references.json.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import steinflow as sf

PATH = Path(__file__).with_suffix(".json")
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def features(seed, num_rows):
    return np.random.default_rng(seed).normal(size=(num_rows, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 2]])


def logistic_data():
    X = features(0, 300)
    probabilities = 1 / (1 + np.exp(-(X @ [1.0, -0.5, 0.3] + 0.5)))
    return X, (np.random.default_rng(1).uniform(size=len(X)) < probabilities).astype(int)


def poisson_data():
    X = features(2, 200)
    return X, np.random.default_rng(3).poisson(np.exp(X @ [0.3, -0.2, 0.1] + 1.0))


def eight_schools(errors, effects=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(errors)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("effect", dist.Normal(theta, errors), obs=effects)


def logistic(X, y=None, batch_size=None):
    w = numpyro.sample("w", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 2))
    with numpyro.plate("row", len(X), subsample_size=batch_size) as rows:
        numpyro.sample("y", dist.Bernoulli(logits=X[rows] @ w + b), obs=None if y is None else y[rows])


def poisson(X, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 2))
    numpyro.sample("y", dist.Poisson(jnp.exp(X @ w + b)), obs=y)


NUMPYRO = {
    "eight schools": (eight_schools, (ERRORS, EFFECTS)),
    "logistic": (logistic, logistic_data()),
    "poisson": (poisson, poisson_data()),
}


def pymc_model(name):
    """The model of this name in PyMC."""
    import pymc as pm

    if name == "eight schools":
        with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
            mu = pm.Normal("mu", 0, 5)
            tau = pm.HalfCauchy("tau", 5)
            z = pm.Normal("z", dims="school")
            theta = pm.Deterministic("theta", mu + tau * z, dims="school")
            pm.Normal("effect", theta, ERRORS, observed=EFFECTS, dims="school")
        return model
    X, y = NUMPYRO[name][1]
    with pm.Model(coords={"feature": ["x0", "x1", "x2"]}) as model:
        w = pm.Normal("w", 0, 2 if name == "logistic" else 1, dims="feature")
        b = pm.Normal("b", 0, 2)
        if name == "logistic":
            pm.Bernoulli("y", logit_p=X @ w + b, observed=y)
        else:
            pm.Poisson("y", pm.math.exp(X @ w + b), observed=y)
    return model


def moments(library, name):
    """The means and sds that NUTS found."""
    return json.loads(PATH.read_text())[library][name]


def check(target, library, name):
    """Assert means within 0.1 sd and sds within 10% of NUTS, for every site, with the defaults.

    The sd of tau in eight schools hangs on one or two particles of a hundred in its long tail (a hundred independent
    draws have it within 10% in 55 cases of 100), so there the sds are means over six keys.
    """
    reference = moments(library, name)
    keys = range(6) if name == "eight schools" else [0]
    results = [sf.fit(target, key=key, progress=False) for key in keys]
    assert set(results[0].particles) == set(reference)
    sds = [result.sd() for result in results]
    for site, (expected_mean, expected_sd) in reference.items():
        expected_sd = np.array(expected_sd)
        for result in results:
            errors = np.abs(np.asarray(result.mean()[site]) - expected_mean) / expected_sd
            np.testing.assert_array_less(errors, 0.1, err_msg=site)
        np.testing.assert_allclose(np.mean([sd[site] for sd in sds], axis=0), expected_sd, rtol=0.1, err_msg=site)


def numpyro_nuts(model, args):
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(model, target_accept_prob=0.95)
    mcmc = MCMC(kernel, num_warmup=1000, num_samples=2500, num_chains=4, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.key(0), *map(jnp.asarray, args))
    return mcmc.get_samples()


def pymc_nuts(model):
    import pymc as pm

    with model:
        trace = pm.sample(2500, tune=1000, chains=4, cores=1, target_accept=0.95, random_seed=0, progressbar=False)
    names = [variable.name for variable in (*model.free_RVs, *model.deterministics)]
    return {
        name: trace["posterior"][name].values.reshape(10_000, *trace["posterior"][name].shape[2:]) for name in names
    }


def main():
    """Run NUTS and write the moments."""

    def summary(draws):
        draws = {name: np.asarray(values, float) for name, values in draws.items()}
        return {name: [values.mean(0).tolist(), values.std(0).tolist()] for name, values in draws.items()}

    found: dict = {"numpyro": {}, "pymc": {}}
    for name, (model, args) in NUMPYRO.items():
        found["numpyro"][name] = summary(numpyro_nuts(model, args))
        found["pymc"][name] = summary(pymc_nuts(pymc_model(name)))
        PATH.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
