"""What the estimators share: their parameters, the run, and the outputs of all particles."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike
from scipy import special
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from steinflow.devices.arrays import as_array
from steinflow.devices.compilation import compiled, split
from steinflow.devices.keys import as_key, split_key
from steinflow.estimators.features import Features
from steinflow.estimators.rows import checked_rows
from steinflow.inference.defaults import default_method, default_num_particles, default_num_steps
from steinflow.inference.groups import fit_groups
from steinflow.inference.loop import fit
from steinflow.methods.base import Method
from steinflow.models.families.base import Forms
from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.models.heads import Head
from steinflow.models.neural_network import USUAL_SCALE, NeuralNetwork, through_layers
from steinflow.models.supervised import (
    Scaling,
    Supervised,
    Weighted,
    checked_responses,
    shift_and_scale,
    usual_batch_size,
)
from steinflow.results.predictions import judged_by_predictions
from steinflow.results.result import Result
from steinflow.results.summary import weighted_quantiles
from steinflow.targets.flat import flatten
from steinflow.targets.posterior import Posterior
from steinflow.typing import Array, Batch, Params, Scalar

_MIN_ROWS = 256  # fewer cost as much
_NUMBERS_AT_ONCE = 2**24  # of a layer in a prediction: 128 MB
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0.0), "silu": lambda x: x * special.expit(x), "tanh": np.tanh}
INTERCEPT_SD = 2.5  # of the prior of intercepts on the scale of the link, as in models by formula
_LEARNED = ("shift_", "scale_", "response_shift_", "response_scale_", "classes_", "n_features_in_", "feature_names_in_")


@dataclasses.dataclass(frozen=True)
class Watch:
    """What to show and record while a run is under way.

    Attributes:
        progress: show a bar.
        record: functions of the particles, by name; their values go into `result_.history`.
        num_records: how many records a full run makes; None leaves it to `sf.fit`.
    """

    progress: bool = False
    record: Mapping[str, Callable[[Params], Any]] | None = None
    num_records: int | None = None


class SteinEstimator(BaseEstimator, abc.ABC):
    """The arguments and attributes that all estimators share.

    X is a matrix, or a table of pandas, Polars or Arrow. A column of text, or a pandas category, becomes a 0/1 feature
    for each of its values except the most frequent one; it may have at most 20 different values. In later tables, a
    value that was not in the fit is treated as the most frequent one, with a warning.

    Args:
        hidden: units of the hidden layers of a neural network; () is a linear model.
        activation: between layers: "tanh", "silu" or "relu". Smooth activations are explored in fewer steps.
        prior_scale: scale of the prior of a network's weights, N(0, prior_scale² / fan_in). Members of an ensemble
            try a quarter of that, too.
        num_particles: how many particles represent the posterior; by default 100, or 10 for a network. The particles of
            a network are members of an ensemble, each of which contributes many networks.
        num_steps: the maximum number of steps; by default 1,000, or 10,000 per hidden layer for an ensemble. A
            run of the default method stops earlier when the particles have settled.
        batch_size: rows per step. By default all rows if there are at most 10,000, otherwise 1,000; with hidden layers,
            100 to 1,000.
        method: an inference method; by default `sf.SVGD()`, or `sf.Ensemble()` for a network.
        random_state: makes fits reproducible.

    Attributes:
        result_: the `sf.Result`, with particles on the standardised scale.
        start_: the particles before the first step.
        coef_, intercept_: posterior means on the scale of the user's X, for linear models.
        shift_, scale_: of the features; the model sees `(X - shift_) / scale_`.
        response_shift_, response_scale_: the same for y.
        num_steps_, batch_size_: the settings of the run, including those that were chosen by default.
        n_iter_: how many steps were taken.
        features_: how the columns of X became features; only if X is a table with columns that are not numbers.
            `features_.labels` names the coefficients, and `features_.matrix(table)` encodes a table.
    """

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (),
        activation: Literal["tanh", "silu", "relu"] = "tanh",
        prior_scale: float = USUAL_SCALE,
        num_particles: int | None = None,
        num_steps: int | None = None,
        batch_size: int | None = None,
        method: Method | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.prior_scale = prior_scale
        self.num_particles = num_particles
        self.num_steps = num_steps
        self.batch_size = batch_size
        self.method = method
        self.random_state = random_state

    def learned(self) -> dict[str, Any]:
        """Return what `fit` has learned in addition to the particles, as plain values, for `restore`."""
        known = vars(self)
        columns = {"features_": known["features_"].to_json()} if "features_" in known else {}
        return {name: np.asarray(known[name]).tolist() for name in _LEARNED if name in known} | columns

    def restore(self, result: Result, learned: Mapping[str, Any], rows: tuple[Any, Any] | None = None) -> Self:
        """Become the fitted estimator that gave this result, without fitting again.

        Args:
            result: the `result_` of that estimator.
            learned: what its `learned` returned.
            rows: X and y of its fit, so that the result has its target again.
        """
        for name in set(_LEARNED) & set(learned):
            setattr(self, name, np.asarray(learned[name]) if isinstance(learned[name], list) else learned[name])
        if "features_" in learned:
            self.features_ = Features.from_json(learned["features_"])
        if rows is not None:
            result = dataclasses.replace(result, target=self._in_units(self._prepared(*rows)))
        return self._keep(result)

    @property
    @abc.abstractmethod
    def _head(self) -> Head:
        """How the outputs of the model become the distribution of y."""

    def fit_groups(self, X, y, by, *, min_rows: int = 1, progress: bool = False) -> dict[str, Self]:
        """Fit a linear model to every group of the rows, all at once; return a dictionary of estimators by group name.

        Features and y are scaled with all rows, and the prior is the same in all groups. This estimator is not changed.

        Args:
            X, y: as for `fit`.
            by: the group of every row, as for `sf.fit_groups`.
            min_rows: groups with fewer are left out, with a warning.
            progress: show a bar.

        Raises:
            ValueError: as for `fit`; also if `by` does not match the rows, or if there are hidden layers.
        """
        if self.hidden:
            raise ValueError("A model per group is for linear models; leave out hidden, or fit the groups one by one.")
        scaled = clone(self).set_params(batch_size=len(X))  # groups are small: steps see all of their rows
        model = scaled._prepared(X, y)
        many = fit_groups(
            model,
            by,
            self.method,
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            min_rows=min_rows,
            key=check_random_state(self.random_state).randint(2**31),
            progress=progress,
        )
        fitted = {}
        for name, result in zip(many.names, many, strict=True):
            own = dataclasses.replace(result, target=scaled._in_units(result.target))
            fitted[name] = clone(self).restore(own, scaled.learned())
            if "feature_names_in_" in vars(scaled):
                fitted[name].feature_names_in_ = scaled.feature_names_in_
        return fitted

    @abc.abstractmethod
    def _prepared(self, X, y) -> Supervised:
        """Return the model of these rows, after all checks; keep how features and y are scaled."""

    def _scaled(self, X, y, response: tuple[float, float]) -> Supervised:
        """Return the model of rows that were checked; `response` is the shift and the scale of y."""
        self.shift_, self.scale_ = shift_and_scale(X)
        self.response_shift_, self.response_scale_ = response
        return self._model(X, y)

    def _fit(self, X, y, watch: Watch | None):
        """Find the posterior given these rows."""
        return self._run(self._prepared(X, y), watch or Watch(), None)

    def _continue(self, X, y):
        """Find the posterior given these rows too."""
        return self._run(self._model(X, y), Watch(), jax.tree.map(as_array, self.result_.particles))

    def _model(self, X, y) -> Supervised:
        if self.activation not in _ACTIVATIONS:
            raise ValueError(f"activation must be one of {list(_ACTIVATIONS)}; got {self.activation!r}.")
        if isinstance(self.hidden, int | np.integer | str):
            raise ValueError(f"hidden must list the units of every hidden layer, such as (50,); got {self.hidden!r}.")
        inputs, num_rows, family = (X - self.shift_) / self.scale_, len(y), self._head.family
        y = (y - self.response_shift_) / self.response_scale_ if family.real_valued else y
        batch_size = usual_batch_size(num_rows, is_network=bool(self.hidden))
        if self.batch_size is not None:
            batch_size = min(self.batch_size, num_rows)
        if not self.hidden:
            usual = self._head.usual_outputs(np.asarray(checked_responses(family, y)))
            prior = _centered(usual), INTERCEPT_SD
            return GeneralizedLinear(inputs, y, self._head, batch_size=batch_size, intercept_prior=prior)
        return NeuralNetwork(
            inputs,
            y,
            tuple(self.hidden),
            self.activation,
            family=self._head,
            batch_size=batch_size,
            prior_scale=self.prior_scale,
            standardize=False,
        )

    def _run(self, model: Supervised, watch: Watch, particles: Params | None):
        """Run the method. Particles of an earlier run are where it starts, and their moments are the prior."""
        seed = check_random_state(self.random_state).randint(2**31)
        start_key, key = split_key(as_key(seed), 2)
        padded, row_weights = _padded(model)
        if particles is None:
            # From the padded rows: there the target holds only arrays of shapes that it was compiled for.
            num_particles = self.num_particles or default_num_particles(padded)
            particles = _drawn(*split(padded), num_particles, start_key)
            log_prior = padded.log_prior
        else:
            log_prior = _Moments.of(particles, self.result_.weights)
        rows = {**padded.data.values, "weight": row_weights}
        self.batch_size_ = model.data.batch_size
        target = _WeightedRows(model, log_prior, rows)
        method = default_method(*flatten(target, particles)) if self.method is None else self.method
        first_steps = self.num_steps or default_num_steps(method, num_layers=len(self.hidden))
        result = fit(
            target,
            method,
            particles=particles,
            num_steps=first_steps if self.hidden else self.num_steps,
            key=key,
            progress=watch.progress,
            record=watch.record,
            record_every=max(1, first_steps // watch.num_records) if watch.num_records else None,
        )
        self.start_, self.num_steps_ = jax.tree.map(np.asarray, particles), max(first_steps, result.info["num_steps"])
        judged = judged_by_predictions(model, result.particles, result.num_chains)
        info = {**result.info, **judged}
        return self._keep(dataclasses.replace(result, target=self._in_units(model), info=info))

    def _in_units(self, model):
        """Return the model of the user's X and y: what the result says about data, it says about these."""
        scalings = (self.shift_, self.scale_), (self.response_shift_, self.response_scale_)
        with np.errstate(over="ignore"):  # units beyond single precision, in which only the estimator can predict
            inputs, responses = (Scaling(*(as_array(value, float) for value in pair)) for pair in scalings)
        return eqx.tree_at(lambda model: (model.inputs, model.responses), model, (inputs, responses))

    def _keep(self, result: Result):
        self.result_, self.n_iter_ = result, result.info["num_steps"]
        self._particles = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), result.particles)
        self._weights = result.probabilities
        return self

    def _by_rows(self, function, X, *columns):
        """Apply a function of the family's parameters (particles x rows, in units of the model) to blocks of rows."""
        check_is_fitted(self, "result_")
        X = checked_rows(self, X)
        widest = max(X.shape[1], *self.hidden, self._head.num_outputs)
        size = max(1, _NUMBERS_AT_ONCE // (len(self._weights) * widest))
        blocks = [slice(start, start + size) for start in range(0, len(X), size)]
        values = [function(self._forms(X[rows]), *(column[rows] for column in columns)) for rows in blocks]
        return np.concatenate(values)

    def _forms(self, X) -> Forms:
        """Return the parameters of the family, particles x rows: on the host, where nothing is compiled."""
        scaled = (X - self.shift_) / self.scale_
        outputs = through_layers(_layers(self._particles), scaled, _ACTIVATIONS[self.activation])
        return self._head.forms(outputs[..., 0] if self._head.num_outputs == 1 else outputs, self._particles)

    def _coefficients(self):
        """Return intercepts (particles x outputs) and slopes (particles x features x outputs) in the user's units."""
        if self.hidden:
            raise AttributeError("A network has no coefficients; this estimator was fitted with hidden layers.")
        [(weights, biases)] = _layers(self._particles)
        shift, scale = self._output_units
        slopes = weights * scale / self.scale_[:, None]
        at_zero = biases * scale + shift
        return at_zero - np.einsum("d,pdk->pk", self.shift_, slopes), slopes

    @property
    def _output_units(self) -> tuple[ArrayLike, ArrayLike]:
        """Shift and scale that bring the outputs of a linear model to the units of y."""
        return self.response_shift_, self.response_scale_

    def _feature_labels(self, num_features):
        """Return the names of coefficients: of columns, of the values of text, or of nothing that has a name."""
        learned = vars(self)
        if "features_" in learned:
            return learned["features_"].labels
        return learned.get("feature_names_in_", [f"x{k}" for k in range(num_features)])

    def _coefficient_frame(self, classes=None):
        """Return mean, sd and quantiles of coefficients by feature, and by class, as a pandas DataFrame."""
        import pandas

        intercepts, slopes = self._coefficients()
        values = np.concatenate([intercepts[:, None], slopes], axis=1).reshape(len(slopes), -1)
        names = self._feature_labels(slopes.shape[1])
        index = pandas.Index(["intercept", *names], name="feature")
        if classes is not None:
            index = pandas.MultiIndex.from_product([index, classes], names=["feature", "class"])
        mean = self._weights @ values
        columns = {"mean": mean, "sd": np.sqrt(self._weights @ (values - mean) ** 2)}
        quantiles = weighted_quantiles(values, self._weights, (0.05, 0.5, 0.95))
        return pandas.DataFrame({**columns, **dict(zip(("5%", "50%", "95%"), quantiles, strict=True))}, index=index)


def _centered(outputs):
    """Return where intercepts are expected: a number for a model with one output."""
    return outputs[0] if len(outputs) == 1 else outputs


def is_linear(estimator: SteinEstimator) -> bool:
    """Whether `partial_fit` makes sense: of a network's weights the covariance of the particles says too little."""
    return not estimator.hidden


class _WeightedRows(Posterior):
    """The posterior of a model given rows with weights; it knows whether the parameters of the model mean anything."""

    is_identified: bool

    def __init__(self, model: Supervised, log_prior: Callable[[Params], Scalar], rows: Batch):
        super().__init__(log_prior, Weighted(model.log_likelihood), rows, model.data.batch_size)
        self.is_identified = model.identified

    @property
    def identified(self):
        return self.is_identified


class _Moments(eqx.Module):
    """The Gaussian log density with the mean and covariance of particles."""

    mean: Array
    factor: Array

    @classmethod
    def of(cls, particles, weights) -> "_Moments":
        points = jax.vmap(lambda params: ravel_pytree(params)[0])(particles)
        covariance = jnp.atleast_2d(jnp.cov(points.T, aweights=weights))
        covariance += 1e-6 * jnp.diag(jnp.diag(covariance) + 1e-6)
        return cls(jnp.average(points, axis=0, weights=weights), jnp.linalg.cholesky(covariance))

    def __call__(self, params):
        centred = ravel_pytree(params)[0] - self.mean
        return -0.5 * jnp.sum(jax.scipy.linalg.solve_triangular(self.factor, centred, lower=True) ** 2)


@compiled(static=(2,), once=True)
def _drawn(model, num_particles, key):
    return jax.vmap(model.sample_prior)(jax.random.split(key, num_particles))


def _padded(model):
    """Return the model with weights for its rows.

    Where every step takes all rows, they are filled up to a power of two by rows of weight zero, so that fits of about
    the same size share compiled code: cross-validation and learning curves compile once.
    """
    num_rows = model.data.num_rows
    missing = 0 if model.data.batch_size else max(_MIN_ROWS, 1 << (num_rows - 1).bit_length()) - num_rows
    rows = {
        name: as_array(np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1), mode="edge"))
        for name, values in model.data.values.items()
    }
    return eqx.tree_at(lambda model: model.data.values, model, rows), as_array(np.pad(np.ones(num_rows), (0, missing)))


def _layers(particles):
    """Weights (particles x inputs x outputs) and biases (particles x outputs) of every layer."""
    if "weights" in particles:
        return list(zip(particles["weights"], particles["biases"], strict=True))
    w = particles["w"]
    w = w[..., None] if w.ndim == 2 else w
    return [(w[:, :-1], w[:, -1])]
