"""The posterior of a formula: a target with named parameters, which predicts for any table with the same columns."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.formulas.design import Design, warn
from steinflow.models.formulas.effects import coded, grid, shown_effects
from steinflow.models.formulas.labels import labels_of
from steinflow.models.formulas.predictions import (
    coordinates,
    draws,
    log_likelihoods,
    means,
    predictor_rows,
    response_rows,
)
from steinflow.models.formulas.priors import Priors
from steinflow.models.formulas.regression import Regression
from steinflow.models.formulas.response import (
    Response,
    evaluate,
    evaluate_trials,
    response_columns,
    trial_columns,
)
from steinflow.models.formulas.syntax import FormulaError
from steinflow.models.formulas.tables import Frame, as_frame, as_known, check_columns, with_missing_level
from steinflow.models.supervised import log_weights_of
from steinflow.results.diagnostics import as_key
from steinflow.targets.base import Target
from steinflow.targets.data import Data
from steinflow.targets.observations import Labels, Observations
from steinflow.targets.posterior import Posterior
from steinflow.typing import Array, Batch, Params, PRNGKeyArray, Weights


@dataclasses.dataclass(frozen=True)
class About:
    """What compiled code never sees: the table, its names, and how to read another one.

    All of these are equal to each other, so that models of the same shapes share compiled code.
    """

    formulas: tuple[str, ...]
    family: str
    response_term: Any
    response: Response
    designs: dict[str, Design]
    environment: Any
    predictor_columns: tuple[str, ...]
    filled: tuple[str, ...]
    frame: Frame
    row_numbers: np.ndarray
    table_length: int
    notes: tuple[str, ...]

    def selected(self, rows: np.ndarray) -> "About":
        """Return the same about some of the rows."""
        return dataclasses.replace(
            self,
            response=self.response.selected(rows),
            frame=self.frame.iloc[rows].reset_index(drop=True),
            row_numbers=self.row_numbers[rows],
            notes=(),
        )

    def __eq__(self, other):
        return isinstance(other, About)

    def __hash__(self):
        return hash(About)


class FormulaTarget(Target):
    """The posterior of a formula; `sf.formula` makes it.

    Attributes:
        regression: family, links and linear predictors.
        priors: by name of the parameter; they print themselves.
    """

    regression: Regression
    priors: Priors
    posterior: Posterior
    about: About = eqx.field(static=True)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about the table and the model, a sentence each."""
        return self.about.notes

    @property
    def data(self) -> Data:
        return self.posterior.data

    def log_density(self, params, batch=None):
        return self.posterior.log_density(params, batch)

    def constrain(self, params):
        return self.regression.to_user(self.posterior.constrain(params))

    def unconstrain(self, params):
        missing = [name for name in self.parameters if name not in params]
        if missing:
            raise ValueError(f"particles must be a dictionary with an array for each parameter; {missing} are missing.")
        return self.posterior.unconstrain(self.regression.from_user(params))

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters."""
        return [*self.priors, *self.regression.group_names()]

    @eqx.filter_jit  # many small operations, each of which would be compiled by itself
    def sample_prior(self, key):
        prior_key, group_key = jax.random.split(key)
        drawn = self.priors.sample(prior_key)
        if "threshold" in drawn:
            drawn["threshold"] = _apart(drawn["threshold"])
        for name, shape in self.group_shapes().items():
            group_key, own = jax.random.split(group_key)
            drawn[name] = jax.random.normal(own, shape)
        return self.regression.to_user(self.regression.from_prior(drawn))

    def group_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the effects of all group terms."""
        return {
            predictor.named(term.name): (block.num_levels, *term.shape, *predictor.outputs)
            for predictor in self.regression.predictors.values()
            for block in predictor.blocks
            for term in block.terms
        }

    def weighted(self, weights):
        return eqx.tree_at(lambda target: target.posterior, self, self.posterior.weighted(weights))

    def selected(self, rows):
        return dataclasses.replace(self, posterior=self.posterior.selected(rows), about=self.about.selected(rows))

    def by_row(self, values, name):
        found = np.asarray(values)
        if found.shape[:1] == (self.about.table_length,):  # the formula has dropped rows with missing values
            found = found[self.about.row_numbers]
        return super().by_row(found, name)

    @property
    def observations(self) -> "FormulaObservations":
        return FormulaObservations(self)

    def rows(self, table: Any = None, *, with_response: bool = False) -> Batch:
        """Return the arrays of another table, or of that of the fit; levels never seen are warned about.

        Args:
            table: with the columns of the formula.
            with_response: whether the response is needed too.

        Raises:
            FormulaError: if columns are missing, or have missing values, or the response has a class that the fit has
                not seen.
        """
        if table is None:
            return self.posterior.data.rows(None)
        about, frame = self.about, as_frame(table)
        needed = set(about.predictor_columns)
        needed |= response_columns(about.response_term) if with_response else trial_columns(about.response_term)
        check_columns(frame, needed)
        frame = frame[sorted(needed)]
        frame = frame.assign(**{name: with_missing_level(frame[name]) for name in about.filled})
        for name in frame.columns[frame.isna().any().to_numpy()]:
            count = int(frame[name].isna().sum())
            raise FormulaError(f"Column {name!r} has {count:,} missing values; fill them in or drop these rows.")
        frame = frame.assign(**{name: as_known(frame[name]) for name in frame.columns})
        rows, notes = {"predictors": {}}, ()
        for name, predictor in self.regression.predictors.items():
            arrays, said = about.designs[name].arrays(frame)
            rows["predictors"][name] = predictor_rows(predictor, arrays)
            notes += said
        warn(tuple(dict.fromkeys(notes)))
        if with_response:
            response = self.response(frame)
            if unknown := int(np.isnan(response.y).sum()):
                raise FormulaError(
                    f"The response {response.name!r} has a class that the fit has not seen in {unknown:,} of "
                    f"{len(frame):,} rows; leave these rows out."
                )
            return rows | response_rows(self.regression, response)
        trials = evaluate_trials(about.response_term, frame, about.environment)
        return rows if trials is None else rows | {"trials": jnp.asarray(trials, float)}

    def response(self, table: Any) -> Response:
        """Return the response of the rows of another table, NaN for a class that the fit has not seen."""
        frame = as_frame(table)
        check_columns(frame, response_columns(self.about.response_term))
        return evaluate(self.about.response_term, frame, self.about.environment, self.about.response.levels)

    def log_likelihoods(self, particles: Params, rows: Batch) -> Array:
        """Return the log likelihood of every row under every particle; the rows are those of `rows`."""
        return log_likelihoods(self.regression, coordinates(self.regression, particles), rows)

    def predict(self, particles: Params, table: Any = None, *, weights: Weights | None = None, key: int = 0) -> Array:
        """Return the posterior mean of the response for every row of a table, or the probabilities of its classes.

        Args:
            particles: as in `result.particles`.
            table: with the columns of the formula; the rows of the fit if not given.
            weights: as in `result.weights`.
            key: of the effects of levels that the fit has not seen.
        """
        means = self.means(particles, table, key=key)
        return jnp.tensordot(jnp.exp(log_weights_of(particles, weights)), means, axes=1)

    def means(self, particles: Params, table: Any = None, *, groups: bool = True, key: int | PRNGKeyArray = 0) -> Array:
        """Return the mean of the response for every particle and every row of a table.

        Args:
            particles: as in `result.particles`.
            table: with the columns of the formula; the rows of the fit if not given.
            groups: whether effects of groups count; without them the mean is that of a group whose effects are zero.
            key: of the effects of levels that the fit has not seen.
        """
        params = coordinates(self.regression, particles)
        if not groups:
            params |= {
                f"{name}_sigma": jnp.zeros_like(params[f"{name}_sigma"]) for name in self.regression.group_names()
            }
        return means(self.regression, params, self.rows(table), as_key(key))

    @property
    def codes(self) -> frozenset[str]:
        """The columns whose values are names even where they are numbers: those in C(...), and groups."""
        return coded(self.about.designs.values())

    def effects(self) -> list[tuple[str, ...]]:
        """Return the columns, or pairs of them, whose effects on the mean can be shown."""
        return shown_effects(self.about.designs["mu"])

    def effect_grid(self, names: Sequence[str], num_points: int = 60) -> Frame:
        """Return a table on which the first of these columns varies, for a few values of the second one."""
        check_columns(self.about.frame, names)
        return grid(self.about.frame, names, num_points, self.codes)

    def __str__(self):
        lines = [
            *self.about.formulas,
            f"family: {self.about.family}, link: {self.regression.link}",
            "",
            str(self.priors),
        ]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    __repr__ = __str__


class FormulaObservations(Observations):
    """The response of a formula, on the scale of the table."""

    target: FormulaTarget

    def observed(self):
        return {self._name: jnp.asarray(self.target.about.response.y)}

    def log_likelihoods(self, particles):
        return {self._name: self.target.log_likelihoods(particles, self.target.rows())}

    def predictive(self, particles, table=None, *, key):
        regression = self.target.regression
        return {self._name: draws(regression, coordinates(regression, particles), self.target.rows(table), key)}

    def labels(self):
        about = self.target.about
        found = labels_of(self.target.regression.predictors, about.designs, about.response.levels)
        dims = {**found.dims, about.response.name: ("row",)}
        return Labels(dims, {**found.coords, "row": about.row_numbers.tolist()})

    @property
    def _name(self):
        return self.target.about.response.name


def _apart(thresholds):
    """Return thresholds in order, none on top of another."""
    return jnp.sort(thresholds) + 0.01 * jnp.arange(len(thresholds), dtype=float)
