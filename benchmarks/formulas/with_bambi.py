"""`python with_bambi.py spec.json out.npz`: one table with bambi and PyMC's NUTS, 4 chains of 1,000 draws.

It runs in an environment of bambi's own, so it imports nothing of steinflow; `beside_bambi` writes the specification
and reads what comes back.
"""

import json
import sys
import time
from pathlib import Path

import bambi
import numpy as np

from benchmarks.formulas.tables import CASES

DRAWS, CHAINS = 1000, 4
# The numbers of NumPyro's distributions by the names of PyMC's.
ARGUMENTS = {
    "Normal": {"loc": "mu", "scale": "sigma"},
    "HalfNormal": {"scale": "sigma"},
    "HalfCauchy": {"scale": "beta"},
    "Exponential": {"rate": "lam"},
    "Gamma": {"concentration": "alpha", "rate": "beta"},
}


def prior_of(spec):
    kind, numbers = spec
    return bambi.Prior(kind, **{ARGUMENTS[kind][name]: np.array(value) for name, value in numbers.items()})


def priors_of(specs):
    """Return priors as bambi wants them: the sd of a group as the hyper-prior of its effects."""
    found = {}
    for name, spec in specs.items():
        if name.endswith("_sigma") and "|" in name:
            found[name.removesuffix("_sigma")] = bambi.Prior("Normal", mu=0, sigma=prior_of(spec))
        else:
            found[name] = prior_of(spec)
    return found


def main():
    spec = json.loads(Path(sys.argv[1]).read_text())
    started = time.perf_counter()
    model = bambi.Model(
        spec["formula"],
        CASES[spec["case"]].load(),
        family=spec["family"],
        link=spec["link"],
        priors=priors_of(spec["priors"]),
        dropna=True,
        extra_namespace={"log": np.log},
    )
    fitted = model.fit(draws=DRAWS, tune=DRAWS, chains=CHAINS, cores=2, random_seed=1, progressbar=False)
    seconds = time.perf_counter() - started
    posterior = fitted.posterior
    values = {name: np.asarray(posterior[name]) for name in posterior.data_vars}
    np.savez(sys.argv[2], seconds=seconds, **{f"draws {name}": array for name, array in values.items()})


if __name__ == "__main__":
    main()
