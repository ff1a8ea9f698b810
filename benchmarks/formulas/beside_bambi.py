"""The same formula, priors and rows in bambi: how far the two are apart, and how long each takes."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

import steinflow as sf

FAMILIES = {
    name: name.replace("negbinomial", "negativebinomial")
    for name in ("gaussian", "t", "bernoulli", "binomial", "categorical", "poisson", "negbinomial", "gamma", "beta")
}


def why_not(target) -> str | None:
    """Why bambi cannot fit this model: it has no such family, no such response, or no correlations of group effects."""
    if target.about.family not in FAMILIES:
        return f"bambi has another family {target.about.family}, or none"
    if any(block.correlated for each in target.regression.predictors.values() for block in each.blocks):
        return "bambi has no correlated effects of groups"
    if len(target.regression.predictors) > 1:
        return "priors of further parameters are not translated"
    return None


def specification(name, target):
    """All that bambi needs to know, as plain values."""
    priors = {}
    for parameter, prior in target.priors.items():
        numbers = {argument: np.asarray(getattr(prior, argument), float).tolist() for argument in prior.arg_constraints}
        priors[parameter] = type(prior).__name__, numbers
    [formula] = target.about.formulas
    family = FAMILIES[target.about.family]
    return {"case": name, "formula": formula, "family": family, "link": target.regression.link, "priors": priors}


def fitted_by_bambi(name, target, python):
    """Return bambi's draws by parameter, chains joined, and its seconds, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "spec.json"), Path(folder, "out.npz")
        given.write_text(json.dumps(specification(name, target)))
        script = Path(__file__).with_name("with_bambi.py")
        root = str(Path(__file__).parents[2])
        subprocess.run([python, script, given, out], check=True, env={**os.environ, "PYTHONPATH": root})
        with np.load(out) as found:
            draws = {key.removeprefix("draws "): found[key] for key in found if key.startswith("draws ")}
            seconds = float(found["seconds"])
    return {key: values.reshape(-1, *values.shape[2:]) for key, values in draws.items()}, seconds


def noise_of(values):
    """The standard error of a mean of draws, in sds, by the spread of forty batches."""
    means = values.reshape(40, -1, values.shape[1]).mean(axis=1)
    return means.std(axis=0) / np.sqrt(40) / values.std(axis=0)


def report(name, target, python):
    """Print a line of the table."""
    reason = why_not(target)
    if reason:
        print(f"| {name} | {reason} | | | | | | |", flush=True)
        return
    theirs, their_seconds = fitted_by_bambi(name, target, python)
    seconds = []
    for key in (0, 1):  # the second one finds its compiled code
        started = time.perf_counter()
        result = sf.fit(target, key=key, progress=False)
        jax.block_until_ready(result.particles)
        seconds.append(time.perf_counter() - started)
    ours = {key: np.asarray(values, float) for key, values in result.particles.items()}
    shared = [key for key in ours if key in theirs and ours[key].shape[1:] == theirs[key].shape[1:]]
    errors, ratios, noises = [], [], []
    for key in shared:
        mine, truth = (values.reshape(len(values), -1) for values in (ours[key], theirs[key]))
        errors.append((mine.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0))
        ratios.append(mine.std(axis=0) / truth.std(axis=0))
        noises.append(noise_of(truth))
    error, ratio, noise = (np.concatenate(parts) for parts in (errors, ratios, noises))
    only = sorted(set(ours) - set(shared))
    print(
        f"| {name} | {target.about.family} | {len(error)} | {np.max(np.abs(error)):.3f} | "
        f"{ratio.min():.2f} .. {ratio.max():.2f} | {noise.max():.3f} | {seconds[0]:.1f}, then {seconds[1]:.1f} | "
        f"{their_seconds:.1f} |" + (f" not compared: {', '.join(only)}" if only else ""),
        flush=True,
    )


def compare(targets, python):
    """Print the table of these targets, by name, beside the bambi of another interpreter."""
    print("| table | family | numbers | worst mean, in sds | sds over bambi's | its noise | seconds | bambi's |")
    print("|---|---|---|---|---|---|---|---|")
    for name, target in targets:
        report(name, target, python)
