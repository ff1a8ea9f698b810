"""From particles to `arviz.InferenceData`: what a run found, and what its target says about the data."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from steinflow.targets.base import Labels, Target
from steinflow.typing import Array, Params, Weights


def inference_data(
    particles: Params,
    posterior: Mapping[str, Array],
    statistics: Mapping[str, Array],
    *,
    target: Target | None,
    num_chains: int,
    weights: Weights | None,
    labels: Labels,
    log_likelihood: bool,
    posterior_predictive: bool,
    key: int,
):
    """Return `arviz.InferenceData`; the groups that speak about data come from the target.

    Args:
        particles: as the target's user knows them.
        posterior: the same by name.
        statistics: other values of every particle, by name.
        target: what was inferred, where it is known.
        num_chains: how many chains the particles form.
        weights: of the particles. ArviZ has none, so particles are repeated in proportion (systematic resampling).
        labels: names of axes and places that go before those of the target.
        log_likelihood: whether to add that group.
        posterior_predictive: whether to add that group.
        key: of the predictive draws.
    """
    if weights is not None:
        chosen = _systematic(np.asarray(weights, dtype=float))
        particles, posterior, statistics = jax.tree.map(
            lambda leaf: np.asarray(leaf)[chosen], (particles, dict(posterior), dict(statistics))
        )
        num_chains = 1
    groups = {"posterior": posterior, "sample_stats": statistics}
    observed: Mapping[str, Array] = {}
    if target is not None:
        own = target.labels()
        labels = Labels({**own.dims, **labels.dims}, {**own.coords, **labels.coords})
        observed = target.observed()
        if log_likelihood:
            groups["log_likelihood"] = target.log_likelihoods(particles)
        if posterior_predictive:
            groups["posterior_predictive"] = target.predictive(particles, key=jax.random.key(key))

    def by_chain(values):
        values = np.asarray(values)
        return values.reshape(num_chains, -1, *values.shape[1:])

    by_group: dict[str, Any] = {
        name: {variable: by_chain(values) for variable, values in group.items()}
        for name, group in groups.items()
        if group
    }
    by_group["observed_data"] = {name: np.asarray(values) for name, values in observed.items()}
    dims = {}
    for name, group in by_group.items():
        for variable, values in group.items():
            shape = values.shape if name == "observed_data" else values.shape[2:]
            dims.setdefault(variable, _axes(variable, shape, labels.dims.get(variable, ())))
    with warnings.catch_warnings():  # ArviZ announces its next major version on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz.from_dict(
        **{name: group for name, group in by_group.items() if group},
        coords={name: list(places) for name, places in labels.coords.items()},
        dims=dims,
    )


def _axes(variable: str, shape: Sequence[int], names: Sequence[str | None]) -> list[str]:
    """Name every axis; names that do not fit the shape are not used."""
    names = names if len(names) == len(shape) else [None] * len(shape)
    return [name or f"{variable}_dim_{axis}" for axis, name in enumerate(names)]


def _systematic(weights: np.ndarray) -> np.ndarray:
    """Return n indices, each as often as its weight says, to within one."""
    places = (np.arange(len(weights)) + 0.5) / len(weights)
    return np.minimum(np.searchsorted(np.cumsum(weights), places * weights.sum()), len(weights) - 1)
