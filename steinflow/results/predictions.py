"""Whether to believe the predictions of a network, whose weights mean nothing by themselves.

Members of an ensemble stand in different modes, and no amount of moves makes their weights agree. What counts is
whether their average would come out the same again, whether it still drifts, and whether it explains the rows that it
was fitted to. All of it is in units of the predictive standard deviation, noise included, since that is the precision
with which anybody can see a difference. Where rows were held out for a part of the run, they say whether predictions
keep what they promise: those of networks that had not seen these rows, which count only afterwards.
"""

from collections.abc import Mapping

import numpy as np

from steinflow.results.verdict import Finding, Remedy, Verdict, graded, verdict_of
from steinflow.targets.base import Target
from steinflow.targets.observations import Observations
from steinflow.typing import Params

_MORE = Remedy.MORE_PARTICLES
_ROWS = 256  # that are predicted
_FEW_MEMBERS = 4
_ERROR_DOUBTFUL, _ERROR_BAD = 0.2, 0.5  # of a predicted mean, in predictive sds
_DRIFT_DOUBTFUL, _DRIFT_BAD = 0.1, 0.3  # between the two halves of the networks of every member, likewise
_SURPRISE_DOUBTFUL, _SURPRISE_BAD = 1.3, 2.0  # squared errors on fitted rows over what was expected
_BROKEN_DOUBTFUL, _BROKEN_BAD = 0.03, 0.12  # share of rows for which a promise was not kept, beyond chance
_UNSURE_DOUBTFUL, _UNSURE_BAD = 0.1, 0.35  # share of rows by which they come true more often than promised, likewise


def judged_by_predictions(target: Target, particles: Params, num_chains: int) -> dict[str, dict[str, float]]:
    """Return what `result.info` says about the predictions of a target whose parameters mean nothing by themselves."""
    found = {} if target.identified else prediction_findings(target.observations, particles, num_chains)
    return {"predictions": found} if found else {}


def prediction_findings(observations: Observations | None, particles: Params, num_chains: int) -> dict[str, float]:
    """Return what the predictions of an ensemble say about themselves; {} where the model predicts nothing.

    Args:
        observations: of the model.
        particles: in the user's space; those of one member follow each other.
        num_chains: the number of members; 1 where every particle is one.

    Returns:
        `members`, their number; `error`, the standard error of the predicted means by the scatter of the members;
        `drift`, how far the predicted means moved between both halves of the networks of all members; `between`, the
        share of the members' means in the variance of all networks' means; `surprise`, squared errors on fitted rows
        relative to the predictive variance, about 1 or less where that is right.
    """
    found = None if observations is None else observations.predictions(particles, _ROWS)
    if found is None:
        return {}
    means, variances, observed = (np.asarray(part, float) for part in found)
    members = len(means) if num_chains == 1 else num_chains
    by_member = means.reshape(members, -1, means.shape[1])
    mean, epistemic = means.mean(axis=0), means.var(axis=0)
    total = np.mean(variances) + np.mean(epistemic)
    between = by_member.mean(axis=1).var(axis=0, ddof=1) if members > 1 else np.zeros_like(mean)
    half = by_member.shape[1] // 2
    drift = by_member[:, :half].mean((0, 1)) - by_member[:, -half:].mean((0, 1)) if half else np.zeros_like(mean)
    return {
        "members": float(members),
        "error": float(np.sqrt(np.mean(between) / members / total)),
        "drift": float(np.sqrt(np.mean(drift**2) / total)),
        "between": float(np.mean(between) / max(np.mean(epistemic), np.finfo(float).tiny)),
        "surprise": float(np.mean((observed - mean) ** 2) / total),
    }


def judge_predictions(found: Mapping[str, float], held_out: Mapping[str, float]) -> Verdict:
    """Return the verdict on what `prediction_findings` found, and on how rows held out kept predictions ({}: none)."""
    members, error, drift, surprise = (found[name] for name in ("members", "error", "drift", "surprise"))
    again = f"another ensemble would predict means that differ by about {error:.2f} predictive sds"
    moving = f"predictions still move: by {drift:.2f} predictive sds from the first to the second half of the networks"
    surprised = f"the errors on fitted rows are {surprise**0.5:.1f} times as large as the networks expect"
    few = Finding("doubtful", f"{members:.0f} members are too few to show how much they disagree", (_MORE,))
    findings = [
        few if members < _FEW_MEMBERS else None,
        graded(error, _ERROR_DOUBTFUL, _ERROR_BAD, again, _MORE, Remedy.MORE_STEPS),
        graded(drift, _DRIFT_DOUBTFUL, _DRIFT_BAD, moving, Remedy.MORE_STEPS),
        graded(surprise, _SURPRISE_DOUBTFUL, _SURPRISE_BAD, surprised, Remedy.MORE_STEPS),
    ]
    kept = ""
    if held_out:
        promised, come_true, rows = (held_out[name] for name in ("promised", "kept", "held_out_rows"))
        chance = 2 * (promised * (1 - promised) / rows) ** 0.5
        kept = (
            f"predictions that promise {promised:.0%} came true for {come_true:.0%} of {rows:.0f} held-out rows "
            f"(± {chance:.0%} by chance)"
        )
        sure, limits = f"predictions are too sure: {kept}", (_BROKEN_DOUBTFUL, _BROKEN_BAD)
        findings.append(graded(held_out["overconfidence"], *limits, sure, Remedy.LESS_SURE, Remedy.MORE_STEPS))
        unsure = (
            f"predictions are too cautious: they came true for {held_out['underconfidence']:.0%} more of {rows:.0f} "
            "held-out rows than they promise, beyond chance"
        )
        limits = _UNSURE_DOUBTFUL, _UNSURE_BAD
        findings.append(graded(held_out["underconfidence"], *limits, unsure, Remedy.LESS_FREE, Remedy.MORE_STEPS))
    good = (
        f"{members:.0f} members agree on predictions: another ensemble would differ by about {error:.2f} predictive "
        f"sds{', and ' + kept if kept else ''}. Rows unlike the fitted ones are not judged, and single weights mean "
        "nothing"
    )
    return verdict_of(findings, {**found, **held_out}, good)
