"""What comes back: the particles in the user's space, how the run went and ended, the ways out (ArviZ, netCDF)."""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.results.arviz import inference_data
from steinflow.results.diagnostics import as_key, dispersion_of, even_sample, ksd_of
from steinflow.results.refinement import Check, nuts_moves, stein_thinning, stein_weights
from steinflow.results.structures import describe, rebuild, variables
from steinflow.results.summary import Summary, named_arrays
from steinflow.results.verdict import Finding, Verdict, judge
from steinflow.targets.base import Labels, Target, as_target
from steinflow.targets.flat import flatten
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, PyTree, Scalar, Scores, Weights

Status = Literal["converged", "step limit", "interrupted", "non-finite", "collapsed"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended, in one word and in a sentence that says what to do next."""

    status: Status
    message: str

    def __str__(self):
        return f"{self.status}: {self.message}"


@dataclasses.dataclass(frozen=True)
class Result:
    """A posterior as particles.

    Attributes:
        particles: in the user's space and structure, with a leading axis.
        weights: one per particle, summing to one; None where they are equal.
        history: what was recorded, by name; `history["step"]` says when.
        outcome: how the run ended.
        unconstrained: the particles as the method saw them, points of R^d.
        scores: the gradient of the log density at these points.
        log_densities: the log density there, up to a constant.
        num_chains: how many chains the particles form, one after the other.
        info: method, versions, seconds and the like, all plain values.
        target: what was inferred; neither saved nor pickled, because it may hold code and all the data.
    """

    particles: Params
    weights: Weights | None
    history: Mapping[str, PyTree]
    outcome: Outcome
    unconstrained: Particles
    scores: Scores
    log_densities: Array
    num_chains: int
    info: Mapping[str, Any]
    target: Target | None = dataclasses.field(default=None, repr=False, compare=False)

    def __getstate__(self):
        return {**self.__dict__, "target": None}

    def __len__(self) -> int:
        return len(self.unconstrained)

    def expectation(self, function: Callable[[Params], PyTree]) -> PyTree:
        """Return the posterior mean of a function of one particle."""
        values = jax.vmap(function)(self.particles)
        return jax.tree.map(lambda leaf: jnp.tensordot(self._equal_or_given(), leaf, axes=1), values)

    def mean(self) -> Params:
        """Return the posterior mean of every parameter."""
        return self.expectation(lambda params: params)

    def sd(self) -> Params:
        """Return the posterior standard deviation of every parameter."""
        mean = self.mean()
        variance = self.expectation(lambda params: jax.tree.map(lambda x, m: (x - m) ** 2, params, mean))
        return jax.tree.map(jnp.sqrt, variance)

    @property
    def ksd(self) -> float:
        """The kernelized Stein discrepancy of the final particles (IMQ kernel); beyond 2,048 of them an estimate."""
        return ksd_of(self.unconstrained, self.scores, self.weights)

    @property
    def dispersion(self) -> Array:
        """The dispersion of every unconstrained coordinate: 1 if the spread is right, less if it has collapsed."""
        return dispersion_of(self.unconstrained, self.scores, self.weights)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """Whether to believe the particles: good, doubtful or bad, with reasons and remedies in words.

        `outcome` says how the run ended; this looks at where it ended. The documentation says how often it is right.
        """
        if self.outcome.status == "non-finite":
            return Verdict("bad", (Finding("bad", self.outcome.message.removesuffix("."), ()),), {})
        return judge(
            self.unconstrained,
            self.scores,
            self.log_densities,
            weights=self.weights,
            history=self.history,
            batch_noise=self.info.get("batch_noise"),
        )

    def reweighted(self) -> "Result":
        """Return the same particles with Stein importance weights, those of least KSD (Liu & Lee, 2017).

        It needs no further evaluation of the target. Good for the mean and the spread of a cloud that covers the
        posterior unevenly; it cannot put particles where there are none.
        """
        weights = stein_weights(self.unconstrained, self.scores)
        return dataclasses.replace(self, weights=jnp.asarray(weights, self.unconstrained.dtype))

    def thinned(self, num_particles: int) -> "Result":
        """Return fewer particles that stand for all: Stein thinning, greedily of least KSD (Riabiz et al., 2022).

        It needs no further evaluation of the target. A particle may come twice. Weights are not looked at: the
        particles that are chosen have equal ones.
        """
        return self._at(stein_thinning(self.unconstrained, self.scores, num_particles))

    def checked(
        self,
        num_moves: int = 20,
        *,
        target: Target | Callable[[Params], Scalar] | None = None,
        key: int | PRNGKeyArray = 0,
    ) -> Check:
        """Move every particle by NUTS and say whether mean and spread stay; needs `pip install 'steinflow[blackjax]'`.

        All of the data is used, also where the run saw minibatches. Moves between separate modes are as rare as in any
        run of NUTS: a missing mode stays missing.

        Args:
            num_moves: of each particle; half of them tune the step and are not counted.
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            key: an int or a JAX key.
        """
        target = self.target if target is None else as_target(target)
        if target is None:
            raise ValueError(
                "A result that was read from disk does not hold its target, which may be code and all the data: pass "
                "it, as in result.checked(target=log_density)."
            )
        result = self if self.weights is None else self._at(even_sample(len(self), len(self), self.weights))
        flat, points = flatten(target, result.particles)
        moves = nuts_moves(flat, points, num_moves, key=as_key(key))
        log_densities, scores = flat.log_densities_and_scores(moves.last)
        moved = dataclasses.replace(
            result,
            particles=flat.to_user(moves.last),
            unconstrained=moves.last,
            scores=scores,
            log_densities=log_densities,
            info={name: value for name, value in self.info.items() if name != "batch_noise"},
        )
        return Check.of(points, moves, moved)

    def _at(self, indices: np.ndarray) -> "Result":
        """Return the result with these particles only, of equal weight."""
        return dataclasses.replace(
            self,
            particles=jax.tree.map(lambda leaf: leaf[indices], self.particles),
            weights=None,
            unconstrained=self.unconstrained[indices],
            scores=self.scores[indices],
            log_densities=self.log_densities[indices],
            num_chains=1,
        )

    def summary(self) -> Summary:
        """Return a table of every parameter with KSD, dispersion, outcome and verdict; it prints itself."""
        spread = np.asarray(self.dispersion)
        footer = [
            f"{len(self)} particles, {self.info.get('num_steps', '?')} steps of {self.info.get('method', '')}",
            f"KSD {self.ksd:.3g}, dispersion {np.median(spread):.2f} "
            f"(from {spread.min():.2f} to {spread.max():.2f}; 1 is right, less is collapsed)",
            str(self.outcome),
            f"verdict: {self.verdict}",
        ]
        return Summary.of(self.particles, self._equal_or_given(), footer)

    def to_arviz(
        self,
        *,
        target: Target | None = None,
        log_likelihood: bool = True,
        posterior_predictive: bool = True,
        dims: Mapping[str, Sequence[str | None]] | None = None,
        coords: Mapping[str, Sequence] | None = None,
        key: int = 0,
    ):
        """Return `arviz.InferenceData` with posterior and sample_stats, and what the target knows about its data.

        NumPyro and PyMC models, networks and `sf.Posterior` add log_likelihood, posterior_predictive and observed_data,
        as far as they have them, and names for axes.

        Args:
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            log_likelihood: whether to add that group, of size particles x observations.
            posterior_predictive: whether to add that group, of the same size.
            dims: names of the axes of variables, before those of the target.
            coords: names of the places on axes, before those of the target.
            key: seeds the predictive draws.
        """
        return inference_data(
            self.particles,
            dict(named_arrays(self.particles)),
            {"lp": self.log_densities},
            target=target or self.target,
            num_chains=self.num_chains,
            weights=self.weights,
            labels=Labels(dims or {}, coords or {}),
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            key=key,
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to a netCDF file, which executes nothing when it is read; `sf.load` brings it back."""
        import xarray

        path = Path(path)
        unfinished = path.with_name(path.name + ".unfinished")  # a crash leaves the old file whole
        try:
            xarray.DataTree.from_dict(self._datasets()).to_netcdf(unfinished, engine="h5netcdf")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def _equal_or_given(self) -> Array:
        if self.weights is None:
            return jnp.full(len(self), 1 / len(self), self.unconstrained.dtype)
        return self.weights

    def _datasets(self) -> dict:
        import xarray

        def by_draw(values, dims=()):
            values = np.asarray(values)
            shape = (self.num_chains, len(self) // self.num_chains, *values.shape[1:])
            names = dims or [f"dim_{axis}" for axis in range(values.ndim - 1)]
            return ("chain", "draw", *names), values.reshape(shape)

        def own_dims(name, values):
            return [f"{name}_dim_{axis}" for axis in range(np.ndim(values) - 1)]

        posterior = {name: by_draw(values, own_dims(name, values)) for name, values in variables(self.particles)}
        statistics = {"lp": by_draw(self.log_densities)}
        if self.weights is not None:
            statistics["weight"] = by_draw(self.weights)
        internals = {
            "x": by_draw(self.unconstrained, ["coordinate"]),
            "score": by_draw(self.scores, ["coordinate"]),
        }
        history = {
            name: (("record", *own_dims(name, values)), np.asarray(values))
            for name, values in variables(dict(self.history))
        }
        attributes = {
            "outcome": json.dumps(dataclasses.asdict(self.outcome)),
            "info": json.dumps(dict(self.info)),
            "structure": json.dumps(describe(self.particles)),
            "history_structure": json.dumps(describe(dict(self.history))),
        }
        chains = {
            "chain": np.arange(self.num_chains),
            "draw": np.arange(len(self) // self.num_chains),
        }
        return {
            "posterior": xarray.Dataset(posterior, chains, attributes),
            "sample_stats": xarray.Dataset(statistics, chains),
            "unconstrained": xarray.Dataset(internals, chains),
            "history": xarray.Dataset(history),
        }


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote.

    Dictionaries, lists and tuples of arrays come back as they were; other containers come back as dictionaries.
    """
    import xarray

    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        tree = tree.load()
    if not {"posterior", "sample_stats", "unconstrained", "history"} <= set(tree.children):
        raise ValueError(f"{path} is not a result of steinflow: it has the groups {sorted(tree.children)}.")

    def arrays(group):
        return {
            name: jnp.asarray(values.values.reshape(-1, *values.shape[2:]))
            for name, values in tree[group].data_vars.items()
        }

    attributes = tree["posterior"].attrs
    statistics, internals, history = arrays("sample_stats"), arrays("unconstrained"), tree["history"].data_vars
    structures = {name: json.loads(attributes[name]) for name in ("structure", "history_structure")}
    return Result(
        particles=rebuild(structures["structure"], arrays("posterior")),
        weights=statistics.get("weight"),
        history=rebuild(structures["history_structure"], {name: values.values for name, values in history.items()}),
        outcome=Outcome(**json.loads(attributes["outcome"])),
        unconstrained=internals["x"],
        scores=internals["score"],
        log_densities=statistics["lp"],
        num_chains=tree["posterior"].sizes["chain"],
        info=json.loads(attributes["info"]),
    )
