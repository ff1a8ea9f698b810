"""What a NumPyro model consists of, found by tracing it once; and what is refused, by name and with the fix."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer import init_to_sample, init_to_uniform
from numpyro.primitives import Messenger


class Plate(NamedTuple):
    """A plate that subsamples."""

    name: str
    size: int
    subsample_size: int


class Sites(NamedTuple):
    """What a model consists of; hashable, so that it is part of what compiled code depends on.

    Attributes:
        latent: what is inferred.
        observed: what has values.
        deterministic: what follows from the others.
        enumerated: discrete sites that NumPyro sums out.
        improper: latent sites whose prior has no draws.
        plates: those that subsample.
        depth: how many axes of a value may belong to plates, one inside the other.
        dims: the plate behind every axis of a site.
    """

    latent: tuple[str, ...]
    observed: tuple[str, ...]
    deterministic: tuple[str, ...]
    enumerated: tuple[str, ...]
    improper: tuple[str, ...]
    plates: tuple[Plate, ...]
    depth: int
    dims: tuple[tuple[str, tuple[str | None, ...]], ...]


class Rows(Messenger):
    """Say which rows subsampled plates see: those given by the name of a plate, else all. Plates are put on record."""

    def __init__(self, model, rows=None):
        super().__init__(model)
        self.rows = rows or {}
        self.plates: list[Plate] = []

    def process_message(self, msg):
        if msg["type"] != "plate":
            return
        size, subsample_size = msg["args"]
        if subsample_size in (None, size):
            return
        self.plates.append(Plate(msg["name"], size, subsample_size))
        msg["value"] = self.rows.get(msg["name"], jnp.arange(size))
        msg["args"] = (size, len(msg["value"]))


class Unobserve(Messenger):
    """Draw the observed sites anew."""

    def process_message(self, msg):
        if msg["type"] == "sample" and msg["is_observed"] and not isinstance(msg["fn"], dist.Unit):
            msg["value"], msg["is_observed"] = None, False


def start_value(site):
    """Draw from the prior of a site, or in (-2, 2) of its unconstrained space where that cannot be done."""
    try:
        return init_to_sample(site)  # it does so itself where a distribution has no draws at all
    except ImportError:  # quantiles of Student's t, by which a truncated one is drawn, need TensorFlow Probability
        return init_to_uniform(site)


def inspect(model, args, kwargs) -> Sites:
    """Trace the model once, on shapes alone, and refuse what has no density on R^d."""
    seeded = handlers.seed(model, jax.random.key(0))
    rows = Rows(handlers.substitute(seeded, substitute_fn=start_value))
    with numpyro.validation_enabled(False):
        trace = handlers.trace(rows).get_trace(*args, **kwargs)
    return _classified(trace, rows.plates)


def _classified(trace, plates) -> Sites:
    subsampled = {plate.name for plate in plates}
    kinds: dict[str, list[str]] = {"latent": [], "observed": [], "deterministic": [], "enumerated": [], "improper": []}
    dims, depth = {}, 0
    for name, site in trace.items():
        if site["type"] == "param":
            _refuse_parameter(name)
        if site["type"] == "deterministic":
            kinds["deterministic"].append(name)
            dims[name] = _dims(site)
        if site["type"] != "sample":
            continue
        depth = max([depth, *(-frame.dim for frame in site["cond_indep_stack"])])
        if isinstance(site["fn"], dist.Unit):  # a numpyro.factor
            continue
        dims[name] = _dims(site)
        if site["is_observed"]:
            kinds["observed"].append(name)
        elif site["fn"].support.is_discrete:
            _check_discrete(name, site)
            kinds["enumerated"].append(name)
        else:
            _check_latent(name, site, trace, subsampled)
            kinds["latent"].append(name)
            if isinstance(site["fn"], dist.ImproperUniform):
                kinds["improper"].append(name)
    if not kinds["latent"]:
        raise ValueError(
            "The model has no latent sites: there is nothing to infer. Leave obs=... away from what is unknown."
        )
    found = {kind: tuple(names) for kind, names in kinds.items()}
    return Sites(**found, plates=tuple(plates), depth=depth, dims=tuple(dims.items()))


def _refuse_parameter(name) -> None:
    if name.endswith("_centered"):
        raise ValueError(
            f"LocScaleReparam() learns how far to centre {name.removesuffix('_centered')!r}, as a parameter without a "
            "prior. Say it: LocScaleReparam(centered=0)."
        )
    raise ValueError(
        f"The model has a parameter without a prior: numpyro.param({name!r}). Give it one with numpyro.sample; "
        "dist.ImproperUniform(support, (), event_shape) is a flat one."
    )


def _check_discrete(name, site) -> None:
    if not site["fn"].has_enumerate_support or (site["infer"] or {}).get("enumerate") != "parallel":
        raise ValueError(
            f"The latent site {name!r} is discrete, and SVGD needs gradients. Sum it out: with few values, mark it "
            "numpyro.sample(..., infer={'enumerate': 'parallel'}) and NumPyro does it; or use dist.MixtureSameFamily, "
            "or numpyro.factor and jax.nn.logsumexp over its values."
        )
    try:
        import funsor  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "funsor":
            raise
        raise ModuleNotFoundError(
            f"To sum out the discrete site {name!r}, NumPyro needs funsor: pip install 'steinflow[funsor]'.",
            name="funsor",
        ) from error


def _check_latent(name, site, trace, subsampled) -> None:
    if isinstance(site["fn"], dist.Delta):
        raise ValueError(
            f"The latent site {name!r} has all of its mass at a point, so it has no density. Write it as "
            f"numpyro.deterministic({name!r}, value)."
        )
    whole = name.removesuffix("_unobserved")
    if whole != name and f"{whole}_observed" in trace:
        raise ValueError(
            f"obs_mask of {whole!r} adds a latent value for every row, also for those that were observed, where "
            "nothing holds it: NumPyro's own MCMC does not take it either. Sample the missing values as a site of "
            "their own, or leave their rows out with handlers.mask."
        )
    inside = subsampled & {frame.name for frame in site["cond_indep_stack"]}
    if inside:
        raise ValueError(
            f"The latent site {name!r} has one value per row of the subsampled plate {min(inside)!r}: "
            "a minibatch would leave the other rows without any. Remove subsample_size from that plate."
        )


def _dims(site) -> tuple[str | None, ...]:
    """The plate behind every axis of a site; NumPyro's own `infer={"event_dims": [...]}` names the others."""
    shape = np.shape(site["value"])
    event = site["fn"].event_dim if site["type"] == "sample" else 0
    names: list[str | None] = [None] * len(shape)
    for frame in site["cond_indep_stack"]:
        axis = len(shape) - event + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    named = (site.get("infer") or {}).get("event_dims", ())
    if event and len(named) == event:
        names[len(shape) - event :] = named
    return tuple(names)
