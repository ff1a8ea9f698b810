"""What a run is: a method, a target, and all else that does not change from step to step."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from steinflow.devices import sharding
from steinflow.methods.base import Method
from steinflow.targets.anchors import Anchor, Minibatch
from steinflow.targets.feed import Block
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, PRNGKeyArray


class Plan(eqx.Module):
    """Everything that does not change from step to step."""

    method: Method
    target: FlatTarget
    record: dict[str, Callable]
    num_steps: Array
    key: PRNGKeyArray
    data_key: PRNGKeyArray

    def placed(self) -> "Plan":
        """Return the plan with its arrays on the current mesh."""
        return eqx.tree_at(lambda plan: plan.target, sharding.replicate(self), self.target.placed())

    def batch(self, step, block: Block | None, anchor: Anchor | None):
        """Return what a step sees of the data."""
        if block is None:
            return self.target.minibatch(self.data_key, step, anchor)
        return Minibatch(block.batch(step), anchor) if self.target.noisy else block.batch(step)

    def last_batch(self, step, block: Block | None, anchor: Anchor | None):
        """Return what the last step before this one saw."""
        return self.batch(jnp.maximum(step - 1, 0), block, anchor)
