"""Priors of a formula: distributions of NumPyro by name of the parameter, printed, and each of them replaceable."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.columns import nearest
from steinflow.models.formulas.syntax import FormulaError
from steinflow.results.summary import number
from steinflow.targets.observations import Labels
from steinflow.typing import Array, PRNGKeyArray, Scalar

Prior = Any  # numpyro.distributions.Distribution: NumPyro takes a moment to import


class Priors(eqx.Module, Mapping):
    """The prior of every parameter by name; it prints itself as a table."""

    by_name: dict[str, Prior]
    replaced: tuple[str, ...] = eqx.field(static=True, default=())

    def __getitem__(self, name: str) -> Prior:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def log_density(self, values: Mapping[str, Array]) -> Scalar:
        """Return the log prior of all parameters together."""
        with jax.numpy_dtype_promotion("standard"):  # NumPyro multiplies ints with floats
            return sum((jnp.sum(self[name].log_prob(values[name])) for name in self), start=jnp.zeros(()))

    def sample(self, key: PRNGKeyArray) -> dict[str, Array]:
        """Draw all parameters."""
        with jax.numpy_dtype_promotion("standard"):
            return {n: self[n].sample(k) for n, k in zip(self, jax.random.split(key, len(self)), strict=True)}

    def __str__(self):
        width = max(map(len, self), default=0) + 2
        remarks = dict.fromkeys(self.replaced, "  (given)")
        if "Intercept" in self and "Intercept" not in self.replaced:
            remarks["Intercept"] = "  (predictors at their means)"
        return "\n".join(f"{name:<{width}}{described(self[name])}{remarks.get(name, '')}" for name in self)

    __repr__ = __str__


def lkj(dimension: int, concentration: Any) -> Prior:
    """Return the LKJ prior of the Cholesky factor of correlations."""
    from numpyro import distributions as dist

    with jax.numpy_dtype_promotion("standard"):  # NumPyro multiplies ints with floats
        return dist.LKJCholesky(dimension, jnp.asarray(concentration, float))


def parse_prior(text: str) -> Prior:
    """Return the distribution that a text such as "Normal(0, 5)" describes; names are those of NumPyro.

    Raises:
        FormulaError: if it describes none.
    """
    from numpyro import distributions as dist

    problem = f"A prior must be a NumPyro distribution with numbers as arguments, such as Normal(0, 5); got {text!r}."
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise FormulaError(problem)
        values = [ast.literal_eval(value) for value in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise FormulaError(problem) from error
    if call.func.id == "LKJ" and len(values) == 1 and not named:
        return lkj(2, values[0])
    is_half_t = call.func.id == "HalfStudentT" and len(values) == 2 and not named
    if is_half_t:
        values.insert(1, 0.0)
    kinds = [
        n
        for n in dist.__all__
        if isinstance(getattr(dist, n), type) and issubclass(getattr(dist, n), dist.Distribution)
    ]
    if call.func.id not in kinds and not is_half_t:
        guess = nearest(call.func.id, kinds)
        raise FormulaError(
            f"NumPyro has no distribution {call.func.id!r}." + (f" Did you mean {guess!r}?" if guess else "")
        )
    arrays = [jnp.asarray(value, float) for value in values]
    kind = dist.StudentT if is_half_t else getattr(dist, call.func.id)
    try:
        prior = kind(*arrays, **{name: jnp.asarray(value, float) for name, value in named.items()}, validate_args=True)
    except (TypeError, ValueError) as error:
        raise FormulaError(f"The prior {text!r} does not work: {error}.") from error
    return dist.FoldedDistribution(prior) if is_half_t else prior


def replaced(usual: Mapping[str, Prior], given: Mapping[str, Prior | str] | None, labels: Labels) -> Priors:
    """Return the usual priors with those that the user gave in their places, all with arrays as their numbers.

    Args:
        usual: by name.
        given: by name; `z[b]` is that of one level.
        labels: the names of levels.

    Raises:
        FormulaError: if there is no parameter of that name, or the prior does not fit it.
    """
    given, found, places = dict(given or {}), dict(usual), _places(usual, labels)
    for name in given:
        if name not in usual and name not in places:
            guess = nearest(name, [*usual, *places])
            raise FormulaError(
                f"There is no parameter {name!r} to give a prior."
                + (f" Did you mean {guess!r}?" if guess else "")
                + f" There are {', '.join(map(repr, usual))}."
            )
    for name in sorted(given, key=places.__contains__):  # those of single levels come last
        base, place = places.get(name, (name, None))
        prior = _fitted(name, given[name], usual[base], () if place is not None else usual[base].batch_shape)
        found[base] = prior if place is None else _with_level(found[base], usual[base].batch_shape, prior, name, place)
    return Priors(
        {name: jax.tree.map(lambda leaf: jnp.asarray(leaf, float), prior) for name, prior in found.items()},
        tuple(dict.fromkeys(places.get(name, (name, None))[0] for name in given)),
    )


def _places(usual, labels) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return where the number of each level is: the parameter and the position in its array."""
    found = {}
    for name in usual:
        axes = [list(map(str, labels.coords[str(dim)])) for dim in labels.dims.get(name, ())]
        if axes and usual[name].batch_shape == tuple(map(len, axes)):
            for place in np.ndindex(usual[name].batch_shape):
                level = ",".join(axis[k] for axis, k in zip(axes, place, strict=True))
                found[f"{name}[{level}]"] = (name, place)
    return found


def _with_level(prior, shape, own, name, place) -> Prior:
    """Return the prior of all levels with that of one of them in its place."""
    whole, own = (getattr(each, "base_dist", each) if _is_expanded(each) else each for each in (prior, own))
    if type(whole) is not type(own) or not whole.arg_constraints:
        base, kind = name.split("[")[0], type(whole).__name__
        raise FormulaError(
            f"The levels of {base!r} have one kind of distribution, {kind}: give {name!r} such a one, or all levels "
            f"another kind, with lists for numbers that differ: {{{base!r}: 'StudentT(3, [0, 1], 2.5)'}}."
        )
    numbers = {arg: np.broadcast_to(np.asarray(getattr(whole, arg)), shape).copy() for arg in whole.arg_constraints}
    for arg, values in numbers.items():
        values[place] = getattr(own, arg)
    return type(whole)(**numbers)


def _is_expanded(prior) -> bool:
    from numpyro import distributions as dist

    return isinstance(prior, dist.ExpandedDistribution)


def _fitted(name, prior, usual, shape):
    """Return the user's prior in this shape, where the usual one has its support."""
    from numpyro import distributions as dist

    prior = parse_prior(prior) if isinstance(prior, str) else prior
    if not isinstance(prior, dist.Distribution):
        raise FormulaError(
            f"The prior of {name!r} must be a NumPyro distribution, or a text such as 'Normal(0, 5)'; got {prior!r}."
        )
    if isinstance(usual, dist.LKJCholesky):
        if not isinstance(prior, dist.LKJ | dist.LKJCholesky):
            raise FormulaError(
                f"The prior of the correlations {name!r} must be an LKJ distribution, such as 'LKJ(2)'; "
                f"got {described(prior)}."
            )
        return lkj(usual.dimension, jnp.broadcast_to(jnp.asarray(prior.concentration), usual.batch_shape))
    if not (prior.shape() == shape if prior.event_shape else _fits(prior.batch_shape, shape)):
        raise FormulaError(
            f"{name!r} has {int(np.prod(shape))} numbers of shape {shape}; its prior {described(prior)} has the shape "
            f"{prior.shape()}."
        )
    if not _allows(usual, -1.0):
        prior = _half(prior)
        if _allows(prior, -1.0):
            raise FormulaError(
                f"{name!r} is positive: give it a prior such as HalfNormal(1), HalfStudentT(3, 2.5) or Exponential(1), "
                f"or one around zero, of which the positive half counts; got {described(prior)}."
            )
        if _allows(prior, 2.0) and not _allows(usual, 2.0):
            raise FormulaError(
                f"{name!r} lies between 0 and 1: give it a prior such as Beta(2, 5); got {described(prior)}."
            )
    return prior if prior.event_shape or prior.batch_shape == shape else prior.expand(shape)


def _fits(given, shape) -> bool:
    try:
        return np.broadcast_shapes(given, shape) == shape
    except ValueError:
        return False


def _allows(prior, value) -> bool:
    return bool(np.all(np.asarray(prior.support(jnp.full(prior.shape(), value)))))


def _half(prior):
    """Return the positive half of a distribution around zero, any other as it is."""
    from numpyro import distributions as dist

    if not isinstance(prior, dist.Normal | dist.StudentT | dist.Cauchy) or np.any(np.asarray(prior.loc) != 0):
        return prior
    if isinstance(prior, dist.StudentT):
        return dist.FoldedDistribution(prior)
    return (dist.HalfNormal if isinstance(prior, dist.Normal) else dist.HalfCauchy)(prior.scale)


def described(prior: Prior, place: int | None = None) -> str:
    """Return a distribution as a user would write it, or that of one of its numbers, in the order of memory."""
    from numpyro import distributions as dist

    if isinstance(prior, dist.ExpandedDistribution):
        return described(prior.base_dist)
    if isinstance(prior, dist.LKJCholesky):
        return f"LKJ({_shown(prior.concentration)})"
    name, numbers = type(prior).__name__, [np.asarray(getattr(prior, each), float) for each in prior.arg_constraints]
    if isinstance(prior, dist.FoldedDistribution) and isinstance(prior.base_dist, dist.StudentT):
        name, numbers = (
            "HalfStudentT",
            [np.asarray(values, float) for values in (prior.base_dist.df, prior.base_dist.scale)],
        )
    if place is not None and not prior.event_shape:
        numbers = [np.broadcast_to(values, prior.batch_shape).reshape(-1)[place] for values in numbers]
    return f"{name}({', '.join(map(_shown, numbers))})"


def _shown(values) -> str:
    values = np.asarray(values, float).reshape(-1)
    texts = [number(value) for value in (values[:1] if np.ptp(values) == 0 else values[:4])]
    more = ", ..." if len(texts) > 1 and len(values) > 4 else ""
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}{more}]"
