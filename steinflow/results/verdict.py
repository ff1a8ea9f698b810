r"""Whether to believe an answer: a level, the reasons in words, and what to do about each.

Everything is cheap: it needs the particles and the scores that the run computed anyway. Outliers are those of all
particles, the rest is judged from an even sample of about a thousand. The identities behind it hold under the
target, for u the particles in the coordinates of the cloud and t their scores there (Stein's identity for linear and
cubic functions):

- dispersion: $-E[u_k t_k] = 1$ in every direction, less where the particles are too narrow. It is negative where the
  scores push the particles apart, as between two modes. In the coordinates of the parameters it would be a difference
  of large numbers wherever two of them are strongly correlated;
- mean: $E[t] = 0$; divided by the curvature it says by how many sds the mean is off;
- KSD: that of n independent draws would be $E[u_p(x, x)] / n$, so $E[u_p(x, x)] / \mathrm{KSD}^2$ is the number of
  draws that are as good;
- radius: $\mathrm{cov}(-t^\top u, |u|^2) = 2d$. Where $-t^\top u$ hardly grows with the radius the tails are heavy, and
  if the covariance falls short too, the particles do not reach into them.

Where particles explored, mean and dispersion are not those of the n particles but of all states on their way, with
standard errors by the scatter of the chains; and R-hat says whether the chains agree.

A mode that no particle has found cannot be seen.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from steinflow.results.measures import in_cloud, mean_error, stein_kernel_means, wide_bandwidth
from steinflow.stein.discrepancy import dispersion_of
from steinflow.stein.geometry import even_sample
from steinflow.typing import Array, Particles, Scores

Level = Literal["good", "doubtful", "bad"]
_LEVELS: tuple[Level, ...] = ("good", "doubtful", "bad")
_PARTICLES = 1024

# Calibrated by `python -m benchmarks.accuracy verdicts`. Dispersions are squares of ratios of sds, about.
_FEW = 20  # particles that say little about spread
_DISPERSION_DOUBTFUL, _DISPERSION_BAD = 1.25, 2.0  # or their inverses, in any coordinate
_OUTWARDS = -0.1  # a dispersion below is more than the noise of one near zero
_MEAN_DOUBTFUL, _MEAN_BAD = 0.1, 0.5  # in sds
_FINEST = 0.02  # sds, nobody is said to be closer: chains do not see what the length of steps does to all of them
_NOISE_BAD = 1.0  # error of the mean by minibatches, in sds
_DRAWS = 100  # what a good answer is worth, or as many draws as there are particles
_DRAWS_DOUBTFUL, _DRAWS_BAD = 2.0, 10.0  # that many times fewer
_HEAVY_TAILED, _SHORT_RADIUS = 0.72, 0.65  # growth of -t'u with |u|^2 relative to a Gaussian; its covariance over 2d
_FAR_OUT = 7.0  # sds
_MIXING_DOUBTFUL, _MIXING_BAD = 1.15, 1.25  # R-hat; an sd was 0.72 times the truth at 1.2, and 1.9 times at 1.28
_LOST_DOUBTFUL, _LOST_BAD = 0.1, 0.5  # share of the particles
_SD_DOUBTFUL, _SD_BAD = 0.033, 0.25  # standard error of an sd, as a part of it: three are 10%
_LONG_TAIL = 0.7  # Pareto's k of squares; a log-normal parameter of 0.8 has 0.57, of 1.0, whose sd is 7% off, 0.67
_SEPARATED = 5.0  # distance of two groups in units of their own sds: 2.7 for a Gaussian cut in two, 3.5 for a uniform
_CUT_OFF = 0.005  # of the moves: fewer say that hardly any mass is at the edge
_MASS_DOUBTFUL, _MASS_BAD = 0.1, 0.25  # share of the particles in a group against its share of the mass


class Remedy(enum.StrEnum):
    """What may help, in words for Python users."""

    MORE_STEPS = "take more steps"
    MORE_PARTICLES = "use more particles"
    ENOUGH_PARTICLES = "use at least 20 particles, preferably 100"
    DEFAULT_METHOD = "use the default method, whose kernel reaches further"
    LARGER_BATCHES = "use larger batches"
    REREAD = "let the run read the stream again: sf.data.Stream(..., epoch=...)"
    NUTS = "compare with NUTS: result.check()"
    SMALLER_STEPS = "take smaller steps: sf.NUTS(target_acceptance=0.95)"
    MORE_CHAINS = "run several chains: sf.NUTS(num_chains=4)"
    WIDER_START = "compare with a run from a wider start"
    ANNEALING = "compare with sf.Annealed(sf.SVGD())"
    ORDER = (
        "impose an order on the parameters that tell the components apart, with NumPyro's ordered_vector or PyMC's "
        "ordered transform"
    )
    WEIGHTS = "reweight the particles: result.reweighted()"
    QUANTILES = "report quantiles where a tail is long"
    CONSTRAINTS = "state the range of the parameters with constraints= of sf.Posterior, or use other coordinates"
    CLOSER_START = "start closer to the posterior"
    LESS_SURE = (
        "give the noise heavier tails (noise='heavy-tailed', sf.models.VaryingStudentT()), or calibrate class "
        "probabilities on rows that you hold out yourself"
    )
    LESS_FREE = "give the network fewer units, or its weights a smaller prior_scale"
    LOG_SPACE = "write the log density with log-space functions"
    UNIT_SCALE = "bring the parameters to a scale near 1"
    DOUBLE_PRECISION = "use double precision"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One problem that was found: how much it matters, the reason in words, and what may help."""

    level: Level
    reason: str
    remedies: tuple[Remedy, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to believe a result: `good`, `doubtful` or `bad`, with the findings and the metrics behind them."""

    level: Level
    findings: tuple[Finding, ...]
    metrics: Mapping[str, float]

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


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is a finding, not a warning
def judge(
    particles: Particles,
    scores: Scores,
    log_densities: Array,
    *,
    weights: Array | None = None,
    history: Mapping[str, Sequence] | None = None,
    batch_noise: float | None = None,
    score_noise: float = 0.0,
    num_steps: int = 1,
    trajectory: Mapping[str, float] | None = None,
    name_of: Callable[[int], str] = "number {} of a particle".format,
) -> Verdict:
    """Return the verdict on particles with known scores.

    Args:
        particles: unconstrained.
        scores: the gradient of the log density at each of them; zero where it was not finite.
        log_densities: up to a constant; NaN where a target knows only its scores.
        weights: of the particles; None where they are equal.
        history: what the run recorded. It tells a run that is still moving from one that has settled.
        batch_noise: where steps saw minibatches, the error of the mean, in sds, that their noise leaves.
        score_noise: the apparent error of the mean, in sds, that comes from the noise of `scores` alone. Where it is
            large, it hides the mean score, which is then not judged. With any noise, KSD is not judged.
        num_steps: how many steps the run took.
        trajectory: where particles explored, the findings about their path (`Trajectory.findings`). The path has
            hundreds of times as many states as there are particles, so mean and spread are judged by the path.
        name_of: the name of a scalar parameter, given its number.
    """
    num_particles, dim = particles.shape
    if num_particles == 1:
        reason = "one particle is a point estimate, the mode, and says nothing about the spread"
        return verdict_of([Finding("doubtful", reason, (Remedy.ENOUGH_PARTICLES,))], {})
    x, values = (np.asarray(array, float) for array in (particles, log_densities))
    w = None if weights is None else np.asarray(weights, float)
    # An effective number: weights that leave few particles are worth few.
    size = num_particles if w is None else 1 / np.sum(w**2)
    sample = even_sample(num_particles, _PARTICLES, w)
    metrics, own, u, t = _measure(np.asarray(particles)[sample], np.asarray(scores, float)[sample])
    dispersion = dispersion_of(u, t)
    # In the precision of the run, even if it could be judged in a higher one.
    if not np.all(np.isfinite(np.asarray([own, *metrics.values(), *dispersion], particles.dtype))):
        reason = "products of particles and scores overflow, so the particles cannot be judged"
        return verdict_of([Finding("bad", reason, (Remedy.UNIT_SCALE, Remedy.DOUBLE_PRECISION))], {})
    metrics["draws"] = draws = metrics.pop("draws_per_particle") * size
    if trajectory is not None:
        metrics |= {name: trajectory[name] for name in ("mean_error", "sd_error", "mixing")}
        dispersion = _dispersion_beyond_chance(trajectory)
    # Stein's identities hold where a density falls to zero by itself, not where it is cut off.
    cut_off = trajectory is not None and trajectory["blocked"] > _CUT_OFF
    clear = score_noise <= _MEAN_DOUBTFUL and not cut_off
    error = metrics["mean_error"] = max(metrics["mean_error"] ** 2 - score_noise**2, 0.0) ** 0.5
    moving = _is_rising(history) or (clear and error > _MEAN_BAD)
    findings = [
        _on_number(size, dim, explored=trajectory is not None),
        _on_lost(values),
        None if cut_off else _on_spread(dispersion, num_particles, moving=moving),
        _on_outliers(x, w),
        *([] if trajectory is None else [*_on_trajectory(trajectory), _on_long_tails(trajectory, name_of)]),
    ]
    if clear:
        reason = f"not converged: the mean is about {error:.2g} sds off"
        findings.append(graded(error, _MEAN_DOUBTFUL, _MEAN_BAD, reason, Remedy.MORE_STEPS))
    if batch_noise is None and trajectory is None:
        reason = f"by KSD the particles are worth only {draws:.0f} independent draws"
        missing = min(size, _DRAWS) / max(draws, 1e-6)
        findings.append(graded(missing, _DRAWS_DOUBTFUL, _DRAWS_BAD, reason, Remedy.MORE_STEPS))
    if batch_noise is not None:
        more = num_steps * ((batch_noise / _MEAN_DOUBTFUL) ** 2 - 1)
        reason = (
            f"minibatches leave the mean uncertain by about {batch_noise:.2g} sds: "
            f"{max(more, 1):,.0f} more steps would bring that below {_MEAN_DOUBTFUL}"
        )
        remedies = Remedy.MORE_STEPS, Remedy.LARGER_BATCHES, Remedy.REREAD
        findings.append(graded(batch_noise, _MEAN_DOUBTFUL, _NOISE_BAD, reason, *remedies))
    if size >= 2 * dim and size > _FEW and trajectory is None:  # chains know their tails and modes far better
        metrics["separation"], smaller = _two_groups(u, t)
        known = clear and bool(np.all(np.isfinite(values)))
        findings += [
            _on_tails(metrics["growth"], metrics["radius"]),
            _on_groups(metrics["separation"], smaller, x[sample], values[sample] if known else None),
        ]
    metrics["dispersion"] = float(np.median(dispersion))
    metrics |= {"dispersion_min": float(dispersion.min()), "dispersion_max": float(dispersion.max())}
    good = f"dispersion {dispersion.min():.2f} to {dispersion.max():.2f}"
    if clear:
        good += f", the mean within about {max(error, batch_noise or 0.0, _FINEST):.2f} sds"
    if batch_noise is None:
        good += f", KSD like that of {draws:.0f} independent draws"
    if size <= dim:
        good += f"; for the correlations of {dim} parameters use result.draws(), not the {size:.0f} particles"
    return verdict_of(findings, metrics, f"{good} (a mode that no particle found would not show)")


def verdict_of(findings: Iterable[Finding | None], metrics: Mapping[str, float], good: str = "") -> Verdict:
    """Return the verdict by the worst of the findings; `good` is the reason where there are none."""
    found = sorted(filter(None, findings), key=lambda finding: -_LEVELS.index(finding.level))
    if found:
        return Verdict(found[0].level, tuple(found), metrics)
    return Verdict("good", (Finding("good", good),), metrics)


def _measure(particles, scores):
    """Return the metrics, the mean of the Stein kernel at each particle itself, and points and scores of the cloud."""
    u, t = in_cloud(particles, scores)
    ksd_squared, own = stein_kernel_means(u, t, wide_bandwidth(u))
    pull, squares = -np.sum(t * u, axis=1), np.sum(u**2, axis=1)
    covariance = np.mean((pull - np.mean(pull)) * (squares - np.mean(squares)))
    growth = covariance / max(np.var(squares), 1e-12) * np.mean(squares)
    metrics = {
        # Beyond a million draws for every particle it is rounding.
        "draws_per_particle": own / max(len(u) * ksd_squared, 1e-6 * own),
        "mean_error": mean_error(u, t),
        "growth": growth / max(abs(np.mean(pull)), 1e-6),
        "radius": covariance / (2 * particles.shape[1]),
    }
    return {name: float(value) for name, value in metrics.items()}, own, u, t


def graded(value: float, doubtful: float, bad: float, reason: str, *remedies: Remedy) -> Finding | None:
    """Return a finding where a value is above the first limit; above the second it is bad."""
    return Finding("bad" if value > bad else "doubtful", reason, remedies) if value > doubtful else None


def _on_number(size, dim, *, explored):
    if size < _FEW:
        return Finding("doubtful", f"{size:.0f} particles say little about the spread", (Remedy.ENOUGH_PARTICLES,))
    reason = (
        f"{size:.0f} particles in {dim} dimensions capture the scale of each parameter but not all correlations: those "
        f"take more than {dim} particles, preferably {2 * dim}"
    )
    # Who explored knows them: `result.draws()` has as many states as anybody wants.
    return Finding("doubtful", reason, (Remedy.MORE_PARTICLES,)) if size <= dim and not explored else None


def _on_lost(log_densities):
    if np.all(np.isnan(log_densities)):  # a target that knows only its scores
        return None
    lost, num_particles = int(np.sum(~np.isfinite(log_densities))), len(log_densities)
    reason = f"the log density or its score is not finite at {lost} of {num_particles} particles"
    return graded(lost / num_particles, 0.0, 0.5, reason, Remedy.LOG_SPACE, Remedy.CLOSER_START)


def _on_spread(dispersion, num_particles, *, moving):
    low, middle, high = dispersion.min(), np.median(dispersion), dispersion.max()
    span = f"dispersion {low:.2f} to {high:.2f}"
    few = num_particles <= len(dispersion)  # too few to follow all correlations, which lowers the dispersion
    least = 0.25 if few else 1 / _DISPERSION_BAD
    if low < least or high > _DISPERSION_BAD:
        fair = 1 / _DISPERSION_BAD <= middle <= _DISPERSION_BAD and high <= 2 * _DISPERSION_BAD
        level = "doubtful" if fair else "bad"
    elif low < 1 / _DISPERSION_DOUBTFUL or high > _DISPERSION_DOUBTFUL:
        level = "doubtful"
    else:
        return None
    if middle >= least and high - 1 > 1 - low:
        return Finding(level, f"some coordinates are still too wide ({span})", (Remedy.MORE_STEPS,))
    if low < _OUTWARDS:  # which is not too little spread
        where = "" if middle < _OUTWARDS else "in some coordinates "
        reason = f"{where}the scores push the particles apart, as happens between modes or far out in a heavy tail"
        return Finding(level, f"{reason} ({span})", (Remedy.MORE_STEPS, Remedy.WIDER_START))
    if middle >= least:
        remedies = (Remedy.MORE_STEPS,) if moving else (Remedy.MORE_PARTICLES, Remedy.MORE_STEPS)
        return Finding(level, f"some coordinates have too little spread ({span})", remedies)
    if moving:
        return Finding(level, f"the particles have not spread out yet ({span})", (Remedy.MORE_STEPS,))
    reason = f"the particles have collapsed ({span}, where 1 is right)"
    return Finding(level, reason, (Remedy.MORE_PARTICLES, Remedy.DEFAULT_METHOD))


def _dispersion_beyond_chance(trajectory):
    """Return the smallest, the median and the largest dispersion, as far from 1 as three standard errors leave it."""
    low = trajectory["dispersion_min"] + 3 * trajectory["dispersion_min_error"]
    high = trajectory["dispersion_max"] - 3 * trajectory["dispersion_max_error"]
    return np.array([min(low, 1.0), trajectory["dispersion"], max(high, 1.0)])


def _is_rising(history):
    spread = np.asarray((history or {}).get("dispersion", ()), float)
    return len(spread) >= 4 and bool(spread[-1] > spread[len(spread) // 2] + 0.05)


def _on_outliers(points, weights):
    n = len(points)
    weights = np.full(n, 1 / n) if weights is None else weights
    centered = points - weights @ points
    sds = np.sqrt(weights @ centered**2)
    far = np.max(np.abs(centered) / np.maximum(sds, np.finfo(np.float32).tiny), axis=1) > _FAR_OUT
    count = int(np.sum(far & (weights > 0.1 / n)))  # lighter ones hardly count towards the spread
    reason = f"{count} of {n} particles lie more than {_FAR_OUT:.0f} sds from the mean and inflate the spread"
    remedies = (Remedy.CLOSER_START, Remedy.MORE_PARTICLES, Remedy.WEIGHTS)
    return Finding("doubtful", reason, remedies) if count else None


def _on_trajectory(trajectory):
    """Return what the chains say that the particles are: whether they agree, and how well they know the sds."""
    mixing, error = trajectory["mixing"], trajectory["sd_error"]
    apart = (
        f"the exploring particles disagree (R-hat {mixing:.2g}): the result may still depend on where they started, "
        "for example on how many started in each mode"
    )
    modes = (
        f"the particles found {trajectory['modes']} modes and do not move between them; the weights of the modes are "
        "estimates of their mass"
    )
    remedies: tuple[Remedy, ...] = (Remedy.WIDER_START, Remedy.ANNEALING)
    if trajectory["labels_switch"]:
        remedies = (Remedy.ORDER,)
        modes += ". They look like copies of one mode with labels switched, as in a mixture with unordered components"
    lost = (
        f"{trajectory['lost']:.0%} of the particles stayed in a region without mass, or left it too late, and are not "
        "counted"
    )
    drift = (
        f"some parameters are still moving: a mean moved by {trajectory['drift']:.2g} sds from the first half of the "
        "exploration to the second"
    )
    known = f"known only to about {error:.0%}" if error < 1 else "not known at all"
    uncertain = f"some sds are {known}, which is typical of heavy tails and funnels"
    cut_off = (
        f"the log density ends at an edge, beyond which it is minus infinity, and {trajectory['blocked']:.1%} of the "
        "moves led beyond it: Stein's identities cannot check mean and spread"
    )
    return [
        Finding("doubtful", cut_off, (Remedy.CONSTRAINTS, Remedy.NUTS)) if trajectory["blocked"] > _CUT_OFF else None,
        graded(trajectory["drift"], _MEAN_DOUBTFUL, _MEAN_BAD, drift, Remedy.MORE_STEPS, Remedy.CLOSER_START),
        graded(mixing, _MIXING_DOUBTFUL, _MIXING_BAD, apart, Remedy.MORE_STEPS, Remedy.NUTS),
        graded(error, _SD_DOUBTFUL, _SD_BAD, uncertain, Remedy.MORE_STEPS, Remedy.MORE_PARTICLES),
        graded(trajectory["lost"], _LOST_DOUBTFUL, _LOST_BAD, lost, Remedy.MORE_STEPS, Remedy.CLOSER_START),
        Finding("doubtful", modes, remedies) if trajectory["modes"] > 1 else None,
    ]


def _on_long_tails(trajectory, name_of):
    if trajectory["tail"] <= _LONG_TAIL:
        return None
    reason = (
        f"{name_of(trajectory['tail_of'])} has a tail so long that no sample of this size knows its mean and sd, which "
        f"may be far too small (Pareto's k of its squares is {trajectory['tail']:.2f})"
    )
    return Finding("doubtful", reason, (Remedy.QUANTILES,))


def _on_tails(growth, radius):
    if growth >= _HEAVY_TAILED or radius >= _SHORT_RADIUS:
        return None
    reason = (
        "the tails are heavy or the posterior is a funnel, and the particles do not reach far enough: sds may be 10 to "
        "25% too small"
    )
    return Finding("doubtful", reason, (Remedy.MORE_PARTICLES, Remedy.NUTS))


def _on_groups(separation, smaller, points, log_densities):
    """Compare the share of the particles in the smaller of two groups with its mass, as if both were Gaussian."""
    if separation < _SEPARATED:
        return None
    share = np.mean(smaller)
    where = (
        f"the particles form two groups, {separation:.0f} of their own sds apart; the smaller has {share:.0%} of the "
        "particles"
    )
    remedies = (Remedy.WIDER_START, Remedy.ANNEALING)
    if log_densities is None or min(np.sum(smaller), np.sum(~smaller)) <= points.shape[1] + 1:
        return Finding("doubtful", f"{where}, which may be correct or may be left over from the start", remedies)
    smaller_mass, larger_mass = (_log_mass(points[part], log_densities[part]) for part in (smaller, ~smaller))
    mass = 1 / (1 + np.exp(np.clip(larger_mass - smaller_mass, -50, 50)))
    reason = f"{where} but about {mass:.0%} of the mass"
    return graded(abs(mass - share), _MASS_DOUBTFUL, _MASS_BAD, reason, *remedies)


def _two_groups(u: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
    """Cut the cloud in two where it falls apart most clearly; return the separation, and who is in the smaller group.

    Candidates are the directions in which scores vary most, in units of the cloud: there the cloud is wider than its
    parts. The separation is in the groups' own sds along the direction.
    """
    directions = np.linalg.svd(t - t.mean(axis=0), full_matrices=False)[2][:3]
    return max((_best_cut(u @ direction) for direction in directions), key=lambda cut: cut[0])


def _best_cut(positions):
    """Return the largest separation of two groups on a line, and who is in the smaller one."""
    order, n = np.argsort(positions), len(positions)
    ordered, counts = positions[order], np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    means = sums / counts, (np.sum(ordered) - sums) / (n - counts)
    within = (np.sum(ordered**2) - counts * means[0] ** 2 - (n - counts) * means[1] ** 2) / n
    # Groups of a few particles are outliers, which are looked for elsewhere.
    allowed = np.minimum(counts, n - counts) >= max(3, 0.03 * n)
    separations = np.where(allowed, (means[1] - means[0]) / np.sqrt(np.maximum(within, 1e-12)), 0.0)
    cut = int(np.argmax(separations))
    lower = np.zeros(n, bool)
    lower[order[: cut + 1]] = True
    return float(separations[cut]), lower if np.mean(lower) <= 0.5 else ~lower


def _log_mass(points, log_densities):
    """The log mass of a group as if it were Gaussian: mean log density plus entropy, up to a common constant."""
    covariance = np.cov(points, rowvar=False, bias=True).reshape(points.shape[1], -1)
    return np.mean(log_densities) + 0.5 * np.linalg.slogdet(covariance)[1]
