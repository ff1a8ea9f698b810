"""How experiments call `fit`: quietly, timed, and never keeping a run that was interrupted."""

from collections.abc import Callable, Mapping
from typing import Any

import optax

import steinflow as sf
from steinflow.typing import PRNGKeyArray

PAPER, DEFAULT = "SVGD, as in the paper", "steinflow default"
COLORS = {
    PAPER: "#2a6fbb",
    DEFAULT: "#e0702b",
    "Monte Carlo": "#8a949e",
    "NUTS": "#26323f",
    "NPV": "#8a5fb0",
    "parallel SGLD": "#3a9a6b",
    "SGLD": "#9bc53d",
    "PMD": "#c8385a",
    "DSVI": "#b08a3e",
    "PBP": "#26323f",
}


def fit(
    target: sf.Target,
    method: sf.Method | None,
    *,
    num_steps: int,
    key: int | PRNGKeyArray,
    num_particles: int | None = None,
    particles: Any = None,
    record: Mapping[str, Callable] | None = None,
    record_every: int | None = None,
) -> sf.Result:
    """Run `sf.fit` without a bar; Ctrl-C, which `sf.fit` answers with what there is so far, ends the experiment.

    Without `record_every` only the end is recorded, so that watching takes no time.
    """
    result = sf.fit(
        target,
        method,
        particles=particles,
        num_particles=num_particles,
        num_steps=num_steps,
        key=key,
        progress=False,
        record=record,
        record_every=record_every or num_steps,
    )
    if result.outcome is sf.Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def paper_svgd(optimizer: optax.GradientTransformation) -> sf.SVGD:
    """Return the paper's SVGD, RBF kernel with the median bandwidth, with the step rule of an experiment."""
    return sf.SVGD(kernel=sf.kernels.RBF(), metric=sf.svgd.Euclidean(), optimizer=optimizer)
