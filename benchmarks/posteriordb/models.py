"""The thirty posteriors by posteriordb's names: which model, written in what, on which data.

Seventeen are NumPyro models, four PyMC models, nine log densities in JAX. Their parameters have posteriordb's names.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import steinflow as sf
from benchmarks.posteriordb import others, regressions, time_series
from benchmarks.posteriordb.reference import Reference, data, draws, gathered, reference, scattered


@dataclasses.dataclass(frozen=True)
class Problem:
    """A posterior of posteriordb.

    Attributes:
        name: posteriordb's.
        target: what a user passes to `sf.fit`.
        reference: moments of the reported scalar parameters.
        latent: takes reported parameters to inferred ones, where these differ.
        starts: how Stan takes unconstrained values of a parameter to the user's space, where the target's way differs.
    """

    name: str
    target: sf.Target
    reference: Reference
    latent: Callable = lambda particles: particles
    starts: Mapping[str, Callable] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def unconstrained_dim(self) -> int:
        return len(ravel_pytree(self._unconstrained)[0])

    def start(self, key, num_particles: int):
        """Return particles as `sf.fit` takes them, where Stan starts: U(-2, 2) in Stan's unconstrained space."""
        _, unravel = ravel_pytree(self._unconstrained)

        def to_user(x):
            params = unravel(x)
            own = {name: stan(params[name]) for name, stan in self.starts.items()}
            return {**self.target.constrain(params), **own}

        key = jax.random.key(key) if isinstance(key, int) else key
        x = jax.random.uniform(key, (num_particles, self.unconstrained_dim), minval=-2.0, maxval=2.0)
        return jax.jit(jax.vmap(to_user))(x)

    def scalars(self, particles) -> np.ndarray:
        """Return the reported parameters of `result.particles` as a matrix, columns in the order of the reference."""
        return scattered(self.reference.names, particles)

    def reference_particles(self):
        """Return the reference draws as particles; None where there are none."""
        found = draws(self.name)
        return None if found is None else self._particles(found)

    @functools.cached_property
    def _unconstrained(self):
        """An unconstrained particle, for its structure alone."""
        particle = jax.tree.map(lambda leaf: leaf[0], self._particles(np.ones((1, len(self.reference.names)))))
        shapes = jax.eval_shape(self.target.unconstrain, particle)
        return jax.tree.map(lambda shape: np.zeros(shape.shape, shape.dtype), shapes)

    def _particles(self, scalars):
        return self.latent(jax.tree.map(jnp.asarray, gathered(self.reference.names, scalars)))


def problems() -> dict[str, Callable[[], Problem]]:
    """Return what makes each of the posteriors, by name."""
    return {name: functools.partial(problem, name) for name in TARGETS}


def problem(name: str) -> Problem:
    """Make a posterior; in double precision if JAX has it switched on."""
    target = TARGETS[name](data(name.split("-")[0]))
    return Problem(name, target, reference(name), **PARTICULARS.get(name, {}))


def regression(write, design, **options):
    """Return a function from data to the target of a regression."""
    return lambda data: write(*design(data), **options)


numpyro_regression = functools.partial(regression, regressions.in_numpyro)
pymc_regression = functools.partial(regression, regressions.in_pymc)
jax_regression = functools.partial(regression, regressions.in_jax)

TARGETS: dict[str, Callable[[dict], sf.Target]] = {
    "arK-arK": time_series.ark,
    "arma-arma11": time_series.arma11,
    "bball_drive_event_0-hmm_drive_0": time_series.hmm_drive_0,
    "earnings-earn_height": numpyro_regression(regressions.earn_height),
    "earnings-log10earn_height": numpyro_regression(regressions.log10earn_height),
    "earnings-logearn_height": numpyro_regression(regressions.logearn_height),
    "earnings-logearn_interaction": numpyro_regression(regressions.logearn_interaction),
    "earnings-logearn_interaction_z": numpyro_regression(regressions.logearn_interaction_z),
    "earnings-logearn_logheight_male": numpyro_regression(regressions.logearn_logheight_male),
    "eight_schools-eight_schools_noncentered": others.eight_schools_noncentered,
    "garch-garch11": time_series.garch11,
    "gp_pois_regr-gp_regr": others.gp_regr,
    "hudson_lynx_hare-lotka_volterra": others.lotka_volterra,
    "kidiq-kidscore_interaction": numpyro_regression(regressions.kidscore_interaction, half_cauchy=2.5),
    "kidiq-kidscore_momhs": numpyro_regression(regressions.kidscore_momhs, half_cauchy=2.5),
    "kidiq-kidscore_momiq": pymc_regression(regressions.kidscore_momiq, half_cauchy=2.5),
    "kidiq_with_mom_work-kidscore_interaction_c": pymc_regression(regressions.kidscore_interaction_c),
    "kidiq_with_mom_work-kidscore_interaction_z": numpyro_regression(regressions.kidscore_interaction_z),
    "kidiq_with_mom_work-kidscore_mom_work": jax_regression(regressions.kidscore_mom_work),
    "kilpisjarvi_mod-kilpisjarvi": regressions.kilpisjarvi,
    "low_dim_gauss_mix-low_dim_gauss_mix": others.low_dim_gauss_mix,
    "mcycle_gp-accel_gp": others.accel_gp,
    "mesquite-logmesquite": jax_regression(regressions.logmesquite),
    "mesquite-logmesquite_logvas": jax_regression(regressions.logmesquite_logvas),
    "mesquite-logmesquite_logvolume": jax_regression(regressions.logmesquite_logvolume),
    "mesquite-mesquite": jax_regression(regressions.mesquite),
    "nes1972-nes": numpyro_regression(regressions.nes),
    "nes1980-nes": numpyro_regression(regressions.nes),
    "nes1992-nes": numpyro_regression(regressions.nes),
    "sblrc-blr": regressions.blr,
}


def _cumulated(x):
    """Stan's way to positive ordered vectors; NumPyro's takes the exponential last."""
    return jnp.cumsum(jnp.exp(x), axis=-1)


PARTICULARS: dict[str, dict] = {
    "bball_drive_event_0-hmm_drive_0": {"starts": {"phi": _cumulated, "lambda": _cumulated}},
    "eight_schools-eight_schools_noncentered": {"latent": others.standardised_schools},
}
