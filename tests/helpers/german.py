"""Logistic regression on german, and its posterior by a long run of NUTS (german_truth.py)."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import steinflow as sf

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("STEINFLOW_DATA", HERE.parents[2] / "shared" / "data"))


def data(kind: str, name: str):
    """X and y of a data set, or a skip where it is not there."""
    path = FOLDER / kind / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there: set STEINFLOW_DATA to the folder of data sets")
    with np.load(path) as arrays:
        return arrays["X"], arrays["y"]


def model(**settings) -> sf.models.LogisticRegression:
    return sf.models.LogisticRegression(*data("classification", "german"), **settings)


def truth() -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd, log alpha first."""
    table = json.loads((HERE / "german_truth.json").read_text())
    return tuple(np.r_[table[figure]["log_alpha"], table[figure]["w"]] for figure in ("mean", "sd"))


def errors(result: sf.Result) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the means in posterior sds, and sd over true sd; log alpha first."""
    mean, sd = truth()
    found = [np.r_[table["log_alpha"], table["w"]] for table in (result.mean(), result.sd())]
    return (found[0] - mean) / sd, found[1] / sd
