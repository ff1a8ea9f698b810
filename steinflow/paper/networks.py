"""The table: Bayesian neural networks, SVGD beside probabilistic backpropagation, on the standard splits.

Kernel, particles, minibatches, network and priors of SVGD are the paper's; the schedule is ours and follows one rule
for all sets: Adam with a cosine decay, for 5,000 steps or 50 epochs, whichever is more, and its reach is the best of
three on rows held out from the training part of the same split (those that the authors hold out for the noise). Test
rows are never looked at.
"""

import dataclasses
import functools
import resource
import sys
import time
from typing import Any, cast

import jax
import numpy as np

import steinflow as sf
from steinflow.paper import datasets, networks_page
from steinflow.paper.authors import num_dev_rows, with_dev_noise
from steinflow.paper.fits import DEFAULT, PAPER, fit
from steinflow.paper.parts import Experiment, Part

SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "combined", "protein", "wine", "yacht")


@dataclasses.dataclass(frozen=True)
class Config:
    """The paper's networks: 20 splits (5 of Protein), 50 hidden units (100 for Protein and Year), 20 particles."""

    names: tuple[str, ...] = SETS
    num_splits: int = 20
    num_splits_protein: int = 5
    hidden: int = 50
    hidden_large: int = 100
    num_particles: int = 20
    batch_size: int = 100
    num_steps: int = 5000
    num_epochs: int = 50
    reaches: tuple[float, ...] = (2.5, 7.5, 25.0)
    pbp_epochs: int = 40
    year_rows: int = 463_715
    year_batch: int = 1000
    year_steps: int = 500
    year_pbp_rows: int = 10_000

    def splits_of(self, name: str) -> int:
        """Return how many splits a set has."""
        return {"protein": self.num_splits_protein, "year": 1}.get(name, self.num_splits)

    def hidden_of(self, name: str) -> int:
        """Return the hidden units for a set."""
        return self.hidden_large if name in ("protein", "year") else self.hidden

    def steps_of(self, name: str, num_rows: int) -> int:
        """Return how many steps SVGD takes on so many rows."""
        return max(self.num_steps, self.num_epochs * num_rows // self.batch_of(name))

    def batch_of(self, name: str) -> int:
        """Return the rows of a minibatch for a set."""
        return self.year_batch if name == "year" else self.batch_size


_data = functools.lru_cache(maxsize=len(SETS))(datasets.load)


def _fitted(model, method: sf.SVGD | None, num_steps: int, split: int, config: Config) -> sf.Result:
    return fit(model, method, num_particles=config.num_particles, num_steps=num_steps, key=split)


def _svgd(name: str, split: int, config: Config) -> dict:
    """Choose the step size on held-out training rows, train on all of them, and evaluate both kinds of noise."""
    (X, y), test = _data(name).split(split)
    num_train = len(y) - num_dev_rows(len(y))
    dev = X[num_train:], y[num_train:]
    settings = {"hidden": (config.hidden_of(name),), "batch_size": config.batch_of(name)}
    part = sf.models.NeuralNetwork(X[:num_train], y[:num_train], **settings)
    seconds, tried = [], {}
    num_steps = config.steps_of(name, len(y))
    for reach in config.reaches:
        result = _fitted(part, sf.SVGD.for_networks(reach), num_steps, split, config)
        seconds.append(result.info["seconds"])
        tried[reach] = (part.evaluate(result.particles, *dev), result.particles)
    best = max(tried, key=lambda reach: np.nan_to_num(tried[reach][0]["log_likelihood"], nan=-np.inf))
    # The noise of the posterior is no part of the other mode, so it has no say there.
    closest = min(tried, key=lambda reach: np.nan_to_num(tried[reach][0]["rmse"], nan=np.inf))
    model = sf.models.NeuralNetwork(X, y, **settings)
    result = _fitted(model, sf.SVGD.for_networks(best), num_steps, split, config)
    return {
        **model.evaluate(result.particles, *test),
        "dev_noise": {**part.evaluate(with_dev_noise(part, tried[closest][1], *dev), *test), "reach": closest},
        "reach": best,
        "validation": [[reach, found] for reach, (found, _) in tried.items()],
        "num_steps": num_steps,
        "seconds": result.info["seconds"],
        "seconds_choosing": sum(seconds),
    }


def _default(name: str, split: int, config: Config) -> dict:
    train, test = _data(name).split(split)
    model = sf.models.NeuralNetwork(*train, hidden=(config.hidden_of(name),), batch_size=config.batch_of(name))
    result = _fitted(model, None, config.steps_of(name, len(train[1])), split, config)
    return {**model.evaluate(result.particles, *test), "seconds": result.info["seconds"]}


def _pbp(name: str, split: int, config: Config) -> dict:
    train, test = _data(name).split(split)
    with jax.enable_x64(True):
        model = sf.models.NeuralNetwork(*train, hidden=(config.hidden_of(name),))
        state, seconds = _timed_pbp(model, config.pbp_epochs, split)
        return {**sf.PBP().evaluate(model, state, *test), "seconds": seconds}


def _timed_pbp(model, num_epochs: int, seed: int):
    def train(num_epochs: int):
        # As a NumPy number it is not part of what is compiled: one epoch compiles for all.
        state = sf.PBP().train(model, num_epochs=cast(int, np.int32(num_epochs)), key=jax.random.key(seed))
        return jax.block_until_ready(state)

    train(1)
    started = time.perf_counter()
    return train(num_epochs), time.perf_counter() - started


_METHODS = {"PBP": _pbp, PAPER: _svgd, DEFAULT: _default}


def _year_stand_in(config: Config) -> dict:
    """Time and memory on random data of Year's shape; nothing that is learned from them means anything."""
    random = np.random.default_rng(0)
    X = random.normal(size=(config.year_rows, 90)).astype(np.float32)
    y = np.tanh(X[:, 0]) + random.normal(size=len(X)).astype(np.float32)
    model = sf.models.NeuralNetwork(X, y, hidden=(config.hidden_large,), batch_size=config.year_batch)
    result = _fitted(model, sf.SVGD.for_networks(), config.year_steps, 0, config)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    rows = slice(config.year_pbp_rows)
    with jax.enable_x64(True):
        small = sf.models.NeuralNetwork(X[rows], y[rows], hidden=(config.hidden_large,))
        _, pbp_seconds = _timed_pbp(small, 1, 0)
    return {
        "stand_in": "year",
        "rows": config.year_rows,
        "milliseconds_per_step": 1e3 * result.info["seconds"] / config.year_steps,
        "peak_bytes": peak,
        "pbp_seconds_per_epoch": pbp_seconds * config.year_rows / config.year_pbp_rows,
    }


def _parts(config: Config) -> list[Part]:
    shared: dict[str, Any] = {
        key: value
        for key, value in dataclasses.asdict(config).items()
        if key not in ("names", "num_splits", "num_splits_protein", "pbp_epochs") and not key.startswith("year")
    }
    own = {"PBP": {"hidden": shared["hidden"], "hidden_large": shared["hidden_large"], "epochs": config.pbp_epochs}}
    own[DEFAULT] = {**shared, "reaches": None}

    def part(name, split, method):
        settings = {**own.get(method, shared), "data": name, "split": split, "method": method}

        def compute(_):
            return {"data": name, "split": split, "method": method, **_METHODS[method](name, split, config)}

        return Part(f"{name}, split {split}, {method}", settings, compute)

    names = [*config.names, *(["year"] if config.names == SETS and datasets.available("year") else [])]
    # Split by split, so that an unfinished run has all sets.
    parts = [
        part(name, split, method)
        for split in range(max(map(config.splits_of, names)))
        for name in names
        for method in _METHODS
        if split < config.splits_of(name)
    ]
    if "year" not in names:
        year = {k: v for k, v in dataclasses.asdict(config).items() if k.startswith("year") or k == "hidden_large"}
        parts.insert(len(names) * len(_METHODS), Part("stand-in for year", year, lambda _: _year_stand_in(config)))
    return parts


EXPERIMENT = Experiment(
    title="The table: Bayesian neural networks",
    summary="SVGD and PBP on ten regression sets",
    full=Config(),
    quick=Config(
        names=("boston", "yacht"),
        num_splits=2,
        num_steps=2000,
        num_epochs=0,
        year_rows=20_000,
        year_steps=50,
        year_pbp_rows=2000,
    ),
    parts=_parts,
    draw=networks_page.draw,
    page=networks_page.page,
)
