"""A formula in a run: plain values that make its target again, and its fit in the place of an estimator."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from steinflow.models.columns import MISSING_LEVEL, Frame, TableError, as_text, check_column, listed
from steinflow.models.formulas import FormulaTarget, formula
from steinflow.models.formulas.priors import described
from steinflow.models.formulas.response import trial_columns
from steinflow.models.formulas.target import About
from steinflow.results.result import Result
from steinflow.results.summary import columns_of
from steinflow.tables.parameters import FOLLOWED, Parameters
from steinflow.tables.problems import MethodName
from steinflow.typing import Array, Params


@dataclasses.dataclass(frozen=True)
class FormulaProblem:
    """What a formula predicts: plain values that, with the rows of the fit, make the target again.

    Attributes:
        formulas: the first for the mean, the others for further parameters.
        family, link: of the response; the usual link if None.
        priors: texts by name of the parameter.
        weights: the column that says how often a row counts.
        categorical: columns of numbers that are codes.
        missing: what becomes of missing values of text, as in `sf.formula`.
    """

    formulas: tuple[str, ...]
    family: str
    link: str | None = None
    priors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    weights: str | None = None
    categorical: tuple[str, ...] = ()
    missing: Literal["drop", "level"] = "drop"
    hidden: tuple[int, ...] = ()
    default_method: MethodName = "svgd"

    @property
    def model(self) -> str:
        """The family, as on the command line."""
        return self.family

    @property
    def title(self) -> str:
        """The model in words."""
        return f"{'; '.join(self.formulas)}, family {self.family}"

    def target(self, frame: Frame, batch_size: int | None = None) -> FormulaTarget:
        """Return the posterior given the rows of a table; what there is to say is in its notes."""
        for name in self.categorical:
            check_column(frame, name, "the table")
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            target = formula(
                self.formulas,
                self.read(frame),
                family=self.family,
                link=self.link,
                priors=self.priors,
                weights=self.weights,
                missing=self.missing,
                batch_size=batch_size,
            )
        unused = [name for name in self.categorical if name not in target.about.frame.columns]
        if unused:
            raise TableError(f"The formula does not use {listed(unused)}; leave that --categorical out.")
        return target

    def read(self, frame: Frame) -> Frame:
        """Return a table as the formula reads it: codes as text."""
        return as_text(frame, [name for name in self.categorical if name in frame.columns])

    def estimator(self) -> "FormulaFit":
        """Return the model, not fitted."""
        return FormulaFit(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        names = ("formulas", "family", "link", "priors", "weights", "missing")
        values = {name: getattr(self, name) for name in names}
        plain = {"formulas": list(self.formulas), "priors": dict(self.priors), "categorical": list(self.categorical)}
        return {**values, **plain}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "FormulaProblem":
        """Return what `to_json` described."""
        fixed: dict[str, Any] = {**values, **{name: tuple(values[name]) for name in ("formulas", "categorical")}}
        return cls(**fixed)


@dataclasses.dataclass(frozen=True)
class FormulaRecorder:
    """The first numbers of some parameters as the columns of a matrix; equal ones share their compiled code."""

    names: tuple[str, ...]

    def __call__(self, particles: Params) -> Array:
        """Return one row per particle."""
        leaves = (particles[name] for name in sorted(self.names))
        return jnp.concatenate([jnp.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)[:, :FOLLOWED]


class FormulaFit:
    """A fitted formula, in the place that an estimator has in a run."""

    def __init__(self, problem: FormulaProblem, target: FormulaTarget | None = None, result: Result | None = None):
        self.problem = problem
        self._target, self._result = target, result

    @property
    def result_(self) -> Result:
        """The posterior."""
        assert self._result is not None
        return self._result

    @property
    def target(self) -> FormulaTarget:
        """The formula with the rows of the fit."""
        assert self._target is not None
        return self._target

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes that are predicted; None where it is an amount."""
        response = self.target.about.response
        if response.levels is not None or self.target.regression.family.name != "bernoulli":
            return response.levels
        frame = self.target.about.frame
        is_flag = response.name in frame.columns and frame[response.name].dtype.kind == "b"
        return ("False", "True") if is_flag else ("0", "1")

    @property
    def is_count(self) -> bool:
        """Whether the response counts something, successes included."""
        return self.target.regression.family.name.endswith(("poisson", "binomial"))

    @property
    def weights(self) -> np.ndarray | None:
        """How many times each row of the fit counts; None where all count once."""
        name = self.problem.weights
        return None if name is None else self.target.about.frame[name].to_numpy(float)

    def is_amount(self, name: str) -> bool:
        """Whether a column is used as a number, and not as a group or within C()."""
        return self.target.about.frame[name].dtype.kind in "iuf" and name not in self.target.codes

    def filled(self, frame: Frame) -> Frame:
        """Return a table with the mean, or the most frequent code or text, of the fit in place of missing values."""
        known = self.target.about.frame
        names = [name for name in self.must_be_known if name in frame.columns and name in known.columns]
        usual = {name: known[name].mean() if self.is_amount(name) else known[name].mode().iloc[0] for name in names}
        infinite = [-np.inf, np.inf]
        return frame.assign(**{name: frame[name].replace(infinite, np.nan).fillna(usual[name]) for name in names})

    @property
    def needed(self) -> list[str]:
        """The columns that predictions need."""
        about = self.target.about
        return sorted({*about.predictor_columns, *trial_columns(about.response_term)})

    @property
    def must_be_known(self) -> list[str]:
        """The columns without which there is no prediction: all but those whose missing values are a level."""
        return [name for name in self.needed if name not in self.target.about.filled]

    def learned(self) -> dict[str, Any]:
        """Return the rows of the fit as plain values, with their gaps; the target follows from them."""
        frame = with_gaps(self.target.about)
        orders = {
            name: list(map(str, frame[name].cat.categories)) for name in frame.columns if _is_ordered(frame[name])
        }
        rows = {name: frame[name].tolist() for name in frame.columns}
        rows |= {name: [None if cell != cell else str(cell) for cell in rows[name]] for name in orders}
        return {"rows": rows, "orders": orders}

    def restore(self, result: Result, learned: dict[str, Any]) -> "FormulaFit":
        """Return the fit with what `learned` returned."""
        import pandas

        frame = pandas.DataFrame(learned["rows"])
        for name, levels in learned["orders"].items():
            frame[name] = pandas.Categorical(frame[name], categories=levels, ordered=True)
        target = self.problem.target(frame)
        return FormulaFit(self.problem, target, dataclasses.replace(result, target=target))

    def parameters(self) -> Parameters:
        """Return the named parameters in the units of the table, without the effects of single groups."""
        return self._chosen("slope", "other")

    def effects(self) -> Parameters:
        """Return the effects of single groups in the units of the table."""
        return self._chosen("effect")

    def prior_texts(self) -> dict[str, str]:
        """Return the prior of every parameter in words, by the names of `parameters`."""
        names, _ = columns_of(self.result_.particles, self.target.observations.labels())
        places, texts = {}, {}
        for name in names:
            base = _base(name, self.result_.particles)
            if base in self.target.priors:
                places[base] = places.get(base, -1) + 1
                texts[name] = described(self.target.priors[base], places[base])
        return texts

    def _chosen(self, *wanted) -> Parameters:
        names, values = columns_of(self.result_.particles, self.target.observations.labels())
        kinds = [self._kind(name) for name in names]
        chosen = [k for kind in wanted for k in range(len(names)) if kinds[k] == kind]
        count = sum(kinds[k] == "slope" for k in chosen)
        ones = np.ones(len(chosen))  # they are in the units of the table already
        return Parameters([names[k] for k in chosen], values[:, chosen], self.result_.probabilities, count, ones)

    def _kind(self, name):
        base, regression = _base(name, self.result_.particles), self.target.regression
        if base in regression.group_names():
            return "effect"
        mean = regression.predictors["mu"]  # slopes of another parameter are on its own scale
        return "slope" if base in {mean.named(term.name) for term in mean.terms} else "other"


def with_gaps(about: About) -> Frame:
    """Return the rows of a formula with missing values where they are a level, so that it is one again."""
    filled = {name: about.frame[name].cat.remove_categories([MISSING_LEVEL]) for name in about.filled}
    return about.frame.assign(**filled)


def _base(name, particles):
    """Return the parameter that a scalar with this name belongs to."""
    return name if name in particles else max((p for p in particles if name.startswith(f"{p}[")), key=len)


def _is_ordered(column) -> bool:
    return hasattr(column, "cat") and bool(column.cat.ordered)
