"""What comes back: the particles in the user's space, how the run went and how it ended."""

import dataclasses
import functools
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.devices.keys import as_key
from steinflow.results import arviz
from steinflow.results.chains import judge_chains
from steinflow.results.evidence import Evidence, evidence_of, log_densities_of
from steinflow.results.files import read_netcdf, save_netcdf, to_tree
from steinflow.results.measures import ksd_of
from steinflow.results.outcome import Ending, Outcome
from steinflow.results.predictions import judge_predictions
from steinflow.results.refinement import Check, nuts_moves, stein_thinning, stein_weights
from steinflow.results.summary import Summary, columns_of, dataframe, number
from steinflow.results.verdict import Finding, Verdict, judge
from steinflow.stein.discrepancy import dispersion_of
from steinflow.stein.geometry import even_sample
from steinflow.targets.base import Target, as_target
from steinflow.targets.flat import flatten
from steinflow.targets.observations import Labels
from steinflow.typing import Array, Params, Particles, PRNGKeyArray, PyTree, Scalar, Scores, Weights

_WAY = ("trajectory", "predictions", "num_divergent")  # of `info`: by what the verdict judges the way of a run
_NOISE = ("batch_noise", "score_noise")  # of `info`: what minibatches leave
_NOT_FINITE_IS_FINE = np.errstate(over="ignore", invalid="ignore")  # outcome and verdict say so, not a warning


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """A posterior as particles. Two results are equal only if they are the same object.

    Attributes:
        particles: in the user's space and structure, with a leading axis.
        weights: one per particle, summing to one; None where they are equal.
        history: what was recorded, by name; `history["step"]` says when.
        ending: how the run ended, in a word and a sentence.
        unconstrained: the particles as the method saw them, points of R^d.
        scores: the gradient of the log density at these points.
        log_densities: the log density there, up to a constant.
        num_chains: how many chains the particles form, one after the other.
        info: method, versions, seconds and the like, all plain values.
        target: what was inferred; neither saved nor pickled, because it may hold code and all the data.
        state: the final state of the method, to go on with `method.step` in a loop of your own; not saved either.
        states: past positions of all particles, unconstrained, of shape (m, n, d), for `draws`; None if the method
            keeps none. Not saved either.
    """

    particles: Params
    weights: Weights | None
    history: Mapping[str, PyTree]
    ending: Ending
    unconstrained: Particles
    scores: Scores
    log_densities: Array
    num_chains: int
    info: Mapping[str, Any]
    target: Target | None = dataclasses.field(default=None, repr=False)
    state: PyTree = dataclasses.field(default=None, repr=False)
    states: np.ndarray | None = dataclasses.field(default=None, repr=False)

    def __getstate__(self):
        return {**self.__dict__, "target": None, "state": None, "states": None}

    def __len__(self) -> int:
        return len(self.unconstrained)

    @property
    def outcome(self) -> Outcome:
        """How the run ended, in a word; `ending` has the sentence."""
        return self.ending.outcome

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        """The weight of every particle, as a NumPy array: 1 / n where they are equal."""
        return np.full(len(self), 1 / len(self)) if self.weights is None else np.asarray(self.weights, float)

    @property
    def labels(self) -> Labels:
        """Names of the axes of parameters, and of the positions along them, where the target has names."""
        observations = None if self.target is None else self.target.observations
        return Labels() if observations is None else observations.labels()

    def expectation(self, function: Callable[[Params], PyTree]) -> PyTree:
        """Return the posterior mean of a function of one particle."""
        return self._average(jax.vmap(function)(self.particles))

    def mean(self) -> Params:
        """Return the posterior mean of every parameter."""
        return self._average(self.particles)

    @_NOT_FINITE_IS_FINE
    def sd(self) -> Params:
        """Return the posterior standard deviation of every parameter."""
        squares = jax.tree.map(lambda x, mean: (np.asarray(x) - np.asarray(mean)) ** 2, self.particles, self.mean())
        return jax.tree.map(lambda variance: as_array(np.sqrt(variance)), self._average(squares))

    @functools.cached_property
    def ksd(self) -> float:
        """The kernelized Stein discrepancy of the final particles (IMQ kernel); beyond 2,048 of them an estimate."""
        return ksd_of(self.unconstrained, self.scores, self.weights)

    @functools.cached_property
    @_NOT_FINITE_IS_FINE
    def dispersion(self) -> np.ndarray:
        """The dispersion of every unconstrained coordinate: 1 where the spread is right, less where it is too small."""
        x, scores = np.asarray(self.unconstrained, float), np.asarray(self.scores, float)
        return dispersion_of(x, scores, self.probabilities)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """Whether to believe the particles: good, doubtful or bad, with reasons and remedies in words.

        `outcome` says how the run ended; this judges where it ended. The documentation says how often it is right.
        """
        if self.outcome is Outcome.NON_FINITE:
            return Verdict("bad", (Finding("bad", self.ending.message.removesuffix("."), ()),), {})
        if "predictions" in self.info:  # of a network, whose weights mean nothing by themselves
            return judge_predictions(self.info["predictions"], self.info.get("held_out", {}))
        if "num_divergent" in self.info:
            return judge_chains(self.unconstrained, self.num_chains, self.info["num_divergent"])
        return judge(
            self.unconstrained,
            self.scores,
            self.log_densities,
            weights=self.weights,
            history=self.history,
            batch_noise=self.info.get("batch_noise"),
            score_noise=self.info.get("score_noise", 0.0),
            num_steps=self.info.get("num_steps", 1),
            trajectory=self.info.get("trajectory"),
            name_of=lambda number: columns_of(self.particles, self.labels)[0][number],
        )

    def reweighted(self) -> "Result":
        """Return the same particles with Stein importance weights, which minimise KSD (Liu & Lee, 2017).

        The target is not evaluated again. Weights improve the mean and the spread of a cloud that covers the posterior
        unevenly; they cannot put particles where there are none.

        Raises:
            ValueError: if there are more than 5,000 particles: it takes all pairs.
        """
        weights = stein_weights(self.unconstrained, self.scores)
        return dataclasses.replace(
            self, weights=as_array(weights, self.unconstrained.dtype), info=self._info_of_these_particles()
        )

    def thinned(self, num_particles: int) -> "Result":
        """Return fewer particles that represent all, by Stein thinning: a greedy choice (Riabiz et al., 2022).

        Each particle is chosen to keep KSD low, without evaluating the target again. A particle may be chosen
        twice. Weights are ignored: the chosen particles have equal weights.

        Raises:
            ValueError: if the number is not between 1 and that of the particles.
        """
        return self._at(stein_thinning(self.unconstrained, self.scores, num_particles))

    def draws(self, num_draws: int | None = None) -> "Result":
        """Return positions that the particles went through while they explored: more draws than there are particles.

        Every particle is a chain. `result.draws().to_arviz()` has them in ArviZ's dimensions, for R-hat and ESS.

        Args:
            num_draws: how many at least; by default all that were kept, about 4,000.

        Raises:
            ValueError: if no positions were kept, or fewer than `num_draws`, or if the data stay on the host: the log
                densities of the draws need all rows.
        """
        if self.states is None or self.target is None:
            raise ValueError(
                "There are no draws beside the particles. Only exploring runs of the default method keep draws, with "
                "at least 100 steps on all of the data, and only until the result is saved. For NUTS the particles are "
                "the draws."
            )
        num_kept, num_chains, dim = self.states.shape
        per_chain = num_kept if num_draws is None else -(-num_draws // num_chains)
        if not 1 <= per_chain <= num_kept:
            raise ValueError(
                f"num_draws must be between 1 and {num_kept * num_chains}, the number kept; got {num_draws}."
            )
        chosen = self.states[np.linspace(0, num_kept - 1, per_chain).round().astype(int)]
        flat, _ = flatten(self.target, self.particles)
        if flat.data is not None and flat.data.host is not None:
            raise ValueError(
                "The log densities of draws need all rows, which stay on the host here. The positions themselves are "
                "in result.states: steps x particles x unconstrained coordinates."
            )
        points = as_array(np.swapaxes(chosen, 0, 1).reshape(-1, dim))
        # As many at once as there are particles, which fit into memory.
        log_densities, scores = _evaluated(flat, points.reshape(-1, num_chains, dim))
        return dataclasses.replace(
            self,
            particles=eqx.filter_jit(flat.to_user)(points),
            weights=None,
            unconstrained=points,
            scores=scores,
            log_densities=log_densities,
            num_chains=num_chains,
            state=None,
            states=None,
        )

    def check(
        self,
        num_moves: int = 20,
        *,
        target: Target | Callable[[Params], Scalar] | None = None,
        key: int | PRNGKeyArray = 0,
    ) -> Check:
        """Move every particle by NUTS and see whether mean and spread change.

        Needs `pip install 'steinflow[blackjax]'`. All of the data are used, even if the run saw minibatches. Moves
        between separate modes are as rare as in any run of NUTS: a missing mode stays missing.

        Args:
            num_moves: of each particle; half of them tune the step size and are not counted.
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            key: an int or a JAX key.

        Returns:
            How far mean and spread moved, and the result after the moves.

        Raises:
            ValueError: where the result was read from disk and no target is given.
            ImportError: where BlackJAX is not installed.
        """
        target = self._target(target, "check")
        result = self.with_equal_weights()
        flat, points = flatten(target, result.particles)
        moves = nuts_moves(flat, points, num_moves, key=as_key(key))
        log_densities, scores = flat.log_densities_and_scores(moves.last)
        moved = dataclasses.replace(
            result,
            particles=flat.to_user(moves.last),
            unconstrained=moves.last,
            scores=scores,
            log_densities=log_densities,
            info={name: value for name, value in self._info_of_these_particles().items() if name not in _NOISE},
            state=None,
            states=None,
        )
        return Check.of(points, moves, moved)

    def evidence(
        self,
        num_draws: int = 10_000,
        *,
        target: Target | Callable[[Params], Scalar] | None = None,
        key: int = 0,
    ) -> Evidence:
        """Return the log marginal likelihood, by importance sampling from a mixture built on the particles.

        The log density is taken as given, so prior and likelihood must be normalised, constants included. Models of
        NumPyro, PyMC and `sf.formula` are normalised, except for ordered responses in formulas. Needs
        `pip install 'steinflow[arviz]'` for Pareto's k.

        Args:
            num_draws: from the mixture, in each of three rounds. The target is evaluated at each draw, on all of the
                data.
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            key: seeds the draws.

        Returns:
            The log evidence with its standard error; NaN, with a reason, if Pareto's k is above 0.7.

        Raises:
            ValueError: where the result was read from disk and no target is given, or the target knows only scores.
            ModuleNotFoundError: where ArviZ is not installed.
        """
        target = self._target(target, "evidence")
        if not target.knows_log_density:
            raise ValueError("The evidence needs log densities, but this target only knows its score.")
        result = self.with_equal_weights()
        flat, points = flatten(target, result.particles)
        return evidence_of(log_densities_of(flat, points.dtype), np.asarray(points), num_draws, key)

    @_NOT_FINITE_IS_FINE
    def summary(self) -> Summary:
        """Return a table of all parameters with KSD, dispersion, outcome and verdict, which can be printed."""
        # The verdict's, in the coordinates of the cloud; where it has none, that of the parameters.
        own = {"": np.median, "_min": np.min, "_max": np.max}
        metrics = self.verdict.metrics
        middle, low, high = (metrics.get(f"dispersion{part}", of(self.dispersion)) for part, of in own.items())
        footer = [
            self._way(),
            f"KSD {number(self.ksd)}, dispersion {middle:.2f} "
            f"({low:.2f} to {high:.2f}; 1 is right, 0 to 1 is too narrow)",
            str(self.ending),
            f"verdict: {self.verdict}",
        ]
        return Summary.of(self.particles, self.probabilities, footer, self.labels)

    def predictive(
        self, *args, key: int | PRNGKeyArray = 0, target: Target | None = None, **kwargs
    ) -> Mapping[str, Array]:
        """Return a new data set for every particle, by name: draws from the posterior predictive distribution.

        For NumPyro pass the arguments of the model; for PyMC, values of its `pm.Data` by name; for Stan, values of its
        data block by name; for `sf.models` and networks, the rows X. Deterministic quantities of the model are computed
        for the new arguments too. Without arguments the predictions are for the data of the fit. Weighted particles are
        repeated in proportion to their weights.

        Args:
            args: of the model.
            key: an int or a JAX key.
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            kwargs: arguments of the model by name. If the model has arguments called key or target, pass them by
                position.

        Raises:
            ValueError: if the target cannot predict new data, or if the result was read from disk and no target is
                given.
        """
        observations = self._target(target, "predictive").observations
        predictions = (
            {}
            if observations is None
            else observations.predictive(self.with_equal_weights().particles, *args, key=as_key(key), **kwargs)
        )
        if not predictions:
            raise ValueError(
                "This target cannot predict new data. Models with observed values can: those of NumPyro, PyMC and "
                "Stan, sf.models, and networks. For other targets, result.expectation(function) averages over the "
                "particles."
            )
        return predictions

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
        """Return posterior and sample_stats, and what the target says about its data, in ArviZ's schema.

        The type is `xarray.DataTree` for ArviZ 1, and `arviz.InferenceData` for older versions. NumPyro and PyMC
        models, networks and `sf.Posterior` add log_likelihood, posterior_predictive and observed_data, if they have
        them, and names for axes. ArviZ has no weights: weighted particles are repeated in proportion to
        their weights (systematic resampling).

        Args:
            target: what was inferred, for a result that was read from disk; `fit` keeps it otherwise.
            log_likelihood: whether to add that group, of size particles x observations.
            posterior_predictive: whether to add that group, of the same size.
            dims: names of the axes of variables, which override the target's names.
            coords: names of the positions on axes, which override the target's names.
            key: seeds the predictive draws.
        """
        return arviz.to_arviz(
            self.with_equal_weights(),
            self.target if target is None else target,
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            dims=dims or {},
            coords=coords or {},
            key=key,
        )

    def to_dataframe(self, *, library: Literal["pandas", "polars"] = "pandas"):
        """Return a table with a row for every particle and a column for every scalar parameter, named as in `summary`.

        Weighted particles add a column `weight`; chains add the columns `chain` and `draw`.

        Args:
            library: the library of the table; Polars needs `pip install 'steinflow[polars]'`.

        Raises:
            ModuleNotFoundError: where the library is not installed.
        """
        return dataframe(self.particles, self.weights, self.num_chains, library, self.labels)

    def save(self, path: str | Path) -> Path:
        """Write everything except the target to a netCDF file. Reading it back executes no code.

        Returns:
            The path, for `sf.load`.

        Raises:
            OSError: where the file cannot be written, for instance on a full disk. A file that was there before is
                left as it was, and the result can be saved elsewhere.
        """
        return save_netcdf(path, to_tree(self))

    @_NOT_FINITE_IS_FINE
    def _average(self, tree: PyTree) -> PyTree:
        """Return the weighted mean of every leaf over its leading axis."""

        def average(leaf):
            leaf = np.asarray(leaf)
            dtype = leaf.dtype if jnp.issubdtype(leaf.dtype, jnp.inexact) else self.unconstrained.dtype
            return as_array(np.tensordot(self.probabilities, leaf, axes=1).astype(dtype))

        return jax.tree.map(average, tree)

    def _target(self, target: Target | Callable[[Params], Scalar] | None, method: str) -> Target:
        """Return the target that was given, or that of the run."""
        target = self.target if target is None else target
        if target is None:
            raise ValueError(
                "A result that was read from disk does not hold its target, which may be code and all the data: pass "
                f"it, as in result.{method}(target=target)."
            )
        return as_target(target)

    def with_equal_weights(self) -> "Result":
        """Return the result with particles repeated in proportion to their weights, where they have any."""
        return self if self.weights is None else self._at(even_sample(len(self), len(self), self.weights))

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
            info=self._info_of_these_particles(),
            state=None,
            states=None,
        )

    def _way(self) -> str:
        """Say how the particles were made and, where the method knows, what the steps were for and what they cost."""
        info, parts = self.info, [f"{len(self)} particles"]
        parts.append(f"{info.get('num_steps', '?')} steps of {info.get('method', '')}")
        if "steps" in info:
            parts += [f"{info['steps']['explored']} of them exploring", f"{info['steps']['remembered']} remembered"]
        return ", ".join(parts) + (f"; {info['gradients']:,} gradients" if "gradients" in info else "")

    def _info_of_these_particles(self) -> Mapping[str, Any]:
        """Return what holds for particles that were changed or chosen after the run, which the way does not judge."""
        return {name: value for name, value in self.info.items() if name not in _WAY}


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote.

    Dictionaries, lists and tuples of arrays come back as they were; other containers come back as dictionaries.

    Raises:
        FileNotFoundError: where there is no such file.
        ValueError: where the file does not hold a result.
    """
    return Result(**read_netcdf(path))


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python, of steinflow and what it computes with, and of further packages."""
    found = {"python": platform.python_version()}
    for name in ("steinflow", "jax", "jaxlib", "equinox", "optax", "numpy", *packages):
        try:
            found[name] = _version(name)
        except metadata.PackageNotFoundError:  # a checkout that is not installed, or an extra
            continue
    return found


@eqx.filter_jit
def _evaluated(flat, blocks):
    """Return the log densities and scores of blocks of particles, one block after the other."""
    found = jax.lax.map(flat.log_densities_and_scores, blocks)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)


@functools.cache  # metadata are files to be read
def _version(name: str) -> str:
    return metadata.version(name)
