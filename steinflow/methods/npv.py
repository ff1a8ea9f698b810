r"""Nonparametric variational inference (Gershman, Hoffman & Blei, ICML 2012).

A mixture $q = \frac1K \sum_k N(\mu_k, s_k I)$ that maximises an approximate evidence bound. The entropy is bounded by
Jensen, $H = -\frac1K \sum_k \log q_k$ with $q_k = \frac1K \sum_j N(\mu_k; \mu_j, (s_k + s_j) I)$, and log p expanded
around the means:

$$L_1 = H + \frac1K \sum_k \log p(\mu_k), \qquad
L_2 = L_1 + \frac1{2K} \sum_k s_k\, \mathrm{tr} \nabla^2 \log p(\mu_k).$$

A step climbs $L_1$ over each mean in turn, then $L_2$ over all variances at once, both by L-BFGS.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Draws, Method, need_log_density, refuse_minibatches
from steinflow.targets.flat import FlatTarget
from steinflow.typing import Array, Params, Particles, Point, Scalar

_SMALLEST = 1e-7  # variance
_LARGEST_LOG = 10.0  # log variance: where the trace of the Hessian is positive, L_2 knows no bound
_TOLERANCE = 1e-4  # of L_2: when a step gains less, the run is over


class NPVState(eqx.Module):
    """The components, the bound L_2, and whether it has settled: then further steps change nothing."""

    means: Particles
    log_variances: Array
    bound: Scalar
    settled: Array

    @property
    def variances(self) -> Array:
        """The s_k."""
        return jnp.exp(jnp.minimum(self.log_variances, _LARGEST_LOG)) + _SMALLEST


class NPV(Method):
    r"""A mixture of as many isotropic Gaussians as there are particles; ten steps are plenty.

    The result holds draws of q, the same number from each component.

    Known bias: components are round and the bound on the entropy is loose by $\frac{d}{2}(1 - \log 2)$ for separate
    ones; on correlated or badly scaled posteriors the spread is too small in the wide directions (one component on a
    Gaussian of precision $\Lambda$ has the variance $d / \mathrm{tr} \Lambda$ in every direction).

    Args:
        max_iterations: of L-BFGS, for one mean or for the variances.
        draws_per_component: how many draws from each component the result holds.
        laplacian: takes one unconstrained particle to the trace of the Hessian of log p, in the structure that the
            target's `log_density` sees, such as `model.laplacian` of `sf.models.LogisticRegression`; by default it
            comes from autodiff, d products for each component.
    """

    max_iterations: int = 200
    draws_per_component: int = 1
    laplacian: Callable[[Params], Scalar] | None = None

    def init(self, target, particles, *, num_steps, key):
        need_log_density(target, "NPV")
        refuse_minibatches(target, "NPV", "it climbs to the exact optimum of one objective")
        log_variances = jax.random.normal(key, (len(particles),), particles.dtype)
        settled, bound = jnp.zeros((), bool), jnp.full((), -jnp.inf, particles.dtype)
        return NPVState(particles, log_variances, bound, settled)

    def step(self, target, state, batch, *, time, key):
        return jax.lax.cond(state.settled, lambda: state, lambda: self._ascend(target, state))

    def draws(self, target, state, *, key):
        means = jnp.repeat(state.means, self.draws_per_component, axis=0)
        sds = jnp.sqrt(jnp.repeat(state.variances, self.draws_per_component))
        return Draws(means + sds[:, None] * jax.random.normal(key, means.shape, means.dtype))

    def _trace_at(self, target: FlatTarget) -> Callable[[Point], Scalar]:
        if self.laplacian is None:
            return functools.partial(trace_of_hessian, target.log_density)
        laplacian = self.laplacian
        return lambda x: laplacian(target.unravel(x))

    def _ascend(self, target: FlatTarget, state: NPVState) -> NPVState:
        num_components = len(state.means)
        variances = state.variances

        def move_mean(k, carry):
            means, log_kernels = carry
            # Everything but component k stands still: what the others give each other is summed once.
            others = jax.nn.logsumexp(log_kernels.at[:, k].set(-jnp.inf), axis=1)

            def negative(mean):
                row = _log_normal(mean, means, variances[k] + variances).at[k].set(log_kernels[k, k])
                elsewhere = jnp.where(jnp.arange(num_components) == k, 0.0, jnp.logaddexp(others, row))
                return jax.nn.logsumexp(row) + jnp.sum(elsewhere) - target.log_density(mean)

            mean = minimise(negative, means[k], self.max_iterations)
            row = _log_normal(mean, means, variances[k] + variances).at[k].set(log_kernels[k, k])
            return means.at[k].set(mean), log_kernels.at[k].set(row).at[:, k].set(row)

        start = (state.means, _log_kernels(state.means, variances))
        means, _ = jax.lax.fori_loop(0, num_components, move_mean, start)

        traces = jax.lax.map(self._trace_at(target), means)
        moved = NPVState(means, state.log_variances, state.bound, state.settled)

        def negative_bound(log_variances):
            return -_bound(eqx.tree_at(lambda s: s.log_variances, moved, log_variances), traces)

        log_variances = minimise(negative_bound, state.log_variances, self.max_iterations)
        log_densities = jax.vmap(target.log_density)(means)
        bound = jnp.mean(log_densities) - negative_bound(log_variances) / num_components
        return NPVState(means, log_variances, bound, jnp.abs(bound - state.bound) < _TOLERANCE)


def trace_of_hessian(function: Callable[[Point], Scalar], x: Point) -> Scalar:
    """Return the sum of the second derivatives of a function at x, by d products with its Hessian."""
    gradient = jax.grad(function)
    basis = jnp.eye(len(x), dtype=x.dtype)
    return jnp.sum(jax.vmap(lambda e: e @ jax.jvp(gradient, (x,), (e,))[1])(basis))


def entropy_bound(means: Particles, variances: Array) -> Scalar:
    """Return H, which never exceeds the entropy of the mixture."""
    log_q = jax.nn.logsumexp(_log_kernels(means, variances), axis=1) - jnp.log(len(means))
    return -jnp.mean(log_q)


def _bound(state: NPVState, traces: Array) -> Scalar:
    """Return K (H + sum_k s_k h_k / 2K): the part of the bound that depends on the variances."""
    k = len(state.means)
    return k * entropy_bound(state.means, state.variances) + 0.5 * state.variances @ traces


def _log_normal(x, means, variances):
    """Return log N(x; mu_j, v_j I) for every j."""
    squares = jnp.sum((x - means) ** 2, axis=-1)
    return -0.5 * (squares / variances + means.shape[-1] * jnp.log(2 * jnp.pi * variances))


def _log_kernels(means, variances):
    """Return log N(mu_k; mu_j, (s_k + s_j) I) for all pairs, without an array of K x K x d."""
    return jax.lax.map(lambda row: _log_normal(row[0], means, row[1] + variances), (means, variances))


def minimise(function, x: Array, max_iterations: int) -> Array:
    """Return the minimum that L-BFGS finds from x."""
    import optax  # it takes a tenth of a second

    solver = optax.lbfgs(memory_size=10)
    value_and_gradient = optax.value_and_grad_from_state(function)
    tolerance = jnp.sqrt(jnp.finfo(x.dtype).eps) * 0.1

    def advance(carry):
        x, state, iteration, _ = carry
        value, gradient = value_and_gradient(x, state=state)
        assert isinstance(gradient, jax.Array)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes ints of two sizes
            updates, state = solver.update(gradient, state, x, value=value, grad=gradient, value_fn=function)
        moved = x + updates
        finite = jnp.all(jnp.isfinite(moved))
        moved = jnp.where(finite, moved, x)
        new = optax.tree.get(state, "value")
        stalled = jnp.abs(value - new) <= jnp.finfo(x.dtype).eps * jnp.maximum(jnp.abs(value), 1.0)
        done = ~finite | stalled | (jnp.max(jnp.abs(gradient)) <= tolerance)
        return moved, state, iteration + 1, done

    def unfinished(carry):
        return ~carry[-1] & (carry[-2] < max_iterations)

    start = (x, solver.init(x), 0, jnp.zeros((), bool))
    return jax.lax.while_loop(unfinished, advance, start)[0]
