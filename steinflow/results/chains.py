"""Whether to believe chains of NUTS: by the rules for chains, not by the rules for particles.

Draws of a chain are neither even nor independent, so their KSD and dispersion say little. What counts is
whether the chains agree (R-hat of ranks, each chain split in two), how many independent draws they are worth (bulk and
tails), and whether trajectories diverged. The limits come from Vehtari et al. (2021, arXiv:1903.08008).
"""

import numpy as np

from steinflow.results.verdict import Finding, Remedy, Verdict, graded, verdict_of
from steinflow.typing import Particles

_RHAT_DOUBTFUL, _RHAT_BAD = 1.01, 1.1  # the second is the limit that was usual before
_DRAWS_DOUBTFUL, _DRAWS_BAD = 400, 100  # of all chains; fewer do not even give R-hat a standard error
_DIVERGENT_BAD = 0.01  # of the trajectories
_TAILS = (0.05, 0.95)


def judge_chains(points: Particles, num_chains: int, num_divergent: int) -> Verdict:
    """Return the verdict on chains.

    Args:
        points: unconstrained draws, one chain after another.
        num_chains: how many chains there are.
        num_divergent: how many trajectories diverged, over all chains.
    """
    chains = np.asarray(points, float).reshape(num_chains, -1, points.shape[1])
    num_draws = chains.shape[1]
    if num_draws < 8 or not np.all(np.isfinite(chains)):
        reason = f"{num_draws} draws in each chain are too few to judge, or some of them are not finite"
        return verdict_of([Finding("bad", reason, (Remedy.MORE_STEPS,))], {})
    rhat, bulk, tails = (float(value) for value in _agreement(chains))
    share = num_divergent / (num_chains * num_draws)
    diverged = f"{num_divergent} trajectories diverged: the chains may miss narrow regions, such as a funnel's neck"
    findings = [
        graded(rhat, _RHAT_DOUBTFUL, _RHAT_BAD, f"the chains do not agree (R-hat {rhat:.3g})", Remedy.MORE_STEPS),
        *(
            graded(
                1 / max(draws, 1e-6),
                1 / _DRAWS_DOUBTFUL,
                1 / _DRAWS_BAD,
                f"{of} are worth only {draws:.0f} independent draws; {_DRAWS_DOUBTFUL} are needed",
                Remedy.MORE_STEPS,
            )
            for of, draws in (("the chains", bulk), ("the tails of the chains", tails))
        ),
        graded(share, 0.0, _DIVERGENT_BAD, diverged, Remedy.SMALLER_STEPS),
        Finding("doubtful", "there is only one chain, so nothing to compare it with", (Remedy.MORE_CHAINS,))
        if num_chains == 1
        else None,
    ]
    good = (
        f"{num_chains} chains agree (R-hat {rhat:.3g}), worth {bulk:.0f} independent draws, {tails:.0f} in the tails, "
        "and none diverged (a mode that no chain found would not show)"
    )
    metrics = {"rhat": rhat, "draws": bulk, "draws_in_tails": tails, "divergent": float(num_divergent)}
    return verdict_of(findings, metrics, good)


def _agreement(chains):
    """Return the worst R-hat of any coordinate, and the fewest effective draws of its bulk and of its tails."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    centred = np.abs(chains - np.median(chains, axis=(0, 1)))  # folded: the R-hat of the spread
    rhat = max(np.max(split_gelman_rubin(_normal_scores(values))) for values in (chains, centred))
    halves = _halves(chains)
    bulk = np.min(effective_sample_size(_normal_scores(halves)))
    limits = np.quantile(chains, _TAILS, axis=(0, 1))
    beyond = (effective_sample_size((halves <= limit).astype(float)) for limit in limits)
    # A half that never crosses the limit has no variance, and says nothing.
    tails = min(np.min(np.nan_to_num(draws, nan=chains[..., 0].size)) for draws in beyond)
    return rhat, bulk, tails


def _normal_scores(chains):
    """Return the ranks of all draws of a coordinate as normal quantiles, so that heavy tails do no harm."""
    from scipy import special, stats  # most of a second to import

    flat = chains.reshape(-1, chains.shape[-1])
    ranks = stats.rankdata(flat, axis=0)
    return special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(chains.shape)


def _halves(chains):
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])
