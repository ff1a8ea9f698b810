"""The truth about posteriors that are no Gaussians, because some of their directions are known by few rows.

NUTS takes too long on half a million rows. Here the rows that matter most are exact, and all others are quadratic
around the mode; weights by the log density of all rows take off what that leaves of a difference.

5,000 draws know an sd to 1%, the worst of fifty to 3%. So what Stein's identity says of the same draws is taken off
(control variates): most columns are nearly Gaussian, and there little is left to chance.
"""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

EXACT = 15_000  # rows
DRAWS, WARM_UP = 5_000, 500
PARTS = 50  # of the chain, whose scatter is the standard error
BLOCK = 5_000


def mean_and_sds(problem, mode, covariance):
    """Return mean and sds of a posterior with the prior N(0, I), given its mode and Laplace's covariance.

    To be called where double precision is on.
    """
    num_rows, factor = len(problem.data["y"]), np.linalg.cholesky(covariance)

    def rows_of(which):
        return {name: np.asarray(values[which], float) for name, values in problem.data.items()}

    def blocks(which):
        return (rows_of(which[start : start + BLOCK]) for start in range(0, len(which), BLOCK))

    def total(w, rows):
        return jnp.sum(problem.log_likelihood(w, rows))

    @jax.jit
    def bends(rows):
        away = 2 * jax.random.normal(jax.random.key(0), (30, problem.dim)) @ factor.T
        values = jax.vmap(problem.log_likelihood, in_axes=(0, None))
        return jnp.mean(
            jnp.abs(values(mode + away, rows) + values(mode - away, rows) - 2 * values(mode[None], rows)), 0
        )

    order = np.argsort(np.concatenate([bends(rows) for rows in blocks(np.arange(num_rows))]))
    exact, gradient, hessian = rows_of(order[-EXACT:]), np.zeros(problem.dim), np.zeros((problem.dim, problem.dim))
    slopes = jax.jit(jax.grad(total)), jax.jit(jax.hessian(total))
    for rows in blocks(order[:-EXACT]):
        gradient, hessian = gradient + slopes[0](mode, rows), hessian + slopes[1](mode, rows)

    def log_density(v):  # in the coordinates of Laplace's approximation
        away = factor @ v
        w = mode + away
        return total(w, exact) + gradient @ away + 0.5 * away @ hessian @ away - 0.5 * w @ w

    @jax.jit
    def drawn(key):
        warm_key, key = jax.random.split(key)
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = warm_up.run(warm_key, jnp.zeros(problem.dim), num_steps=WARM_UP)
        step = blackjax.nuts(log_density, **parameters).step

        def one(state, key):
            state, _ = step(key, state)
            return state, (state.position, state.logdensity, state.logdensity_grad)

        return jax.lax.scan(one, state, jax.random.split(key, DRAWS))[1]

    points, values, scores = map(np.asarray, drawn(jax.random.key(0)))
    draws = mode + points @ factor.T
    on_rows = jax.jit(jax.vmap(total, in_axes=(0, None)))
    differences = sum(np.asarray(on_rows(draws, rows)) for rows in blocks(np.arange(num_rows)))
    differences = differences - 0.5 * np.sum(draws**2, axis=1) - values
    weights = np.exp(differences - np.max(differences))
    weights = weights / np.mean(weights)
    return moments(draws, weights, scores @ factor.T, np.diag(covariance))


def moments(draws, weights, pulls, variances):
    """Return mean and sds of weighted draws, and print their standard errors.

    Args:
        draws: of a density near the target, in the order of their chain.
        weights: of mean 1.
        pulls: a constant matrix, with `variances` on its diagonal, times the scores of that density at the draws.
        variances: as they are assumed.
    """
    mean = np.mean(weights[:, None] * draws, axis=0)
    controls = np.append(pulls, (draws - mean) * pulls + variances, axis=1)  # of expectation zero

    def averages(values):
        """Return averages under the target, and their standard errors."""
        rest = weights[:, None] * (values - np.mean(weights[:, None] * values, axis=0))
        slopes, *_ = np.linalg.lstsq(controls - np.mean(controls, axis=0), rest, rcond=None)
        rest = rest - controls @ slopes
        parts = np.mean(rest[: len(rest) // PARTS * PARTS].reshape(PARTS, -1, rest.shape[1]), axis=1)
        return np.mean(weights[:, None] * values, axis=0) + np.mean(rest, axis=0), np.std(parts, axis=0) * PARTS**-0.5

    mean, mean_error = averages(draws)
    variance, variance_error = averages((draws - mean) ** 2)
    sds = np.sqrt(variance)
    print(
        f"truth by NUTS: {len(draws) / np.mean(weights**2):.0f} of {len(draws)} draws are left by their weights; "
        f"standard errors are at most {np.max(mean_error / sds):.4f} sds of a mean "
        f"and {np.max(0.5 * variance_error / variance):.1%} of an sd",
        flush=True,
    )
    return mean, sds
