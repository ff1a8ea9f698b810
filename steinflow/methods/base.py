"""What a method is: it makes a state from particles, moves it a step, and says which posterior the state represents."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Batch, Particles, PRNGKeyArray, Scalar, Weights


class Time(eqx.Module):
    """When a step happens.

    Attributes:
        step: its number; the first one is 0.
        num_steps: how many steps the run has.
    """

    step: Array
    num_steps: Array

    @property
    def fraction(self) -> Scalar:
        """The part of the run that is done before this step: 0 at the first one."""
        return self.step / self.num_steps


class Draws(eqx.Module):
    """The posterior that a state represents.

    Attributes:
        particles: one row each.
        weights: where they are not equal.
        num_chains: how many chains they form, one after the other.
        count: how many rows are draws, those in front, where a buffer may not be full yet; of each chain where there
            are several. None: all of them.
        metrics: what else there is to say about them, by name, for `result.info`.
    """

    particles: Particles
    weights: Weights | None = None
    num_chains: int = eqx.field(default=1, static=True)
    count: Array | None = None
    metrics: dict[str, Array] = eqx.field(default_factory=dict)


class Seen(NamedTuple):
    """What the last step saw, as NumPy's arrays: where all particles are, with their log densities and scores."""

    particles: np.ndarray
    log_densities: np.ndarray
    scores: np.ndarray


class Settled(NamedTuple):
    """The end of a run.

    Attributes:
        state: what the draws are taken from.
        findings: what else there is to say, by name, for `result.info`.
        states: where the particles have been, of shape (m, n, d), for `result.draws`; None where nothing is kept.
    """

    state: Any
    findings: Mapping[str, Any] = {}
    states: np.ndarray | None = None


class Method(eqx.Module):
    """An inference method: a configuration with `init`, `step` and `draws`.

    To add one: a file with the formula and the paper on top, then a `State` (a module of arrays) and the config class,
    in that order, as in `docs/contributing/add-a-method.md`; export it in `steinflow/__init__.py` and the conformance
    test will find it. Everything is compiled: `step` runs inside a loop that Python does not see. The loop owns the
    time: no state counts its steps.
    """

    @abc.abstractmethod
    def init(self, target: FlatTarget, particles: Particles, *, num_steps: int, key: PRNGKeyArray) -> Any:
        """Return the state that starts from these particles, for a run of `num_steps`, which may size its buffers.

        Raises:
            ValueError: if the method cannot run on this target, or from so few particles.
        """

    @abc.abstractmethod
    def step(self, target: FlatTarget, state: Any, batch: Batch | None, *, time: Time, key: PRNGKeyArray) -> Any:
        """Return the state one step later; `batch` is what this step sees of the data, None being all of it."""

    def num_gradients(self, num_particles: int, num_steps: int) -> int | None:
        """Return how many gradients of the target such a run takes; None where this is not known."""
        return None

    def done(self, state: Any) -> bool:
        """Say whether more steps would add nothing; asked on the host at every record."""
        return False

    def seen(self, state: Any) -> Seen | None:
        """Return what the last step saw, where the state keeps it: whoever watches need not take the scores again."""
        return None

    def settle(self, target: FlatTarget, state: Any) -> Settled:
        """Return the state to end a run with, here the last one.

        Called once, on the host: a method may put into the state what it has learned on the way.
        """
        return Settled(state)

    def settle_all(self, targets: Sequence[FlatTarget], states: Sequence[Any]) -> list[Settled]:
        """Return the same for many runs; a method may do for all at once what takes long for one after the other."""
        return list(map(self.settle, targets, states))

    @abc.abstractmethod
    def draws(self, target: FlatTarget, state: Any, *, key: PRNGKeyArray) -> Draws:
        """Return the posterior that the state represents."""


def refuse_minibatches(target: FlatTarget, method: str, why: str) -> None:
    """Raise a ValueError where a method must see all of the data at every step and would not."""
    if target.noisy or (target.data is not None and target.data.host is not None):
        raise ValueError(
            f"{method} needs all of the data at every step: {why}. Give the target arrays in memory and no batch_size, "
            "or use a method for minibatches: sf.SVGD(), sf.SGLD(), sf.DSVI(), sf.PMD()."
        )


def need_log_density(target: FlatTarget, method: str) -> None:
    """Raise a ValueError where scores alone are not enough."""
    if not target.knows_log_density:
        raise ValueError(
            f"{method} compares log densities, but this target only knows its score. Return both, with "
            "sf.from_score(function, with_log_density=True), or use sf.SVGD(), sf.SGLD() or sf.DSVI()."
        )
