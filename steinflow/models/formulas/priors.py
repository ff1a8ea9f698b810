"""Priors of a formula: distributions of NumPyro by name of the parameter, printed, and each of them replaceable."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.formulas.syntax import FormulaError, nearest
from steinflow.results.summary import number
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
    kinds = [
        n
        for n in dist.__all__
        if isinstance(getattr(dist, n), type) and issubclass(getattr(dist, n), dist.Distribution)
    ]
    if call.func.id not in kinds:
        guess = nearest(call.func.id, kinds)
        raise FormulaError(
            f"NumPyro has no distribution {call.func.id!r}." + (f" Did you mean {guess!r}?" if guess else "")
        )
    arrays = [jnp.asarray(value, float) for value in values]
    try:
        return getattr(dist, call.func.id)(
            *arrays, **{name: jnp.asarray(value, float) for name, value in named.items()}, validate_args=True
        )
    except (TypeError, ValueError) as error:
        raise FormulaError(f"The prior {text!r} does not work: {error}.") from error


def replaced(usual: Mapping[str, Prior], given: Mapping[str, Prior | str] | None) -> Priors:
    """Return the usual priors with those that the user gave in their places, all with arrays as their numbers.

    Raises:
        FormulaError: if there is no parameter of that name, or the prior does not fit it.
    """
    given = dict(given or {})
    for name in given:
        if name not in usual:
            guess = nearest(name, usual)
            raise FormulaError(
                f"There is no parameter {name!r} to give a prior."
                + (f" Did you mean {guess!r}?" if guess else "")
                + f" There are {', '.join(map(repr, usual))}."
            )
    found = {name: _fitted(name, given[name], prior) if name in given else prior for name, prior in usual.items()}
    return Priors(
        {name: jax.tree.map(lambda leaf: jnp.asarray(leaf, float), prior) for name, prior in found.items()},
        tuple(given),
    )


def _fitted(name, prior, usual):
    """Return the user's prior in the shape of the usual one."""
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
    shape = usual.batch_shape
    if not (prior.shape() == shape if prior.event_shape else _fits(prior.batch_shape, shape)):
        raise FormulaError(
            f"{name!r} has {int(np.prod(shape))} numbers of shape {shape}; its prior {described(prior)} has the shape "
            f"{prior.shape()}."
        )
    if _allows_negative(prior) and not _allows_negative(usual):
        raise FormulaError(
            f"{name!r} is positive: give it a prior such as HalfNormal(1) or Exponential(1); got {described(prior)}."
        )
    return prior if prior.event_shape or prior.batch_shape == shape else prior.expand(shape)


def _fits(given, shape) -> bool:
    try:
        return np.broadcast_shapes(given, shape) == shape
    except ValueError:
        return False


def _allows_negative(prior) -> bool:
    return bool(np.all(np.asarray(prior.support(jnp.full(prior.shape(), -1.0)))))


def described(prior: Prior, place: int | None = None) -> str:
    """Return a distribution as a user would write it, or that of one of its numbers, in the order of memory."""
    from numpyro import distributions as dist

    if isinstance(prior, dist.ExpandedDistribution):
        return described(prior.base_dist)
    if isinstance(prior, dist.LKJCholesky):
        return f"LKJ({_shown(prior.concentration)})"
    numbers = [np.asarray(getattr(prior, name), float) for name in prior.arg_constraints]
    if place is not None and not prior.event_shape:
        numbers = [np.broadcast_to(values, prior.batch_shape).reshape(-1)[place] for values in numbers]
    return f"{type(prior).__name__}({', '.join(map(_shown, numbers))})"


def _shown(values) -> str:
    values = np.asarray(values, float).reshape(-1)
    texts = [number(value) for value in (values[:1] if np.ptp(values) == 0 else values[:4])]
    more = ", ..." if len(texts) > 1 and len(values) > 4 else ""
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}{more}]"
