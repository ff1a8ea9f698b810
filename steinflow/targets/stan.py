"""Stan models as targets, by way of BridgeStan: Stan's own density, gradients, transforms and generated quantities."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.targets.base import Target
from steinflow.targets.observations import Observations
from steinflow.targets.score import ScoreTarget, from_score
from steinflow.typing import Array, Params


def from_stan(
    library: str | Path, data: Mapping[str, Any] | str | Path | None = None, *, log_likelihood: str = "log_lik"
) -> "StanTarget":
    """Return a Stan model, with its data, as a target.

    Particles are dictionaries by the names of the program, parameters and transformed parameters in the user's space.
    Runs start where Stan's do, uniformly in (-2, 2) of unconstrained space. Generated quantities are computed on
    demand: `result.predictive()` returns them for the data of the fit, `result.predictive(x=x_new)` for other data, and
    `result.to_arviz()` includes them as predictive draws. Stan computes in double precision, one particle after the
    other. Needs `pip install 'steinflow[stan]'`.

    Args:
        library: a model compiled by BridgeStan, or a `.stan` file, which it compiles if its tools are installed.
        data: the values for the data block: a dictionary by name, a JSON text, or the path of a `.json` file.
        log_likelihood: the generated quantity that has one entry per observation, for `az.loo`, if there is one.

    Example:
        ```python
        import steinflow as sf

        target = sf.from_stan("eight_schools_model.so", {"J": 8, "y": y, "sigma": sigma})
        result = sf.fit(target)
        ```
    """
    model = _Model(library, data)
    return StanTarget(model, from_score(model.scores_and_log_densities, with_log_density=True), log_likelihood)


class StanTarget(Target):
    """A Stan model as a target; `from_stan` makes it."""

    model: "_Model"  # compared by identity: JAX does not look inside
    inside: ScoreTarget  # the density of unconstrained points
    log_likelihood: str

    def log_density(self, params, batch=None):
        return self.inside.log_density(params)

    def constrain(self, params):
        return _constrained(self.model, params)

    def unconstrain(self, params):
        names = self.model.parameters
        if missing := [name for name in names if name not in params]:
            raise ValueError(
                f"particles must be a dictionary with an array for each of {list(names)}; {missing} are missing."
            )
        given = {name: jnp.asarray(params[name], float) for name in names}
        point = jax.ShapeDtypeStruct((self.model.dim,), jnp.result_type(*given.values()))
        return jax.pure_callback(self.model.unconstrained, point, given, vmap_method="broadcast_all")

    def sample_prior(self, key):
        return self.constrain(jax.random.uniform(key, (self.model.dim,), minval=-2, maxval=2))

    @property
    def observations(self) -> Observations:
        return StanObservations(self)


class StanObservations(Observations):
    """The generated quantities of a Stan model; which of its data were observed, a Stan program does not say."""

    target: StanTarget

    def observed(self):
        return {}

    def log_likelihoods(self, particles):
        name = self.target.log_likelihood
        if name not in self.target.model.generated:
            return {}
        return {name: self._generated(self.target.model, particles, 0)[name]}

    def predictive(self, particles, *args, key, **kwargs):
        if args:
            raise TypeError("The only arguments of a Stan model are its data, by name: result.predictive(x=x_new).")
        model = self.target.model.with_data(kwargs) if kwargs else self.target.model
        quantities = self._generated(model, particles, int(jax.random.bits(key) >> 1))
        return {name: values for name, values in quantities.items() if name != self.target.log_likelihood}

    def _generated(self, model: "_Model", particles: Params, seed: int) -> dict[str, Array]:
        given = {name: np.asarray(particles[name], float) for name in model.parameters}
        quantities = model.quantities(model.unconstrained(given), seed)
        return {name: jnp.asarray(values, float) for name, values in quantities.items()}


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _constrained(model: "_Model", point: Array) -> dict[str, Array]:
    """Return parameters and transformed parameters by name, with slopes: particles settle by them."""
    return jax.pure_callback(model.constrained, model.shapes(point.dtype), point, vmap_method="broadcast_all")


@_constrained.defjvp
def _constrained_slopes(model, points, directions):
    shapes = model.shapes(points[0].dtype)
    slopes = jax.pure_callback(model.slopes, shapes, *points, *directions, vmap_method="broadcast_all")
    return _constrained(model, *points), slopes


class _Model:
    """A compiled model with data, as JAX calls it: on arrays with any number of leading axes."""

    def __init__(self, library: str | Path, data: Mapping[str, Any] | str | Path | None):
        try:
            import bridgestan
        except ModuleNotFoundError as error:
            if error.name != "bridgestan":
                raise
            raise ModuleNotFoundError(
                "from_stan needs BridgeStan: pip install 'steinflow[stan]'.", name="bridgestan"
            ) from error
        self.library, self.data = library, _as_dictionary(data)
        self.stan = bridgestan.StanModel(library, self.data, warn=False)  # it warns where a library is loaded again
        self.dim = self.stan.param_unc_num()
        if self.dim == 0:
            raise ValueError("The Stan model has no parameters: there is nothing to infer.")
        reported = self.stan.param_names(include_tp=True)
        self.parameters = _positions(self.stan.param_names())
        self.reported = _positions(reported)
        every = _positions(self.stan.param_names(include_tp=True, include_gq=True))
        self.generated = {name: at for name, at in every.items() if name not in self.reported}

    def with_data(self, data: Mapping[str, Any]) -> "_Model":
        """Return the same model with other values of some of its data."""
        return _Model(self.library, {**self.data, **data})

    def scores_and_log_densities(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the score and the log density of every point; both NaN where Stan rejects it."""
        scores, log_densities = np.full(points.shape, np.nan), np.full(len(points), np.nan)
        for i, point in enumerate(np.asarray(points, float)):
            try:
                log_densities[i], scores[i] = self.stan.log_density_gradient(point)
            except RuntimeError:  # a parameter of a distribution out of its range, a matrix that is not definite
                continue
        return scores, log_densities

    def shapes(self, dtype) -> dict[str, jax.ShapeDtypeStruct]:
        """Return the shapes of parameters and transformed parameters by name."""
        return {name: jax.ShapeDtypeStruct(at.shape, dtype) for name, at in self.reported.items()}

    def constrained(self, points) -> dict[str, np.ndarray]:
        """Return parameters and transformed parameters by name."""
        points = np.asarray(points)
        return self._by_name(self._constrain(points, include_tp=True), points.dtype)

    def slopes(self, points, directions) -> dict[str, np.ndarray]:
        """Return how they change along directions: BridgeStan does not say, so by differences in double precision."""
        points, moves = np.asarray(points), 1e-5 * np.asarray(directions, float)
        ahead, behind = (self._constrain(points + move, include_tp=True) for move in (moves, -moves))
        return self._by_name((ahead - behind) / 2e-5, points.dtype)

    def _by_name(self, values: np.ndarray, dtype) -> dict[str, np.ndarray]:
        return {name: values[..., at].astype(dtype) for name, at in self.reported.items()}

    def quantities(self, points: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """Return the generated quantities by name."""
        values = self._constrain(points, include_tp=True, include_gq=True, rng=self.stan.new_rng(seed))
        return {name: values[..., at] for name, at in self.generated.items()}

    def unconstrained(self, params: Mapping[str, Any]) -> np.ndarray:
        """Return points of R^d; NaN where values are outside of their constraints."""
        leaves = {name: np.asarray(params[name]) for name in self.parameters}
        name, first = next(iter(leaves.items()))
        leading = first.shape[: first.ndim - self.parameters[name].ndim]
        points = np.empty((*leading, self.dim), first.dtype)
        for i in np.ndindex(leading):
            points[i] = self._unconstrained({name: leaf[i].astype(float) for name, leaf in leaves.items()})
        return points

    def _unconstrained(self, params: dict[str, np.ndarray]) -> np.ndarray:
        for exact in (np.asarray, without_rounding):
            values = np.empty(self.stan.param_num())
            for name, at in self.parameters.items():
                values[at] = exact(params[name])
            try:
                return np.asarray(self.stan.param_unconstrain(values))
            except RuntimeError:
                continue
        return np.full(self.dim, np.nan)

    def _constrain(self, points: np.ndarray, **options) -> np.ndarray:
        """Return Stan's own vector for every point; NaN where a quantity cannot be computed."""
        included = {name: value for name, value in options.items() if name != "rng"}
        values = np.full((*points.shape[:-1], self.stan.param_num(**included)), np.nan)
        for i in np.ndindex(points.shape[:-1]):
            try:
                values[i] = self.stan.param_constrain(np.asarray(points[i], float), **options)
            except RuntimeError:
                continue
        return values


def without_rounding(values: np.ndarray, *, tolerance: float = 1e-5) -> np.ndarray:
    """Return values whose constraints hold in double precision, where they do in single precision.

    Stan takes a simplex whose sum is 1 up to 1e-8. Last axes that sum to 1 or 0 or have length 1, symmetric matrices
    and diagonals of ones are made to do so; anything else is left as it is.
    """
    if values.ndim == 0:
        return values
    total, length = np.sum(values, -1, keepdims=True), np.linalg.norm(values, axis=-1, keepdims=True)
    if np.all(np.abs(total - 1) < tolerance):
        return values / total
    if np.all(np.abs(total) < tolerance * length):
        return values - total / values.shape[-1]
    if np.all(np.abs(length - 1) < tolerance):  # a unit vector, or the Cholesky factor of a correlation matrix
        return values / length
    if values.ndim > 1 and values.shape[-1] == values.shape[-2]:
        other = np.swapaxes(values, -1, -2)
        if np.all(np.abs(values - other) <= tolerance * np.max(np.abs(values))):
            values = (values + other) / 2
            ones = np.eye(values.shape[-1], dtype=bool) & (np.abs(values - 1) < tolerance)
            return np.where(ones, 1.0, values)
    return values


def _positions(names: list[str]) -> dict[str, np.ndarray]:
    """Return where the entries of every variable are in Stan's vector, from names such as `a`, `b.2.1`, `z.1.real`."""
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for position, name in enumerate(names):
        parts = name.split(".")
        variable = ".".join(part for part in parts if not part.isdigit())
        entries.setdefault(variable, {})[tuple(int(part) - 1 for part in parts if part.isdigit())] = position
    return {variable: _array(of) for variable, of in entries.items()}


def _array(entries: dict[tuple[int, ...], int]) -> np.ndarray:
    """Return an array from its entries by index."""
    array = np.zeros(np.max(np.array(list(entries)), axis=0, initial=-1) + 1, int)
    for index, value in entries.items():
        array[index] = value
    return array


def _as_dictionary(data) -> dict[str, Any]:
    """Return data by name, whichever way they were given."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return {name: np.asarray(value) if isinstance(value, jax.Array) else value for name, value in data.items()}
    text = str(data)
    return json.loads(Path(text).read_text() if text.endswith(".json") else text)
