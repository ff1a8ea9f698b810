"""Writes german_truth.json: posterior mean and sd of logistic regression on german, by a long run of NUTS.

    python tests/helpers/german_truth.py

Seed 0, four chains, 1,000 warm-up steps and 5,000 draws each, double precision. The model is
`sf.models.LogisticRegression(X, y)` on all 1,000 rows.
"""

import json
import os
import warnings
from pathlib import Path

import jax
import numpy as np

import steinflow as sf

HERE = Path(__file__).parent


def main():
    jax.config.update("jax_enable_x64", True)
    folder = Path(os.environ.get("STEINFLOW_DATA", HERE.parents[2] / "shared" / "data"))
    data = np.load(folder / "classification" / "german.npz")
    model = sf.models.LogisticRegression(data["X"], data["y"])
    result = sf.fit(model, sf.NUTS(num_chains=4), num_steps=5_000, key=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        table = arviz.summary(result.to_arviz())
    truth = {
        "mean": {name: np.asarray(leaf).tolist() for name, leaf in result.mean().items()},
        "sd": {name: np.asarray(leaf).tolist() for name, leaf in result.sd().items()},
        "largest_rhat": float(table["r_hat"].max()),
        "smallest_ess": float(table["ess_bulk"].min()),
    }
    (HERE / "german_truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
