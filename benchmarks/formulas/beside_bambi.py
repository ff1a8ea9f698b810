"""The same formula, priors and rows in bambi: how far the two are apart, and how long bambi takes."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import steinflow as sf

FAMILIES = {
    name: name.replace("negbinomial", "negativebinomial")
    for name in ("gaussian", "t", "bernoulli", "binomial", "categorical", "poisson", "negbinomial", "gamma", "beta")
}


def beside_bambi(name, target, python):
    """Return bambi's seconds, and how far our means and sds are from its own; or the reason why there are none."""
    if reason := why_not(target):
        return {"reason": reason}
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "spec.json"), Path(folder, "out.npz")
        given.write_text(json.dumps(specification(name, target)))
        script, root = Path(__file__).with_name("with_bambi.py"), str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": root}
        run = subprocess.run([python, script, given, out], capture_output=True, text=True, env=environment)
        if run.returncode:
            return {"reason": f"bambi fails: {run.stderr.strip().splitlines()[-1]}"}
        with np.load(out) as found:
            draws = {key.removeprefix("draws "): found[key] for key in found if key.startswith("draws ")}
            seconds = float(found["seconds"])
    return {"seconds": seconds, **compared(target, draws)}


def why_not(target) -> str | None:
    """Why bambi cannot fit this model."""
    if target.about.family not in FAMILIES:
        return "another family in bambi, or none"
    if any(block.correlated for each in target.regression.predictors.values() for block in each.blocks):
        return "no correlated effects of groups in bambi"
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
    link = "softmax" if family == "categorical" else target.regression.link
    return {"case": name, "formula": formula, "family": family, "link": link, "priors": priors}


def compared(target, draws):
    """Return the largest difference of means, in bambi's sds, its noise there, and the ratios of sds."""
    particles = sf.fit(target, key=0, progress=False).particles
    ours = {key: np.asarray(values, float).reshape(len(values), -1) for key, values in particles.items()}
    theirs = {key: values.reshape(-1, int(np.prod(values.shape[2:]))) for key, values in draws.items()}
    shared = [key for key in ours if key in theirs and ours[key].shape[1] == theirs[key].shape[1]]
    mine, truth = (np.hstack([values[key] for key in shared]) for values in (ours, theirs))
    error, ratio = (mine.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0), mine.std(axis=0) / truth.std(axis=0)
    batches = truth.reshape(40, -1, truth.shape[1]).mean(axis=1)
    noise = batches.std(axis=0) / np.sqrt(40) / truth.std(axis=0)
    return {
        "error": float(np.max(np.abs(error))),
        "noise": float(noise.max()),
        "ratio": [float(ratio.min()), float(ratio.max())],
        "not compared": sorted(set(ours) - set(shared)),
    }
