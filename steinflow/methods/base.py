"""What a method is: it makes a state from particles, moves it a step, and says what posterior the state stands for."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.targets.base import Posterior
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Weights


class Draws(eqx.Module):
    """The posterior that a state stands for.

    Attributes:
        particles: one row each.
        weights: where they are not equal.
        num_chains: how many chains they form, one after the other.
        figures: what else there is to say about them, by name, for `result.info`.
    """

    particles: Particles
    weights: Weights | None = None
    num_chains: int = eqx.field(default=1, static=True)
    figures: dict[str, Array] = eqx.field(default_factory=dict)


class Method(eqx.Module):
    """An inference method: a configuration with `init`, `step` and `draws`.

    To add one: a file with the formula and the paper on top, then a `State` (a module of arrays) and the config class,
    in that order, following `svgd.py`; export it in `steinflow/__init__.py` and the conformance test will find it.
    Everything is compiled: `step` runs inside a loop that Python does not see.
    """

    @abc.abstractmethod
    def init(self, target: FlatTarget, particles: Particles, *, num_steps: Array, key: PRNGKeyArray) -> Any:
        """Return the state that starts from these particles, for a run of `num_steps`."""

    @abc.abstractmethod
    def step(self, target: FlatTarget, state: Any, batch: Batch | None, *, key: PRNGKeyArray) -> Any:
        """Return the state one step later; `batch` is what this step sees of the data, None being all of it."""

    @abc.abstractmethod
    def draws(self, target: FlatTarget, state: Any, *, key: PRNGKeyArray) -> Draws:
        """Return the posterior that the state stands for."""


def num_data(target: FlatTarget) -> int:
    """Return the number of rows of the target's data, 1 if it has none: sums over rows grow with it."""
    return target.target.num_data if isinstance(target.target, Posterior) else 1


def refuse_minibatches(target: FlatTarget, method: str, why: str) -> None:
    """Say so where a method must see all of the data at every step."""
    batch = target.minibatch(jax.random.key(0), jnp.asarray(0))
    if batch is not None or target.target.host_data is not None:
        raise ValueError(
            f"{method} needs all of the data at every step: {why}. Give the target arrays in memory and no batch_size, "
            "or use a method for minibatches: sf.SVGD(), sf.SGLD(), sf.DSVI(), sf.PMD()."
        )


def need_log_density(target: FlatTarget, method: str) -> None:
    """Say so where scores alone are not enough."""
    if not target.target.knows_log_density:
        raise ValueError(
            f"{method} compares log densities, and this target only knows its score. Return both, with "
            "sf.from_score(function, with_log_density=True), or use sf.SVGD(), sf.SGLD() or sf.DSVI()."
        )
