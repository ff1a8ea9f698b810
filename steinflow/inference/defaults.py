"""What a run does where nothing was said: its method, how many particles, and how many steps."""

from steinflow.methods.base import Method
from steinflow.methods.svgd.ensemble import Ensemble
from steinflow.methods.svgd.method import SVGD
from steinflow.targets.base import Target
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Particles

_PARTICLES, _MEMBERS = 100, 10
_STEPS, _STEPS_OF_ENSEMBLES = 1_000, 10_000
_STEPS_WHERE_NEEDED = 5_000


def default_num_particles(target: Target) -> int:
    """Return how many particles to draw: 100, or 10 networks, each of which explores."""
    return _PARTICLES if target.identified else _MEMBERS


def default_method(target: FlatTarget, particles: Particles) -> Method:
    """Return `SVGD()`, or `Ensemble()` for a network, unless there are more particles than weights, and all rows.

    Fewer particles have no covariance to work in, and with minibatches they do not explore.
    """
    spans = len(particles) > target.dim and not target.noisy
    return SVGD() if target.identified or spans else Ensemble()


def default_num_steps(method: Method, num_layers: int = 1) -> int:
    """Return how many steps to take: 1,000, and of an ensemble 10,000 for every hidden layer, where that is known."""
    return num_layers * _STEPS_OF_ENSEMBLES if isinstance(method, Ensemble) else _STEPS


def default_limits(method: Method) -> tuple[int, int]:
    """Return how many steps to take, and how many at most, where the verdict on the first ones advises more."""
    steps = default_num_steps(method)
    return steps, _STEPS_WHERE_NEEDED if isinstance(method, SVGD) else steps
