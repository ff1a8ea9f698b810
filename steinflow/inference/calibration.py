"""Simulation-based calibration of a model and its inference: `sf.calibrate`, on top of `fit_many`."""

from collections.abc import Callable

import jax
import numpy as np

from steinflow.devices.keys import as_key, split_key
from steinflow.inference.many import fit_many
from steinflow.methods.base import Method
from steinflow.results.calibration import Calibration
from steinflow.targets.base import Target, as_target
from steinflow.typing import Params, PRNGKeyArray, PyTree

_FEWEST = 20  # simulations whose distribution says anything


def calibrate(
    target: Target | Callable[[PyTree], Target],
    method: Method | None = None,
    *,
    prior: Callable[[PRNGKeyArray], Params] | None = None,
    simulate: Callable[[Params, PRNGKeyArray], PyTree] | None = None,
    number: int = 500,
    num_particles: int | None = None,
    num_steps: int | None = None,
    key: int | PRNGKeyArray = 0,
    progress: bool = True,
) -> Calibration:
    """Check whether a model and its inference recover known parameters as often as they claim.

    Parameters are drawn from the prior, data are simulated with them, and all posteriors are fitted at once. If the
    true values are not spread evenly over their posteriors, then model, simulator and inference do not match.

    Args:
        target: the model. A NumPyro model can draw and simulate by itself; simulated data have the size of the data
            that it was given, and its other arguments stay the same. `sf.Posterior` needs `simulate`, and a prior to
            draw from. Or a function that takes simulated data and returns a target.
        method: how to infer, as for `sf.fit`.
        prior: a function of a key that returns one draw of the parameters; the target's own if not given.
        simulate: a function of parameters and a key that returns data; the target's own if not given.
        number: how many simulations.
        num_particles: of each run, as for `sf.fit`.
        num_steps: of each run, as for `sf.fit`.
        key: an int or a JAX key.
        progress: show a bar.

    Returns:
        The quantiles of the true values, with a verdict in words, the parameters that fail, and a plot.

    Raises:
        ValueError: if the target cannot draw or simulate, or there are fewer than 20 simulations.

    Example:
        ```python
        import numpyro, numpyro.distributions as dist, jax.numpy as jnp, steinflow as sf


        def model(y):
            mean = numpyro.sample("mean", dist.Normal(0, 10))
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)


        calibration = sf.calibrate(sf.from_numpyro(model, jnp.zeros(20)), number=100)
        print(calibration)
        ```
    """
    if number < _FEWEST:
        raise ValueError(f"Calibration needs at least {_FEWEST} simulations, preferably hundreds; got number={number}.")
    if isinstance(target, Target):
        make, prior, simulate = target.given, prior or target.sample_prior, simulate or target.simulate
    elif prior is None or simulate is None:
        raise ValueError(
            "A function that takes data to a target does not say where data come from: pass prior=, which takes a key "
            "to parameters, and simulate=, which takes parameters and a key to data."
        )
    else:
        make = target
    simulation_key, fit_key = split_key(as_key(key), 2)

    def one(key):
        prior_key, data_key = jax.random.split(key)
        params = prior(prior_key)
        data = simulate(params, data_key)
        made = as_target(make(data))
        return made.constrain(made.unconstrain(params)), data  # with all that follows from the parameters

    truths, data = jax.jit(jax.vmap(one))(jax.random.split(simulation_key, number))
    truths = jax.tree.map(np.asarray, truths)
    posteriors = fit_many(
        make, data, method, num_particles=num_particles, num_steps=num_steps, key=fit_key, progress=progress
    )
    return Calibration.of(truths, posteriors)
