"""The No-U-Turn sampler (Hoffman & Gelman, JMLR 2014), from BlackJAX with its window adaptation: the gold standard.

One step is one draw in each of several chains, which run side by side.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.methods.base import Draws, Method, need_log_density, refuse_minibatches
from steinflow.methods.trace import Trace
from steinflow.typing import Array


class NUTSState(eqx.Module):
    """The chains as BlackJAX sees them, what the warm-up found, the draws so far, and how often they diverged."""

    chains: Any
    parameters: dict[str, Array]
    traces: Trace  # one per chain
    num_divergent: Array


class NUTS(Method):
    """Hamiltonian Monte Carlo that tunes itself; needs `pip install 'steinflow[blackjax]'`.

    The first `num_chains` particles start the chains. The result holds every draw, chain after chain:
    `fit(target, sf.NUTS(), num_steps=1000)` gives 1,000 draws from each of 4 chains. All the data is used at every
    step, so targets with minibatches are refused.

    Known bias: none in the limit. With S effective draws the error of a mean is sd / sqrt(S). Before trusting the
    draws, look at R-hat and the effective sample size in `arviz.summary(result.to_arviz())`, and at
    `result.info["num_divergent"]`, the number of trajectories that could not follow the density.

    Args:
        num_chains: how many chains run side by side.
        num_warmup: steps of adaptation before the first draw.

    Other arguments:
        target_acceptance: of the warm-up; closer to 1 means smaller steps.
        dense: adapt a full mass matrix instead of a diagonal one.
        max_doublings: of the trajectory.

    Raises:
        ValueError: if there is less than one chain or one warm-up step.
    """

    num_chains: int = 4
    num_warmup: int = 1000
    target_acceptance: float = 0.8
    dense: bool = eqx.field(default=False, kw_only=True)
    max_doublings: int = 10

    def __check_init__(self):
        if self.num_chains < 1 or self.num_warmup < 1:
            raise ValueError(
                f"NUTS needs at least one chain and one warm-up step; got {self.num_chains} and {self.num_warmup}."
            )

    def init(self, target, particles, *, num_steps, key):
        need_log_density(target, "NUTS")
        refuse_minibatches(target, "NUTS", "a trajectory that changes its density on the way is not reversible")
        if len(particles) < self.num_chains:
            raise ValueError(
                f"NUTS needs one starting particle for each of its {self.num_chains} chains; got {len(particles)}. "
                f"Pass more of them, or ask for fewer chains: sf.NUTS(num_chains={len(particles)})."
            )
        blackjax = _blackjax()
        warmup: Any = blackjax.window_adaptation(
            blackjax.nuts,
            target.log_density,
            is_mass_matrix_diagonal=not self.dense,
            target_acceptance_rate=self.target_acceptance,
            max_num_doublings=self.max_doublings,
        )

        def adapt(key, x):
            with jax.numpy_dtype_promotion("standard"):  # BlackJAX adds bools to ints
                adapted, _ = warmup.run(key, x, self.num_warmup)
            parameters = {name: adapted.parameters[name] for name in ("step_size", "inverse_mass_matrix")}
            return adapted.state, parameters

        chains, parameters = jax.vmap(adapt)(jax.random.split(key, self.num_chains), particles[: self.num_chains])
        traces = jax.vmap(lambda x: Trace.starting_at(x, num_steps))(chains.position)
        return NUTSState(chains, parameters, traces, jnp.zeros((), jnp.int32))

    def step(self, target, state, batch, *, time, key):
        kernel = _blackjax().nuts.build_kernel()

        def move(key, chain, parameters):
            with jax.numpy_dtype_promotion("standard"):
                return kernel(key, chain, target.log_density, max_num_doublings=self.max_doublings, **parameters)

        chains, info = jax.vmap(move)(jax.random.split(key, self.num_chains), state.chains, state.parameters)
        traces = jax.vmap(Trace.keep)(state.traces, chains.position)
        num_divergent = state.num_divergent + jnp.sum(info.is_divergent, dtype=jnp.int32)
        return NUTSState(chains, state.parameters, traces, num_divergent)

    def draws(self, target, state, *, key):
        points = jax.vmap(Trace.in_order)(state.traces)
        return Draws(
            points.reshape(-1, target.dim),
            num_chains=self.num_chains,
            count=jax.vmap(lambda trace: trace.num_kept)(state.traces)[0],
            metrics={"num_divergent": state.num_divergent},
        )


def _blackjax():
    try:
        import blackjax
    except ImportError as error:
        raise ImportError("sf.NUTS needs BlackJAX: pip install 'steinflow[blackjax]'.") from error
    return blackjax
