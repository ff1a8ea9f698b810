r"""Linear predictors: common terms and group terms, in the coordinates that methods see and in those that users read.

Columns are centred and scaled, so that the coordinates of a slope are near 1 and the intercept is that at the means of
the predictors, where its prior is. Effects of groups are not centred: $u = \sigma \odot L z$ with $z \sim N(0, I)$ and
L the Cholesky factor of their correlations. Users see the intercept at zero, slopes in the units of the table, and u.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.typing import Array, Params, Scalar

_SHARED = 4_000_000  # entries of an indicator matrix: with fewer, a product is faster than gather and scatter


class Term(eqx.Module):
    """The columns of a term: its name, and the names of its columns where it has several."""

    name: str = eqx.field(static=True)
    num_columns: int = eqx.field(static=True)
    is_vector: bool = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its coefficients, for one output."""
        return (self.num_columns,) if self.is_vector else ()


class Block(eqx.Module):
    """Terms that vary by one factor, and whose effects may be correlated."""

    factor: str = eqx.field(static=True)
    terms: tuple[Term, ...]
    num_levels: int = eqx.field(static=True)
    correlated: bool = eqx.field(static=True)

    @property
    def width(self) -> int:
        """The number of effects of a level."""
        return sum(term.num_columns for term in self.terms)

    @property
    def correlations(self) -> str:
        """The name of the correlations."""
        names = "+".join(term.name.removesuffix(f"|{self.factor}") for term in self.terms)
        return f"{names}|{self.factor}_cor"


class Predictor(eqx.Module):
    """The linear predictor of one parameter of a family.

    Attributes:
        prefix: of the names of its parameters: nothing for mu.
        terms: common terms, in the order of the columns.
        blocks: group terms.
        means, sds: of the columns of the common terms.
        shift, unit: of the response where that is standardised.
        has_intercept: whether there is one.
        has_thresholds: whether thresholds take its place.
        plain: names whose coordinates are in the units of the table, because their priors have bounds.
        num_outputs: the number of predictors, which share all columns.
    """

    prefix: str = eqx.field(static=True)
    terms: tuple[Term, ...]
    blocks: tuple[Block, ...]
    means: Array
    sds: Array
    shift: Array
    unit: Array
    has_intercept: bool = eqx.field(static=True)
    has_thresholds: bool = eqx.field(static=True)
    plain: frozenset[str] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True, default=1)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The last axes of coefficients."""
        return (self.num_outputs,) if self.num_outputs > 1 else ()

    def named(self, name: str) -> str:
        """Return the full name of a parameter of this predictor."""
        return self.prefix + name

    def __call__(self, params: Params, rows) -> Array:
        """Return the predictor for every row, standardised as the response is."""
        total = rows["offset"][:, None]
        if self.terms:
            total = total + rows["X"] @ self._slopes(params, self.sds / self.unit, 1.0)
        if self.has_intercept:
            total = total + self._intercept(params)
        for block, data in zip(self.blocks, rows["groups"], strict=True):
            total = total + _by_level(self._effects(params, block) / self.unit, data["index"], data["Z"])
        return total if self.outputs else total[:, 0]

    def prior_values(self, params: Params) -> dict[str, Array]:
        """Return what the priors are about: slopes, sds and intercepts in units of the table, Cholesky factors."""
        values = self._by_term(self._slopes(params, 1.0, self.unit / self.sds))
        if self.has_intercept:
            name = self.named("Intercept")
            values[name] = params[name] if name in self.plain else self.shift + self.unit * params[name]
        for block in self.blocks:
            values |= {name: params[name] for name in self._scales(block)}
            if block.correlated:
                name = self.named(block.correlations)
                values[name] = params[name]
        return values

    def log_volume(self) -> Scalar:
        """Return the log-determinant of the way from coordinates of slopes and intercept to `prior_values`."""
        total = jnp.zeros(())
        for term, columns in self._columns():
            if self.named(term.name) not in self.plain:
                total += self.num_outputs * jnp.sum(jnp.log(self.unit / self.sds[columns]))
        if self.has_intercept and self.named("Intercept") not in self.plain:
            total += self.num_outputs * jnp.log(self.unit)
        return total

    def to_user(self, params: Params) -> dict[str, Array]:
        """Return the parameters as users read them."""
        values = self.prior_values(params)
        offset = self._at_means(params)
        if self.has_intercept:
            values[self.named("Intercept")] = values[self.named("Intercept")] - offset.reshape(self.outputs)
        if self.has_thresholds:
            values[self.named("threshold")] = params[self.named("threshold")] + offset
        for block in self.blocks:
            values |= self._split(block, self._effects(params, block))
            if block.correlated:
                name = self.named(block.correlations)
                matrix = values[name] @ jnp.swapaxes(values[name], -1, -2)
                values[name] = jnp.moveaxis(matrix[(..., *_pairs(block.width))], -1, 0)
        return values

    def from_user(self, values: Params) -> dict[str, Array]:
        """Return the coordinates of parameters as users read them."""
        params = self._scaled(values)
        offset = self._at_means(params)
        if self.has_intercept:
            name = self.named("Intercept")
            params[name] = self._scaled_intercept(values[name] + offset.reshape(self.outputs))
        if self.has_thresholds:
            params[self.named("threshold")] = values[self.named("threshold")] - offset
        for block in self.blocks:
            params |= {name: jnp.asarray(values[name]) for name in self._scales(block)}
            effects = self._joined(block, values, block.num_levels)
            z = effects / self._sds_of(block, params)
            if block.correlated:
                name = self.named(block.correlations)
                params[name] = jnp.linalg.cholesky(_matrix(jnp.asarray(values[name]), block.width))
                factors = jnp.broadcast_to(params[name], (self.num_outputs, block.width, block.width))
                solve = jax.vmap(
                    lambda factor, z: jax.scipy.linalg.solve_triangular(factor, z.T, lower=True).T, (0, 2), 2
                )
                z = solve(factors, z)
            params |= self._split(block, z)
        return params

    def from_prior(self, values: Params) -> dict[str, Array]:
        """Return the coordinates of slopes and intercept, given `prior_values`; the others are the same."""
        params = self._scaled(values)
        if self.has_intercept:
            params[self.named("Intercept")] = self._scaled_intercept(values[self.named("Intercept")])
        return params

    def _scaled(self, values):
        """Return the coordinates of slopes in units of the table."""
        params = {}
        for term, columns in self._columns():
            name = self.named(term.name)
            matrix = jnp.asarray(values[name]).reshape(-1, self.num_outputs)
            factor = 1.0 if name in self.plain else (self.sds[columns] / self.unit)[:, None]
            params[name] = (matrix * factor).reshape(term.shape + self.outputs)
        return params

    def _scaled_intercept(self, value):
        return value if self.named("Intercept") in self.plain else (value - self.shift) / self.unit

    def _columns(self):
        start = 0
        for term in self.terms:
            yield term, slice(start, start + term.num_columns)
            start += term.num_columns

    def _slopes(self, params, plain, scaled):
        """Return all slopes as a matrix of columns x outputs; the factors are for both kinds of coordinates."""
        parts = []
        for term, columns in self._columns():
            name = self.named(term.name)
            factor = jnp.broadcast_to(plain if name in self.plain else scaled, self.sds.shape)[columns]
            parts.append(params[name].reshape(-1, self.num_outputs) * factor[:, None])
        return jnp.concatenate(parts) if parts else jnp.zeros((0, self.num_outputs))

    def _by_term(self, slopes):
        return {
            self.named(term.name): slopes[columns].reshape(term.shape + self.outputs)
            for term, columns in self._columns()
        }

    def _at_means(self, params):
        """Return what the slopes add at the means of the predictors."""
        return self.means @ self._slopes(params, 1.0, self.unit / self.sds)

    def _intercept(self, params):
        name = self.named("Intercept")
        value = (params[name] - self.shift) / self.unit if name in self.plain else params[name]
        return value.reshape(self.num_outputs)

    def _scales(self, block):
        return [self.named(f"{term.name}_sigma") for term in block.terms]

    def _sds_of(self, block, params):
        return jnp.concatenate([params[name].reshape(-1, self.num_outputs) for name in self._scales(block)])

    def _effects(self, params, block):
        """Return the effects of all levels, in units of the table: levels x effects x outputs."""
        num_levels = len(params[self.named(block.terms[0].name)])
        z = self._joined(block, params, num_levels)
        if block.correlated:
            factor = params[self.named(block.correlations)]
            factor = jnp.broadcast_to(factor, (self.num_outputs, block.width, block.width))
            z = jnp.einsum("kij,ljk->lik", factor, z)
        return z * self._sds_of(block, params)

    def _joined(self, block, params, num_levels):
        parts = [
            jnp.asarray(params[self.named(term.name)]).reshape(num_levels, term.num_columns, self.num_outputs)
            for term in block.terms
        ]
        return jnp.concatenate(parts, axis=1)

    def _split(self, block, effects):
        ends = np.cumsum([term.num_columns for term in block.terms])[:-1]
        parts = jnp.split(effects, ends, axis=1)
        return {
            self.named(term.name): part.reshape(len(effects), *term.shape, *self.outputs)
            for term, part in zip(block.terms, parts, strict=True)
        }


def _by_level(effects, index, Z):
    """Return what the effects of its level add to every row: rows x outputs."""
    num_levels, _, num_outputs = effects.shape
    if len(index) * num_levels > _SHARED:
        return jnp.sum(Z[:, :, None] * effects[index], axis=1)
    indicators = (index[:, None] == jnp.arange(num_levels)).astype(effects.dtype)
    own = (indicators @ effects.reshape(num_levels, -1)).reshape(len(index), -1, num_outputs)
    return jnp.sum(Z[:, :, None] * own, axis=1)


def _pairs(width):
    return np.tril_indices(width, -1)


def _matrix(correlations, width):
    """Return correlation matrices, outputs first, given their lower triangles, pairs first."""
    entries = jnp.moveaxis(correlations, 0, -1)
    below = jnp.zeros((*entries.shape[:-1], width, width)).at[(..., *_pairs(width))].set(entries)
    return below + jnp.swapaxes(below, -1, -2) + jnp.eye(width)
