r"""Whether to believe an answer: a level, the reasons in words, and what to do about each.

Everything is cheap: it needs the particles and the scores that the run computed anyway, and looks at an even sample of
about a thousand of them. The identities behind it hold under the target, for u the particles in the coordinates of the
cloud and t their scores there (Stein's identity for linear and cubic functions):

- dispersion: $-E[(x_k - \bar x_k) s_k] = 1$ in every coordinate, less where the particles are too narrow;
- mean: $E[t] = 0$; divided by the curvature it says by how many sds the mean is off;
- KSD: that of n independent draws would be $E[u_p(x, x)] / n$, so $E[u_p(x, x)] / \mathrm{KSD}^2$ is the number of
  draws that are as good;
- radius: $\mathrm{cov}(-t^\top u, |u|^2) = 2d$. Where $-t^\top u$ hardly grows with the radius the tails are heavy, and
  if the covariance falls short too, the particles do not reach into them.

A mode that no particle has found cannot be seen.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from steinflow.methods.svgd.metrics import Cloud
from steinflow.results.diagnostics import dispersion_of, even_sample, mean_error, stein_kernel_means
from steinflow.results.groups import two_groups
from steinflow.stein.bandwidths import Wide
from steinflow.stein.kernels import IMQ
from steinflow.typing import Array, Particles, Scores

Level = Literal["good", "doubtful", "bad"]
_LEVELS: tuple[Level, ...] = ("good", "doubtful", "bad")
_PARTICLES = 1024

# Calibrated by `python -m benchmarks.accuracy verdicts`. Dispersions are squares of ratios of sds, about.
_FEW = 20  # particles that say little about spread
_DISPERSION_DOUBTFUL, _DISPERSION_BAD = 1.25, 2.0  # or their inverses, in any coordinate
_MEAN_DOUBTFUL, _MEAN_BAD = 0.1, 0.5  # in sds
_DRAWS = 100  # what a good answer is worth at least, or as many draws as there are particles
_HEAVY_TAILED, _SHORT_RADIUS = 0.72, 0.65  # growth of -t'u with |u|^2 relative to a Gaussian; its covariance over 2d
_FAR_OUT = 7.0  # sds
_SEPARATED = 5.0  # distance of two groups in units of their own sds: 2.7 for a Gaussian cut in two, 3.5 for a uniform
_MASS_DOUBTFUL, _MASS_BAD = 0.1, 0.25  # share of the particles in a group against its share of the mass


class Remedy(enum.StrEnum):
    """What may help, in words for somebody who writes Python."""

    MORE_STEPS = "take more steps"
    MORE_PARTICLES = "use more particles"
    ENOUGH_PARTICLES = "use at least 20 particles, better 100"
    DEFAULT_METHOD = "use the default method, whose kernel reaches further"
    LARGER_BATCHES = "take larger batches"
    NUTS = "compare with NUTS: result.checked()"
    WIDER_START = "compare with a wider start"
    ANNEALING = "compare with sf.Annealed(sf.SVGD())"
    WEIGHTS = "weigh them: result.reweighted()"
    CLOSER_START = "start closer to the posterior"
    LOG_SPACE = "write the log density with log-space functions"
    UNIT_SCALE = "bring the parameters to a scale near 1"
    DOUBLE_PRECISION = "use double precision"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was noticed: how much it matters, the reason in words, and what may help."""

    level: Level
    reason: str
    remedies: tuple[Remedy, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to believe a result: `good`, `doubtful` or `bad`, with what was found and the figures behind it."""

    level: Level
    findings: tuple[Finding, ...]
    figures: Mapping[str, float]

    @property
    def reasons(self) -> list[str]:
        """What was found, the worst first."""
        return [finding.reason for finding in self.findings]

    @property
    def remedies(self) -> list[Remedy]:
        """What to do, for the worst first, each once."""
        return list(dict.fromkeys(remedy for finding in self.findings for remedy in finding.remedies))

    def __str__(self):
        remedies = f" What to do: {'; or '.join(self.remedies)}." if self.remedies else ""
        return f"{self.level}: {'; '.join(self.reasons)}.{remedies}"


def has_collapsed(dispersion: Array, num_particles: int) -> bool:
    """Say whether the particles stand for much less than the spread of the target.

    Fewer particles than dimensions cannot follow all correlations, which lowers the dispersion too.
    """
    limit = 0.5 if num_particles > len(dispersion) else 0.25
    return num_particles > 1 and bool(np.median(np.asarray(dispersion)) < limit)


def judge(
    particles: Particles,
    scores: Scores,
    log_densities: Array,
    *,
    weights: Array | None = None,
    history: Mapping[str, Sequence] | None = None,
    batch_noise: float | None = None,
) -> Verdict:
    """Return the verdict on particles with known scores.

    Args:
        particles: unconstrained.
        scores: the gradient of the log density at each of them; zero where it was not finite.
        log_densities: up to a constant; NaN where a target knows its scores alone.
        weights: of the particles; None where they are equal.
        history: what was recorded on the way, to tell a run that is still moving from one that has settled.
        batch_noise: where scores are those of minibatches, the error of the mean in sds that their noise leaves; the
            mean score and KSD, which such noise drowns, are not looked at then.
    """
    num_particles, dim = particles.shape
    if num_particles == 1:
        reason = "one particle is a point estimate, the mode, and says nothing about spread"
        return _verdict([Finding("doubtful", reason, (Remedy.ENOUGH_PARTICLES,))], {})
    sample = even_sample(num_particles, _PARTICLES, weights)
    points, sampled_scores = particles[sample], scores[sample]
    # An effective number: weights that leave few particles are worth few.
    size = num_particles if weights is None else float(1 / np.sum(np.asarray(weights, float) ** 2))
    figures = {name: np.asarray(value, float) for name, value in _figures(points, sampled_scores).items()}
    dispersion = np.asarray(dispersion_of(particles, scores, weights), float)
    if not all(np.all(np.isfinite(value)) for value in (*figures.values(), dispersion)):
        reason = "particles times scores overflow, so that nothing can be said"
        return _verdict([Finding("bad", reason, (Remedy.UNIT_SCALE, Remedy.DOUBLE_PRECISION))], {})
    figures["draws"], error = figures.pop("draws_per_particle") * size, figures["mean_error"]
    findings = [
        _on_number(size, dim),
        _on_lost(scores, log_densities),
        _on_spread(
            dispersion, num_particles, moving=_is_rising(history) or (batch_noise is None and error > _MEAN_BAD)
        ),
        _on_outliers(points, num_particles),
    ]
    if batch_noise is None:
        findings += [_on_mean(error), _on_ksd(figures["draws"], size)]
    else:
        findings.append(_on_batches(batch_noise))
    if size >= 2 * dim and size > _FEW:
        findings.append(_on_tails(figures["growth"], figures["radius"]))
        known = batch_noise is None and bool(jnp.all(jnp.isfinite(log_densities)))
        groups = two_groups(points, sampled_scores, log_densities[sample] if known else None)
        findings.append(_on_groups(groups))
        figures["separation"] = np.asarray(groups.separation)
    figures |= {"dispersion_min": dispersion.min(), "dispersion_max": dispersion.max()}
    good = f"dispersion {dispersion.min():.2f} to {dispersion.max():.2f}"
    if batch_noise is None:
        good += f", the mean within about {max(error, 0.01):.2f} sds, KSD as of {figures['draws']:.0f} draws"
    return _verdict(findings, {name: float(value) for name, value in figures.items()}, good)


def _verdict(findings, figures, good="") -> Verdict:
    found = sorted(filter(None, findings), key=lambda finding: -_LEVELS.index(finding.level))
    if found:
        return Verdict(found[0].level, tuple(found), figures)
    return Verdict("good", (Finding("good", f"{good} (a mode that no particle found would not show)"),), figures)


@eqx.filter_jit
def _figures(particles, scores):
    frame = Cloud().frame(particles)
    u, t = frame.points(particles), frame.scores(scores)
    ksd_squared, own = stein_kernel_means(u, t, IMQ(Wide()))
    pull, squares = -jnp.sum(t * u, axis=1), jnp.sum(u**2, axis=1)
    covariance = jnp.mean((pull - jnp.mean(pull)) * (squares - jnp.mean(squares)))
    growth = covariance / jnp.maximum(jnp.var(squares), 1e-12) * jnp.mean(squares)
    return {
        # Beyond a million draws for every particle it is rounding.
        "draws_per_particle": own / jnp.maximum(len(u) * ksd_squared, 1e-6 * own),
        "mean_error": mean_error(particles, scores),
        "growth": growth / jnp.maximum(jnp.abs(jnp.mean(pull)), 1e-6),
        "radius": covariance / (2 * particles.shape[1]),
    }


def _on_number(size, dim):
    if size < _FEW:
        remedies = (Remedy.ENOUGH_PARTICLES,)
        return Finding("doubtful", f"{size:.0f} particles say little about spread", remedies)
    if size <= dim:
        reason = (
            f"{size:.0f} particles in {dim} dimensions follow the scale of each parameter, not all correlations, for "
            f"which it takes more than {dim}, better {2 * dim}"
        )
        return Finding("doubtful", reason, (Remedy.MORE_PARTICLES,))
    return None


def _on_lost(scores, log_densities):
    scores, log_densities = np.asarray(scores), np.asarray(log_densities)
    if np.all(np.isnan(log_densities)):  # a target that knows its scores alone
        return None
    lost = int(np.sum(~np.isfinite(log_densities)))
    if not lost:
        return None
    reason = f"{lost} of {len(scores)} particles stand where log density or score are not finite"
    level = "bad" if 2 * lost > len(scores) else "doubtful"
    return Finding(level, reason, (Remedy.LOG_SPACE, Remedy.CLOSER_START))


def _on_spread(dispersion, num_particles, *, moving):
    low, middle, high = dispersion.min(), np.median(dispersion), dispersion.max()
    span = f"{low:.2f} to {high:.2f}"
    if has_collapsed(dispersion, num_particles):
        if moving:
            return Finding("bad", f"the particles have not spread yet (dispersion {span})", (Remedy.MORE_STEPS,))
        reason = f"the particles have collapsed (dispersion {span}, where 1 is right)"
        return Finding("bad", reason, (Remedy.MORE_PARTICLES, Remedy.DEFAULT_METHOD))
    few = num_particles <= len(dispersion)  # correlations that cannot be followed lower it
    if low < (0.25 if few else 1 / _DISPERSION_BAD) or high > _DISPERSION_BAD:
        level = (
            "bad" if not 1 / _DISPERSION_BAD <= middle <= _DISPERSION_BAD or high > 2 * _DISPERSION_BAD else "doubtful"
        )
    elif low < 1 / _DISPERSION_DOUBTFUL or high > _DISPERSION_DOUBTFUL:
        level = "doubtful"
    else:
        return None
    if high - 1 > 1 - low:
        return Finding(level, f"some coordinates are still too wide (dispersion {span})", (Remedy.MORE_STEPS,))
    remedies = (Remedy.MORE_STEPS,) if moving else (Remedy.MORE_PARTICLES, Remedy.MORE_STEPS)
    return Finding(level, f"some coordinates have too little spread (dispersion {span})", remedies)


def _is_rising(history):
    spread = np.asarray((history or {}).get("dispersion", ()), float)
    return len(spread) >= 4 and bool(spread[-1] > spread[len(spread) // 2] + 0.05)


def _on_outliers(points, num_particles):
    points = np.asarray(points, float)
    deviations = np.abs(points - points.mean(axis=0)) / np.maximum(points.std(axis=0), np.finfo(np.float32).tiny)
    far = int(np.sum(np.max(deviations, axis=1) > _FAR_OUT))
    if not far:
        return None
    reason = f"{far} of {num_particles} particles stand more than {_FAR_OUT:.0f} sds out, and make the spread large"
    return Finding("doubtful", reason, (Remedy.CLOSER_START, Remedy.MORE_PARTICLES, Remedy.WEIGHTS))


def _on_mean(error):
    if error <= _MEAN_DOUBTFUL:
        return None
    level = "bad" if error > _MEAN_BAD else "doubtful"
    return Finding(level, f"not converged: the mean is about {error:.2g} sds off", (Remedy.MORE_STEPS,))


def _on_ksd(draws, size):
    enough = min(size, _DRAWS)
    if draws >= enough / 2:
        return None
    level = "bad" if draws < enough / 10 else "doubtful"
    return Finding(level, f"by KSD the particles are worth {draws:.0f} independent draws", (Remedy.MORE_STEPS,))


def _on_batches(noise):
    if noise <= _MEAN_DOUBTFUL:
        return None
    reason = f"minibatches leave the mean uncertain by about {noise:.2g} sds"
    return Finding("bad" if noise > 1 else "doubtful", reason, (Remedy.MORE_STEPS, Remedy.LARGER_BATCHES))


def _on_tails(growth, radius):
    if growth >= _HEAVY_TAILED or radius >= _SHORT_RADIUS:
        return None
    reason = (
        "the tails are heavy or the shape is a funnel, and the particles do not reach far into them: sds may be 10 to "
        "25% short"
    )
    return Finding("doubtful", reason, (Remedy.MORE_PARTICLES, Remedy.NUTS))


def _on_groups(groups):
    if groups.separation < _SEPARATED:
        return None
    where = (
        f"the particles form two groups, {groups.separation:.0f} of their sds apart, the smaller with "
        f"{groups.share:.0%} of the particles"
    )
    remedies = (Remedy.WIDER_START, Remedy.ANNEALING)
    if groups.mass is None:
        return Finding("doubtful", f"{where}, which may be right or keep something of the start", remedies)
    if abs(groups.mass - groups.share) <= _MASS_DOUBTFUL:
        return None
    level = "bad" if abs(groups.mass - groups.share) > _MASS_BAD else "doubtful"
    return Finding(level, f"{where} and about {groups.mass:.0%} of the mass", remedies)
