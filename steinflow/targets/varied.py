"""One model, made from one item of many: a data set, the width of a prior, whatever differs between posteriors."""

from collections.abc import Callable

from steinflow.targets.base import Target, as_target
from steinflow.typing import Params, PyTree, Scalar


class Varied(Target):
    """The target that a function makes from an item; the item's arrays are arguments of compiled code.

    The function is called wherever the target is used, so that what it returns may close over the item. Items of the
    same shapes share every compiled program.

    Args:
        make: takes an item to a target, or to a log density of one particle.
        item: a pytree of arrays.
    """

    make: Callable[[PyTree], Target | Callable[[Params], Scalar]]
    item: PyTree

    @property
    def made(self) -> Target:
        """The target of this item."""
        return as_target(self.make(self.item))

    def log_density(self, params, batch=None):
        return self.made.log_density(params, batch)

    def constrain(self, params):
        return self.made.constrain(params)

    def unconstrain(self, params):
        return self.made.unconstrain(params)

    def sample_prior(self, key):
        return self.made.sample_prior(key)

    def simulate(self, params, key):
        return self.made.simulate(params, key)

    def given(self, data):
        return self.made.given(data)

    def weighted(self, weights):
        return self.made.weighted(weights)

    def selected(self, rows):
        return self.made.selected(rows)

    @property
    def data(self):
        return self.made.data

    @property
    def observations(self):
        return self.made.observations

    @property
    def knows_log_density(self):
        return self.made.knows_log_density

    @property
    def identified(self):
        return self.made.identified

    @property
    def approach(self):
        return self.made.approach
