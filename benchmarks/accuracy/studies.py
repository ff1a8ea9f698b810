"""Studies on the suite, each with a table or a figure of its own in docs/tuning-free.md."""

import collections
from pathlib import Path

import numpy as np

import steinflow as sf
from benchmarks.accuracy.contenders import (
    LEVELS,
    blackjax_svgd,
    figures,
    numpyro_svgd,
    nuts,
    pymc_svgd,
    steinflow,
    svgd,
)
from benchmarks.accuracy.problems import PROBLEMS, REGRESSIONS, gaussian
from benchmarks.accuracy.rows import kept, row, truth
from benchmarks.pages import put

PAGE = "docs/tuning-free.md"

# Right and wrong on purpose: too few steps, steps too small and too large, kernels that collapse, few particles.
WAYS = {
    "default": (sf.SVGD(), 1000, 100),
    "100 steps": (sf.SVGD(), 100, 100),
    "20 steps": (sf.SVGD(), 20, 100),
    "30 particles": (sf.SVGD(), 1000, 30),
    "paper, step 0.01": (sf.SVGD.paper(0.01), 1000, 100),
    "paper, step 0.1": (sf.SVGD.paper(0.1), 1000, 100),
    "paper, step 1": (sf.SVGD.paper(1.0), 1000, 100),
}
NOT_JUDGED = ("gaussian d=500, condition 10^2", "minibatches of 500 in 10^5 rows", "network of 16 weights")


def answer(found):
    """Sort an answer by its errors."""
    low, high = found["ratio"]
    if found["error"] <= 0.1 and low >= 0.85 and high <= 1.15:
        return "right"
    return "off" if found["error"] <= 0.25 and low >= 0.7 and high <= 1.4 else "wrong"


def verdicts(words):
    """Count how often the verdict is right, both ways; without words over the whole suite."""
    counts, surprises = collections.Counter(), []
    for name, make in PROBLEMS.items():
        if name in NOT_JUDGED or (words and not any(word in name for word in words)):
            continue
        for way, (method, num_steps, num_particles) in WAYS.items():
            problem = make()
            settings = (problem, truth(name, problem), num_particles, method, num_steps)
            found = kept(f"verdict {name}, {way}", svgd, *settings)
            counts[answer(found), found["verdict"]] += 1
            if (answer(found), found["verdict"]) in (("right", "bad"), ("wrong", "good")):
                surprises.append(f"{name}, {way}: {answer(found)}, but {'; '.join(found['reasons'])}")
    print(counted(counts), *surprises, sep="\n")


def counted(counts):
    """Return a table of how often the verdict said what, by what the answer is."""
    lines = ["| the answer is | good | doubtful | bad |", "|---|---|---|---|"]
    for kind in ("right", "off", "wrong"):
        lines.append(f"| {kind} | " + " | ".join(str(counts[kind, level]) for level in LEVELS) + " |")
    return "\n".join(lines)


REFINED = {
    "gaussian d=20, condition 10^3": "paper, step 0.1",
    "banana": "paper, step 0.1",
    "student t(5), d=10": "default",
    "funnel, d=5": "default",
    "eight schools": "100 steps",
    "logistic german": "100 steps",
    "paper's mixture from N(-10, 1)": "100 steps",
}


def refinements(words):
    """What weights, thinning and moves of NUTS make of an answer that is not quite right."""
    lines = ["| target and run | as it is | reweighted | thinned to 50 | moved by NUTS | check |", "|---" * 6 + "|"]
    for name, way in REFINED.items():
        if words and not any(word in name for word in words):
            continue
        found = kept(f"refined {name}", _refined, name, way)
        cells = ["{:.3f}; {:.2f} .. {:.2f}".format(found[kind]["error"], *found[kind]["ratio"]) for kind in _KINDS]
        lines.append("| " + " | ".join([f"{name}, {way}", *cells, found["check"].split(":")[0]]) + " |")
    _show("refinements", lines, words)


_KINDS = ("as it is", "reweighted", "thinned", "moved")


def _refined(name, way):
    problem, (method, num_steps, num_particles) = PROBLEMS[name](), WAYS[way]
    exact = truth(name, problem)
    start = problem.particles(num_particles)
    result = sf.fit(problem.log_density, method, particles=start, num_steps=num_steps, progress=False)
    check = result.check()
    reweighted = result.reweighted()
    # Particles as often as they weigh, so that all are compared alike.
    copies = np.repeat(np.arange(len(result)), np.round(2000 * np.asarray(reweighted.weights)).astype(int))
    clouds = {
        "as it is": result.particles,
        "reweighted": result.particles[copies],
        "thinned": result.thinned(50).particles,
        "moved": check.moved.particles,
    }
    return {
        **{kind: figures(problem, exact, particles, 0.0, 0) for kind, particles in clouds.items()},
        "check": str(check),
    }


EXPLORED = (
    "eight schools",
    "funnel, d=10",
    "mixture d=5, 4 sds apart",
    "student t(5), d=10",
    "laplace, d=5",
    "banana",
    "logistic german",
)


def exploration(words):
    """What exploration does, into the page: the default with it and without."""
    settled = sf.SVGD(exploration=None)
    lines = ["| target | mean error with | without | sd ratio with | without |", "|---" * 5 + "|"]
    for name in EXPLORED:
        problem = PROBLEMS[name]()
        explored = row(name, problem, 100, "steinflow")
        plain = kept(f"unexplored {name}", steinflow, problem, truth(name, problem), 100, settled)
        ratios = ("{:.2f} .. {:.2f}".format(*found["ratio"]) for found in (explored, plain))
        lines.append(f"| {name} | {explored['error']:.3f} | {plain['error']:.3f} | {' | '.join(ratios)} |")
    _show("exploration", lines, words)


def _show(name, lines, words):
    """Print a table; without words, put it into the page."""
    print(*lines, sep="\n")
    if not words:
        put(PAGE, name, "\n".join([*lines, ""]))


STEPS = (20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)


def evaluations(words):
    """Gradients and seconds to be as accurate as 1,000 draws of NUTS, mean and sds both, on the regressions.

    An evaluation is the gradient at one point: a step of n particles counts as n, a leapfrog step of NUTS as one.
    """
    lines = [
        "| target | NUTS: mean error | sd error | gradients | seconds | steinflow: n x steps | mean error | sd error "
        "| gradients | seconds |",
        "|---" * 10 + "|",
    ]
    for name in REGRESSIONS:
        if words and not any(word in name for word in words):
            continue
        found = kept(f"evaluations {name}", _evaluations, name)
        cells = [name]
        for who in ("NUTS", "steinflow"):
            figure = found[who]
            if figure is None:
                cells += ["not reached", "", "", "", ""]
                continue
            cells += [f"{figure['particles']} x {figure['steps']}"] if who == "steinflow" else []
            cells += [f"{figure['error']:.3f}", f"{figure['ratio_rms']:.3f}"]
            cells += [f"{figure['evaluations']:,.0f}", f"{figure['seconds']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    _show("evaluations", lines, words)


def _evaluations(name):
    problem = PROBLEMS[name]()
    exact = truth(name, problem)
    runs = [nuts(problem, exact, seed=seed) for seed in range(4)]
    names = ("error", "ratio_rms", "evaluations", "seconds")
    typical = {key: float(np.sqrt(np.mean([run[key] ** 2 for run in runs]))) for key in names}
    tried = []
    for num_particles in (50, 100, 200):
        for num_steps in STEPS:
            if tried and num_particles * num_steps >= min(run["evaluations"] for run in tried):
                break
            found = svgd(problem, exact, num_particles, sf.SVGD(), num_steps)
            if found["error"] <= typical["error"] and found["ratio_rms"] <= typical["ratio_rms"]:
                # Without compiling, as NUTS was timed.
                again = svgd(problem, exact, num_particles, sf.SVGD(), num_steps)
                found |= {"seconds": again["seconds"], "particles": num_particles, "steps": num_steps}
                tried.append(found)
                break
    best = min(tried, key=lambda run: run["evaluations"], default=None)
    return {"NUTS": typical, "steinflow": best}


DIMENSIONS = (1, 2, 5, 10, 20, 50, 100)


def dimensions(words):
    """The mean sd ratio of 100 particles on Gaussians of condition 10, by dimension, as a figure."""
    peers = {
        "BlackJAX": blackjax_svgd,
        "NumPyro": numpyro_svgd,
        "PyMC": pymc_svgd,
        "the paper's, step 0.3": lambda *args: svgd(*args, sf.SVGD.paper(0.3)),
        "steinflow": lambda *args: svgd(*args, sf.SVGD()),
    }
    curves = {}
    for who, run in peers.items():
        if words and who not in words:
            continue
        curves[who] = []
        for dim in DIMENSIONS:
            problem = gaussian(dim, 10.0)
            found = kept(f"dimension {dim}, {who}", run, problem, (problem.mean, problem.covariance), 100)
            curves[who].append(found["ratio"])
            print(who, dim, found["ratio"], flush=True)
    _draw(curves)


def _draw(curves):
    from steinflow.results.plots import style

    with style() as plt:
        figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
        for who, ratios in curves.items():
            low, high = np.transpose(ratios)
            (line,) = axes.plot(DIMENSIONS, np.sqrt(low * high), marker="o", label=who)
            axes.fill_between(DIMENSIONS, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(1, color="0.6", linewidth=0.8)
        axes.set(xscale="log", xticks=DIMENSIONS, xticklabels=DIMENSIONS, ylim=(0, 1.3))
        axes.minorticks_off()
        axes.set(xlabel="dimension", ylabel="particle sd / true sd", title="100 particles on a Gaussian target")
        axes.legend(frameon=False, ncols=2)
        figure.savefig(Path(__file__).parents[2] / "docs" / "images" / "dimensions.png", dpi=150)
